"""What only the Load page uses."""

"""What only the What if page uses."""

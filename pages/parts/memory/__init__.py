"""What only the Memory page uses."""

"""What only the Repeats page uses."""

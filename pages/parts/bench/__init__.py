"""What only the Bench page uses."""

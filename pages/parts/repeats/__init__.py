"""What the Repeats page alone uses."""

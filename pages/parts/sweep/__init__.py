"""What the Sweep page alone uses."""

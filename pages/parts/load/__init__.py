"""What the Load page alone uses."""

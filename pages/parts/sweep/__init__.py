"""What only the Sweep page uses."""

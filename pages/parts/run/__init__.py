"""What only the Run page uses."""

"""What only the History page uses."""

"""What only the Query page uses."""

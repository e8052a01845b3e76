"""What only the Compare page uses."""

"""What only the Roofline page uses."""

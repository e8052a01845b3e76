"""`python -m store`: its commands, and the socket at which the store's owner answers them."""

"""`python -m store`: its commands, and the socket of the process that has the store open."""

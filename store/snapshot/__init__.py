"""The snapshot: a read-only copy of the store that SQL questions read, with a description of every table."""

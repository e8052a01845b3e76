"""Storage of keys and values, and attention over it, for each KV layout."""

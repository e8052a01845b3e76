"""Keys and values in memory, and attention over them, for each KV layout."""

"""The snapshot: a read-only copy of the store for SQL queries, with a description of every table and column."""

"""What a run leaves on disk: its schema, its writer, its reader, its locks."""

"""Models: download, conversion, loading, tokenizing."""

"""How much memory a batch needs, and where it runs out."""

"""Plain Python over requests and a clock: no torch, no transformers, no database, no page."""

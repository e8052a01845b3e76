"""Benchmarks of the app: its pages, its queue and its worker."""

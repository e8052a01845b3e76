"""Engines under arriving requests: steady window, capacity, queue growth, goodput."""

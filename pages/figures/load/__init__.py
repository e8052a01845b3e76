"""Figures of a load test: rates, latency, queue."""

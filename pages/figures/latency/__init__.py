"""Figures of latencies: cumulative distributions."""

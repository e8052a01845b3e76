"""Figures of forward passes against the machine's limits."""

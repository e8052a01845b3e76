"""Experiments of several runs: plans, sweeps, repeats, overhead, and their tables."""

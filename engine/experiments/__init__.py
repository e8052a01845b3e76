"""What several runs make: plans, sweeps, repeats, overhead, and their tables."""

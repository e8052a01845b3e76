"""Graph execution: a decoder of few kernels, captured as CUDA graphs for a ladder of sizes, replayed every pass."""

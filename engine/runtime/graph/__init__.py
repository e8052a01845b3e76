"""Graph execution: a decoder of few kernels, captured as CUDA graphs in several sizes, and replayed every pass."""

"""The lab's GPU kernels, written in Triton: attention over block tables, and the small kernels around it.

Nothing is imported here: kernels need Triton, which CPU builds of PyTorch lack. Import a kernel's module only with a
CUDA device, or under Triton's interpreter (TRITON_INTERPRET=1 before Triton's first import), as the tests do.

Shapes: T tokens, B rows, H query heads, K KV heads, G = H / K query heads of one KV head, D head width, P positions of
the KV pool, R rows of block tables of N blocks each, C hidden width, I MLP width, V vocabulary.
"""

"""The lab's own kernels for a GPU, written in Triton: attention over block tables, and the small ones around it.

Nothing is imported here: a kernel's module needs Triton, which CPU builds of PyTorch do not bring. Import a kernel's
module where a CUDA device is there, or under Triton's interpreter (TRITON_INTERPRET=1 before Triton's first import), as
the tests do.

Letters of the shapes: T tokens, B rows, H query heads, K KV heads, G = H / K query heads of one KV head, D head width,
P positions of the KV pool, R rows of block tables of N blocks each, C hidden width, I MLP width, V vocabulary.
"""

"""Sizes of memory in bytes, as in GiB and MiB."""

MIB = 2**20
GIB = 2**30

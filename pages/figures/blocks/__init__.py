"""Figures of the paged KV pool."""

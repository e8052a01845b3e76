"""Figures of repeated runs."""

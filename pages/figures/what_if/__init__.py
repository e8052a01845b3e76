"""Figures of the What if page."""

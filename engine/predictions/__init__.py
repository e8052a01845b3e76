"""Predictions made before a run, and how they are graded."""

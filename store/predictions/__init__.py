"""Predictions: written before a run, closed at its start, simulated and graded after."""

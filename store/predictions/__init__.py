"""Predictions: made before a run, closed at its start, simulated and graded after its end."""

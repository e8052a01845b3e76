"""Calibration, measured passes and parity."""

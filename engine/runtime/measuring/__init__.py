"""Measurements of the machine and of correctness: calibration, measured passes and parity."""

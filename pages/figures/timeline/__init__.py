"""Figures over time: slots, queue, forward passes."""

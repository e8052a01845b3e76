"""Figures of waste: padding, dead slots, unused KV memory."""

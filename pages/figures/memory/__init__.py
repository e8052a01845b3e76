"""Figures of planned and measured memory."""

"""Predictions on several pages: the form, the cards, the published predictions."""

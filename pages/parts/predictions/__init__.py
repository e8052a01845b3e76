"""A kit for predictions: the form, the cards, the published ones."""

"""Takes run logs, experiments and calibrations from disk into the store, and checks the store against them."""

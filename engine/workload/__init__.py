"""The requests of a run: prompts, output budgets, arrivals."""

"""The checks behind a run's validity badges."""

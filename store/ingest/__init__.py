"""Ingest: reads run logs, experiments and calibrations from disk into the store, and verifies the store against
them."""

"""Runs as one file, out and in again; tables as Parquet and CSV for other tools."""

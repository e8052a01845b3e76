"""Export and import of runs as one file; tables as Parquet and CSV for other tools."""

"""The store: the rows of every run in DuckDB. One process owns the file; others reach it through a socket.

The owner opens `Store`; `Recorder` keeps it up to date with the run logs on disk; `python -m store` is the command
line.
"""

from store.database import StoreHeld
from store.ingest.run_log import IngestReport
from store.recorder import Recorder
from store.store import Store

__all__ = ["IngestReport", "Recorder", "Store", "StoreHeld"]

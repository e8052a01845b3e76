"""The store: every run's rows in DuckDB. One process owns the file; others ask it through a socket.

`Store` is opened by the owner, `Recorder` keeps it up with the run logs on disk, `python -m store` is the command line.
"""

from store.database import StoreHeld
from store.ingest.run_log import IngestReport
from store.recorder import Recorder
from store.store import Store

__all__ = ["IngestReport", "Recorder", "Store", "StoreHeld"]

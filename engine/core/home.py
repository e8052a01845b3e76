"""Where the lab keeps its things: LAB_HOME for runs and the store, the user's cache folder for models."""

from __future__ import annotations

import os
from pathlib import Path


def lab_home() -> Path:
    """LAB_HOME, or ./data: holds lab.duckdb and runs/. The folder may not exist yet."""
    return Path(os.environ.get("LAB_HOME") or "data").expanduser().resolve()


def runs_folder() -> Path:
    """The folder of run folders that the app watches."""
    return lab_home() / "runs"


def cache_folder() -> Path:
    """LAB_CACHE, or the user's cache folder: converted models and the devices' locks, shared by every LAB_HOME."""
    explicit = os.environ.get("LAB_CACHE")
    if explicit:
        return Path(explicit).expanduser().resolve()
    base = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return base / "batching-lab"


def device_lock(device: str) -> Path:
    """The lock of one device of this machine (`cpu`, `cuda`, `cuda:1`): whoever measures holds it."""
    name = "cuda0" if device == "cuda" else device.replace(":", "")
    return cache_folder() / "locks" / f"device-{name}.lock"


def device_locks() -> list[Path]:
    """The locks of all devices that anything was ever measured on here."""
    return sorted((cache_folder() / "locks").glob("device-*.lock"))

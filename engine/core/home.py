"""The lab's folders: LAB_HOME for runs and the store, the user's cache folder for models and locks; its own code."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import engine


def lab_home() -> Path:
    """LAB_HOME, or ./data. It holds lab.duckdb and runs/, and may not exist yet."""
    return Path(os.environ.get("LAB_HOME") or "data").expanduser().resolve()


def runs_folder() -> Path:
    """The folder of run folders that the app watches."""
    return lab_home() / "runs"


def cache_folder() -> Path:
    """LAB_CACHE, or the user's cache folder. It holds converted models and device locks for every LAB_HOME."""
    explicit = os.environ.get("LAB_CACHE")
    if explicit:
        return Path(explicit).expanduser().resolve()
    base = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return base / "batching-lab"


def device_lock(device: str) -> Path:
    """The lock file of one device of this machine (`cpu`, `cuda`, `cuda:1`), held while a process measures on it."""
    name = "cuda0" if device == "cuda" else device.replace(":", "")
    return cache_folder() / "locks" / f"device-{name}.lock"


def device_locks() -> list[Path]:
    """The lock files of all devices of this machine that were ever measured on."""
    return sorted((cache_folder() / "locks").glob("device-*.lock"))


def importable(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment for a child process in which `engine` can be imported from any folder."""
    root = str(Path(engine.__file__).resolve().parents[1])
    path = os.pathsep.join(filter(None, (root, environment.get("PYTHONPATH"))))
    return {**environment, "PYTHONPATH": path}

"""The project's own files, for the tests about its text."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.app_server import ROOT

TEXT_SUFFIXES = {"", ".cfg", ".json", ".lock", ".md", ".py", ".sh", ".sql", ".toml", ".txt", ".yaml", ".yml"}


def tracked_files() -> list[Path]:
    """Every file that git tracks."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [path for line in listed.stdout.splitlines() if (path := ROOT / line).is_file()]


def tracked_texts() -> list[Path]:
    return [path for path in tracked_files() if path.suffix in TEXT_SUFFIXES]


def tracked_python() -> list[Path]:
    return [path for path in tracked_files() if path.suffix == ".py"]

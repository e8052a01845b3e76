"""Models of types without a formula: counted once by their class, in their own process, kept in the user's cache.

The process (`engine.runtime.counting`) builds the model on torch's meta device, which holds no weights. Its
answer, numbers or a refusal, is kept under the digest of the configuration and the version of transformers.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from engine.core.errors import FieldError
from engine.core.format import duration
from engine.core.home import cache_folder, importable

COUNTING_COMMAND = (sys.executable, "-m", "engine.runtime.counting")
ANSWERS_VERSION = 1  # raised when the numbers or their rules change
PATIENCE_S = 180.0  # importing torch can take a minute on a busy machine
MAX_CONFIG_BYTES = 4 * 2**20


def counted_numbers(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The fields of a `ModelShape` that the configuration determines, from the cache or counted now.

    FieldError, with the reason in one line, for a model that cannot be estimated.
    """
    text = json.dumps(config, sort_keys=True)
    file = shapes_folder() / f"{_digest(text)}.json"
    answer = _kept(file)
    if answer is None:
        answer = _count(text)
        _keep(file, answer)
    if "refused" in answer:
        raise FieldError("model", f"model {name} cannot be estimated: {answer['refused']}")
    numbers: dict[str, Any] = answer["numbers"]
    return numbers


def shapes_folder() -> Path:
    """Counted models, a file each."""
    return cache_folder() / "shapes"


def _digest(text: str) -> str:
    try:
        of_library = version("transformers")
    except PackageNotFoundError:
        of_library = ""
    return hashlib.sha256(f"{ANSWERS_VERSION} {of_library} {text}".encode()).hexdigest()


def _count(text: str) -> dict[str, Any]:
    """The answer of a new process: {"numbers": …} or {"refused": reason}."""
    try:
        ended = subprocess.run(
            COUNTING_COMMAND, input=text, capture_output=True, text=True, timeout=PATIENCE_S, env=importable(os.environ)
        )
        answer = json.loads(ended.stdout.strip().rpartition("\n")[2])
    except subprocess.TimeoutExpired:
        raise FieldError(
            "model", f"model: counting its parameters took over {duration(PATIENCE_S)}; try again"
        ) from None
    except (OSError, ValueError):
        raise FieldError("model", "model: its parameters could not be counted: the process ended early") from None
    assert isinstance(answer, dict)
    return answer


def _kept(file: Path) -> dict[str, Any] | None:
    try:
        answer = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return answer if isinstance(answer, dict) and ("numbers" in answer or "refused" in answer) else None


def _keep(file: Path, answer: dict[str, Any]) -> None:
    """Write the answer under a temporary name, then rename it. A cache that cannot be written is no error."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, partial = tempfile.mkstemp(dir=file.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            json.dump(answer, stream)
        os.replace(partial, file)
    except OSError:
        return

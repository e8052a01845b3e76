"""Downloads a model from a hub into the hub's local cache: settings, tokenizer and safetensors (or one GGUF) only.

An unreachable hub is tried once, for a few seconds; a model that is already in the cache is used without it.
"""

from __future__ import annotations

import re
from pathlib import Path

from huggingface_hub import HfApi, snapshot_download
from huggingface_hub.errors import LocalEntryNotFoundError

from engine.runtime.models.configs import one_line
from engine.runtime.models.model_cache import ProgressCallback

_SETTINGS = ["*.json", "*.jinja", "tokenizer.model", "*.txt"]
_ASK_TIMEOUT_S = 10.0


def is_hub_id(name: str) -> bool:
    """Whether `name` has the form owner/model."""
    return re.fullmatch(r"[A-Za-z0-9][\w.-]*/[\w.-]+", name) is not None


def fetch_from_hub(hub_id: str, on_progress: ProgressCallback) -> tuple[Path, str]:
    """The local folder of the hub's model, downloaded if missing, and `hub <id> at <commit>`.

    ValueError with one clear line if the hub has no such model, denies access, or is unreachable while the model is not
    in the local cache.
    """
    try:
        info = HfApi().model_info(hub_id, timeout=_ASK_TIMEOUT_S)
    except Exception as error:  # the hub's client passes on errors of its HTTP library
        folder = _cached(hub_id)
        if folder is None:
            raise ValueError(_refusal(hub_id, error)) from error
        return folder, f"hub {hub_id} at {folder.name}"
    weights = _weight_files(hub_id, [file.rfilename for file in info.siblings or []])
    on_progress(f"downloading {hub_id} from the hub", None)
    try:
        folder = Path(snapshot_download(hub_id, allow_patterns=[*_SETTINGS, *weights]))
    except Exception as error:
        raise ValueError(f"model {hub_id}: download failed: {one_line(error)}") from error
    return folder, f"hub {hub_id} at {folder.name}"


def _weight_files(hub_id: str, names: list[str]) -> list[str]:
    """The safetensors at the top of the repository, or the only GGUF file there."""
    at_the_top = [name for name in names if "/" not in name]
    safetensors = [name for name in at_the_top if name.endswith(".safetensors")]
    ggufs = [name for name in at_the_top if name.endswith(".gguf")]
    if safetensors:
        return safetensors
    if len(ggufs) == 1:
        return ggufs
    if ggufs:
        raise ValueError(
            f"model {hub_id}: it has {len(ggufs)} GGUF files; download one, such as {ggufs[0]}, and name its path"
        )
    raise ValueError(f"model {hub_id}: it has neither safetensors nor GGUF files; other formats are not supported")


def _cached(hub_id: str) -> Path | None:
    try:
        folder = Path(snapshot_download(hub_id, local_files_only=True))
    except (LocalEntryNotFoundError, ValueError):
        return None
    has_weights = any(folder.glob("*.safetensors")) or any(folder.glob("*.gguf"))
    return folder if has_weights else None


def _refusal(hub_id: str, error: Exception) -> str:
    kind = type(error).__name__
    if kind == "GatedRepoError":
        return f"model {hub_id}: accept its license on the hub and log in, then try again"
    if kind == "RepositoryNotFoundError":
        return f"model {hub_id}: no such folder here and no such model on the hub"
    return f"model {hub_id}: no such folder here, and the hub is unreachable ({one_line(error)}); download it first"

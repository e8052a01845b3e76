"""Whether runs may be set against each other: the same requests, on the same model, dtype and device, all measured.

Where one of these differs, a difference between two figures says nothing about the engines. Execution, timing and the
size of blocks may be what one wants to compare, or what makes the difference unnoticed: they are cautioned about. The
engine itself, slots and how batches are formed are what one compares; they differ freely.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.core.units import short_dtype


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a run's figures depend on besides its engine. `workload` is in words, `digest` equal only for equal ones."""

    digest: str
    workload: str
    model: str
    dtype: str
    device: str
    simulated: bool
    execution: str = "eager"
    timing: str = "sync"
    block_size: int | None = None  # None where KV memory is not in blocks


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """One thing that differs, and its value in each run, in the runs' order."""

    what: str
    values: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Check:
    what: str
    field: str
    shown: str
    why: str


_CHECKS = (
    _Check(
        what="workload",
        field="digest",
        shown="workload",
        why="other requests take other times, whatever the engine does",
    ),
    _Check(what="model", field="model", shown="model", why="a larger model takes longer for every token"),
    _Check(what="dtype", field="dtype", shown="dtype", why="half the bytes a number are read in half the time"),
    _Check(what="device", field="device", shown="device", why="another machine is faster or slower by itself"),
    _Check(
        what="kind of run",
        field="simulated",
        shown="simulated",
        why="a simulated time comes from a formula and is no measurement",
    ),
)


_CAUTIONS = (
    _Check(
        what="execution",
        field="execution",
        shown="execution",
        why="a replayed CUDA graph saves the time of issuing a pass, whatever the engine does",
    ),
    _Check(what="timing", field="timing", shown="timing", why="stopping after each pass takes a few percent by itself"),
    _Check(
        what="block size",
        field="block_size",
        shown="block_size",
        why="larger blocks leave more unfilled and are read in longer pieces",
    ),
)


def cautions(settings: Sequence[Setting]) -> tuple[Mismatch, ...]:
    """What differs and should be known, though it does not bar a comparison; of blocks, between paged runs alone."""
    found = []
    for check in _CAUTIONS:
        values = [getattr(setting, check.field) for setting in settings]
        if len({value for value in values if value is not None}) > 1:
            shown = tuple("none" if value is None else str(value) for value in values)
            found.append(Mismatch(what=check.what, values=shown, why=check.why))
    return tuple(found)


def mismatches(settings: Sequence[Setting]) -> tuple[Mismatch, ...]:
    """What differs between the runs; empty when they may be compared."""
    return tuple(
        Mismatch(what=check.what, values=tuple(_shown(setting, check) for setting in settings), why=check.why)
        for check in _CHECKS
        if len({getattr(setting, check.field) for setting in settings}) > 1
    )


def setting_of(info: Mapping[str, Any]) -> Setting:
    """The setting of a run.json. What it does not tell is `unknown`."""
    model, device, workload = (info.get(part) or {} for part in ("model", "device", "workload"))
    return Setting(
        digest=str(workload.get("digest") or "unknown"),
        workload=workload_text(workload),
        model=str(model.get("name") or "unknown"),
        dtype=dtype_name(model),
        device=str(device.get("name") or device.get("kind") or "unknown"),
        simulated=bool(info.get("simulated")),
        execution=str(info.get("execution") or "eager"),
        timing=str(info.get("timing") or "sync"),
        block_size=block_size_of(info),
    )


def block_size_of(info: Mapping[str, Any]) -> int | None:
    """Token positions a block of a run.json's KV memory; None where it is not in blocks."""
    if info.get("kv_layout") != "paged":
        return None
    return info.get("block_size") or (info.get("config") or {}).get("block_size")


def dtype_name(model: Mapping[str, Any]) -> str:
    """A dtype by the name that the command line and Bench use for it."""
    return short_dtype(str(model.get("dtype") or "unknown"))


def workload_text(workload: Mapping[str, Any]) -> str:
    """`8 requests, prompts chat, budget 8-48, arrival closed, seed 0 (digest 1f0c2e)`, without what is unknown."""
    count = workload.get("requests")
    parts = [] if count is None else [f"{count:,} request{'' if count == 1 else 's'}"]
    parts += [f"{name} {workload[name]}" for name in ("prompts", "budget", "arrival", "seed") if name in workload]
    digest = str(workload.get("digest") or "")
    return ", ".join(parts) + (f" (digest {digest[:6]})" if digest else "")


def _shown(setting: Setting, check: _Check) -> str:
    if check.field == "simulated":
        return "simulated" if setting.simulated else "measured"
    return str(getattr(setting, check.shown))

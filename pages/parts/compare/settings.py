"""The settings in which compared runs differ.

A fair comparison has the same requests, model, dtype and device, and all runs measured or all simulated: a mismatch in
these bars the comparison until a switch allows it. Execution, timing and block size may differ on purpose or by
mistake: the page warns about them. Engine, slots and batch forming are what a comparison is about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from engine.core.config import RunConfig
from engine.core.format import MISSING
from engine.core.presets import PRESETS
from pages.parts.runs.loaded_run import LoadedRun
from pages.parts.runs.run_text import dtype_name, flattened
from pages.parts.shared.page_state import linked, switch
from pages.parts.shared.tables import draw_table

ANYWAY = "anyway"  # the switch, in the address
MAX_VALUE_CHARACTERS = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a run's figures depend on besides its engine. Two workloads are the same if their digests are."""

    digest: str
    workload: str
    model: str
    dtype: str
    device: str
    simulated: bool
    execution: str = "eager"
    timing: str = "sync"
    block_size: int | None = None  # None for a KV layout without blocks


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """A setting that differs, its value in each run, and why that matters."""

    what: str
    values: tuple[str, ...]
    why: str


def allows_comparison(runs: Mapping[str, LoadedRun], found: Sequence[Mismatch]) -> bool:
    """Whether to compare the runs. For mismatches it draws a switch, which is kept in the address, and until that is
    set what differs."""
    if not found:
        return True
    place = st.container()
    with linked(ANYWAY, False, switch) as key:
        is_allowed = st.toggle("Compare anyway", key=key, persist_state="page")
    if not is_allowed:
        with place:
            draw_mismatches(list(runs), found)
    return is_allowed


def draw_mismatches(names: Sequence[str], found: Sequence[Mismatch]) -> None:
    """What bars a fair comparison of the named runs, and why."""
    what = " and ".join(mismatch.what for mismatch in found)
    st.warning(
        f"**These runs differ in {what}.** A difference between their figures says nothing about the engines.",
        icon=":material/balance:",
    )
    draw_table(["setting", *names, "why it matters"], mismatch_rows(found))


def draw_settings(runs: Mapping[str, LoadedRun]) -> None:
    """Every setting that differs."""
    rows = setting_rows([run.config for run in runs.values()])
    st.markdown("**Different settings**")
    if rows:
        draw_table(["setting", *runs], rows)
    else:
        st.markdown("None: the runs have the same settings.")


def setting_of(info: Mapping[str, Any]) -> Setting:
    """The setting of a run.json; `unknown` for what it does not have."""
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
        block_size=_block_size(info),
    )


def workload_text(workload: Mapping[str, Any]) -> str:
    """`8 requests, prompts chat, budget 8-48, arrival closed, seed 0 (digest 1f0c2e)`, without what is unknown."""
    count = workload.get("requests")
    parts = [] if count is None else [f"{count:,} request{'' if count == 1 else 's'}"]
    parts += [f"{name} {workload[name]}" for name in ("prompts", "budget", "arrival", "seed") if name in workload]
    digest = str(workload.get("digest") or "")
    return ", ".join(parts) + (f" (digest {digest[:6]})" if digest else "")


def _block_size(info: Mapping[str, Any]) -> int | None:
    """Token positions per block; None for a KV layout without blocks."""
    preset = PRESETS.get(str(info.get("engine")))
    set_size = (info.get("config") or {}).get("block_size") if preset is not None and preset.has_blocks else None
    return info.get("block_size") or set_size


def mismatches(settings: Sequence[Setting]) -> tuple[Mismatch, ...]:
    """What bars the comparison; empty for a fair one."""
    return tuple(
        Mismatch(what=check.what, values=tuple(_value(setting, check) for setting in settings), why=check.why)
        for check in _BARS
        if len({getattr(setting, check.field) for setting in settings}) > 1
    )


def cautions(settings: Sequence[Setting]) -> tuple[Mismatch, ...]:
    """What differs without barring the comparison. Block sizes are compared between paged runs only."""
    found = []
    for check in _CAUTIONS:
        values = [getattr(setting, check.field) for setting in settings]
        if len({value for value in values if value is not None}) > 1:
            shown = tuple("none" if value is None else str(value) for value in values)
            found.append(Mismatch(what=check.what, values=shown, why=check.why))
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Check:
    """`field` of a Setting decides whether runs differ, `shown` is the field whose value is shown."""

    what: str
    field: str
    shown: str
    why: str


_BARS = (
    _Check(
        what="workload",
        field="digest",
        shown="workload",
        why="other requests take another time with any engine",
    ),
    _Check(what="model", field="model", shown="model", why="a larger model takes longer for every token"),
    _Check(what="dtype", field="dtype", shown="dtype", why="half the bytes per number are read in half the time"),
    _Check(what="device", field="device", shown="device", why="devices differ in speed"),
    _Check(
        what="kind of run",
        field="simulated",
        shown="simulated",
        why="a simulated time is calculated, not measured",
    ),
)

_CAUTIONS = (
    _Check(
        what="execution",
        field="execution",
        shown="execution",
        why="CUDA graphs save the time of issuing a pass with any engine",
    ),
    _Check(what="timing", field="timing", shown="timing", why="sync timing adds a few percent by itself"),
    _Check(
        what="block size",
        field="block_size",
        shown="block_size",
        why="larger blocks leave more unfilled and are read in longer pieces",
    ),
)


def _value(setting: Setting, check: _Check) -> str:
    if check.field == "simulated":
        return "simulated" if setting.simulated else "measured"
    return str(getattr(setting, check.shown))


def mismatch_rows(found: Sequence[Mismatch]) -> list[list[str]]:
    """A row per mismatch: the setting, each run's value, why it matters."""
    return [[mismatch.what, *mismatch.values, mismatch.why] for mismatch in found]


def setting_rows(configs: Sequence[RunConfig]) -> list[list[str]]:
    """A row per setting that differs: its name and each run's value."""
    settings = [dict(flattened(config.to_dict())) for config in configs]
    differing = [name for name in settings[0] if len({repr(each.get(name)) for each in settings}) > 1]
    return [[name, *(_cell(each.get(name)) for each in settings)] for name in differing]


def _cell(value: Any) -> str:
    return MISSING if value is None else str(value)[:MAX_VALUE_CHARACTERS]

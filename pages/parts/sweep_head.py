"""The head of a sweep: what was measured, on what, how its points ended, and the links that bring its form back."""

from __future__ import annotations

from typing import Any

import streamlit as st

from engine.core.config import RunConfig
from engine.core.sweep_table import SweepRow
from pages.parts.badges import RANDOM_WEIGHTS
from pages.parts.experiment_start import fill_form
from pages.parts.format import plain
from pages.parts.run_words import busy_line, machine_line
from pages.parts.sweep_columns import status_words
from pages.parts.sweep_data import SweepData
from pages.parts.sweep_settings import FIELDS


def draw_head(data: SweepData) -> None:
    """One line of what and where, and each kind of failure once."""
    if data.config is not None:
        st.markdown(f"**{sweep_line(data)}**" + (f"  \n{machine_line(data.info)}" if data.info else ""))
    if (data.info.get("model") or {}).get("random_weights"):
        st.badge(RANDOM_WEIGHTS.label, icon=RANDOM_WEIGHTS.icon, color=RANDOM_WEIGHTS.colour, help=RANDOM_WEIGHTS.help)
    if busy := busy_line(data.info):
        st.caption(f":material/speed: {busy}")
    if failures := failure_lines(data):
        st.warning("\n".join(failures), icon=":material/memory:")
    if data.config is not None:
        st.button(
            "Set up the same again",
            icon=":material/replay:",
            help="Fill the form with this sweep's settings",
            key="sweep_again",
            on_click=fill_form,
            args=(sweep_values(data.config, data), FIELDS),
        )


def sweep_line(data: SweepData) -> str:
    """`static, smollm2-135m, budget 32: p16,p64 at B = 1, 2, 4, 8`."""
    assert data.config is not None
    config, settings = data.config, data.settings
    sizes = ", ".join(f"{int(size):,}" for size in settings.get("batch_sizes") or ())
    swept = " and ".join(filter(None, [settings.get("prompts"), _mixed(settings.get("mix"))]))
    caps = [
        f"{words} at most {gib:g} GiB"
        for words, gib in (("KV pool", config.pool_gib), ("all memory", config.capacity_gib))
        if gib is not None
    ]
    how = ["as CUDA graphs"] if config.execution == "graph" else []
    how += ["timed without stops"] if config.timing == "async" else []
    parts = [config.engine, config.model, *how, f"budget {config.workload.budget}", *caps]
    return plain(f"{', '.join(parts)}: {swept} at B = {sizes}")


def failure_lines(data: SweepData) -> list[str]:
    """Each series that failed, once: `- p4096 from B = 64 on: out of memory: asked 4.38 GiB …`, the smallest first."""
    failed = [row for row in data.rows if row.status in ("oom", "failed", "crashed")]
    by_place: dict[tuple[str, str], list[SweepRow]] = {}
    for row in sorted(failed, key=lambda row: row.batch_size):
        by_place.setdefault((row.role, row.prompts if row.role == "point" else ""), []).append(row)
    lines = []
    for rows in by_place.values():
        first = rows[0]
        name = first.prompts if first.role == "point" else f"{first.role} ({first.prompts})"
        more = f" (and at B = {', '.join(f'{row.batch_size:,}' for row in rows[1:])})" if len(rows) > 1 else ""
        lines.append(f"- {plain(f'{name}, B = {first.batch_size:,}{more}: {status_words(first.to_dict())}')}")
    return lines


def sweep_values(config: RunConfig, data: SweepData) -> dict[str, Any]:
    """The form's values for a sweep's settings."""
    settings = data.settings
    return {
        "engine": config.engine,
        "model": config.model,
        "device": config.device,
        "dtype": config.dtype,
        "prompts": settings.get("prompts") or "",
        "batch_size": ",".join(map(str, settings.get("batch_sizes") or ())),
        "budget": config.workload.budget,
        "mix": settings.get("mix") or "",
        "repeats": settings.get("repeats") or 1,
        "seed": config.workload.seed,
        "warmups": config.warmups,
        "execution": config.execution,
        "timing": config.timing,
        "pool_gib": config.pool_gib,
        "capacity_gib": config.capacity_gib,
        "block_size": str(config.block_size),
        "max_num_batched_tokens": config.max_num_batched_tokens,
    }


def _mixed(mix: str | None) -> str:
    return f"a ragged batch of {mix} with its control" if mix else ""

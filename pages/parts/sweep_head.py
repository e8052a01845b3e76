"""The head of a sweep: what was measured, on what, how its points ended, and the links that bring its form back."""

from __future__ import annotations

from typing import Any

from engine.core.config import RunConfig
from engine.core.sweep_table import SweepRow
from pages.parts.experiment_head import draw_again, draw_experiment_head, shared_values
from pages.parts.experiment_words import cap_words, how_words
from pages.parts.markdown import plain
from pages.parts.sweep_columns import status_words
from pages.parts.sweep_data import SweepData
from pages.parts.sweep_settings import FIELDS


def draw_head(data: SweepData) -> None:
    """One line of what and where, each kind of failure once, and the way to its form."""
    if data.config is not None:
        draw_experiment_head(sweep_line(data), data.info, data.points, failure_lines(data))
        draw_again("sweep", "sweep", sweep_values(data.config, data), FIELDS)


def sweep_line(data: SweepData) -> str:
    """`static, smollm2-135m, budget 32: p16,p64 at B = 1, 2, 4, 8`."""
    assert data.config is not None
    config, settings = data.config, data.settings
    sizes = ", ".join(f"{int(size):,}" for size in settings.get("batch_sizes") or ())
    swept = " and ".join(filter(None, [settings.get("prompts"), _mixed(settings.get("mix"))]))
    parts = [config.engine, config.model, *how_words(config), f"budget {config.workload.budget}", *cap_words(config)]
    return f"{', '.join(parts)}: {swept} at B = {sizes}"


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
    return shared_values(config, settings) | {
        "engine": config.engine,
        "prompts": settings.get("prompts") or "",
        "batch_size": ",".join(map(str, settings.get("batch_sizes") or ())),
        "mix": settings.get("mix") or "",
    }


def _mixed(mix: str | None) -> str:
    return f"a ragged batch of {mix} with its control" if mix else ""

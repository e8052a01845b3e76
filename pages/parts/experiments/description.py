"""Text about experiments: their labels, points, progress, and how their runs ended. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from engine.core.config import RunConfig
from engine.core.format import exact, is_missing, percent, plural, size
from pages.parts.runs.run_text import when
from pages.parts.shared.markdown import listed, plain

WORD = re.compile(r"\w+")
POINTS = {"repeats": "run"}  # kinds whose points have another name
FAILED = ("oom", "failed", "crashed")  # statuses of runs without figures
MOST_FAILURES = 6
STATUS = {"oom": "out of memory", "pending": "not run yet"}
ENDINGS = (("oom", "out of memory"), ("failed", "failed"), ("stopped", "stopped"))


def experiment_label(row: Mapping[str, Any], *, is_live: bool = False) -> str:
    """`2026-11-29 14:31:07  static, p16,p64, 12 points`: a line of a list; `row` is one of the store's `experiments`.

    A list is not redrawn while points end, so a running experiment has no count of finished points.
    """
    noun = point_noun(row.get("kind"))
    parts = [f"{when(row.get('created_at'))}  {row.get('label') or row.get('kind')}"]
    points, done = _count(row, "points"), _count(row, "done")
    if is_live or bool(row.get("is_open")):
        parts += [plural(points, noun), "running"]
    elif done < points:
        parts += [f"{done:,} of {plural(points, noun)}", "interrupted"]
    else:
        parts.append(plural(points, noun))
    return ", ".join(parts)


def experiment_name(kind: object, label: object) -> str:
    """`sweep: static, p16,p64`; `3 repeats`, whose label names its kind; empty without an experiment."""
    parts = [str(part) for part in (kind, label) if isinstance(part, str) and part.strip()]
    return parts[-1] if len(parts) == 2 and parts[0] in WORD.findall(parts[1]) else ": ".join(parts)


def point_noun(kind: object) -> str:
    """The name of an experiment's points: `run` for repeats."""
    return POINTS.get(str(kind), "point")


def point_text(values: Mapping[str, Any]) -> str:
    """A point of any kind by its values: `static, p64, B = 8`; `continuous, 2 requests/s`; `p256:8, async`."""
    known = {name: value for name, value in values.items() if isinstance(value, str) or not is_missing(value)}
    parts = [str(known[name]) for name in ("engine", "prompts", "config") if name in known]
    if "batch_size" in known:
        parts.append(f"B = {int(known['batch_size']):,}")
    if "rate_per_s" in known:
        parts.append(exact(float(known["rate_per_s"]), "requests/s", digits=4))
    elif known.get("role") == "saturation":
        parts.append("all at once")
    if "timing" in known and "config" in known:
        parts.append(str(known["timing"]))
    if known.get("role") in ("ragged", "control", "below", "above"):
        parts.append(str(known["role"]))
    return plain(", ".join(parts))


def execution_notes(config: RunConfig) -> list[str]:
    """Execution and timing, if they are not the defaults."""
    notes = {"CUDA graphs": config.execution == "graph", "async timing": config.timing == "async"}
    return [note for note, is_set in notes.items() if is_set]


def cap_notes(config: RunConfig) -> list[str]:
    """The memory limits that are set: `KV pool capped at 0.5 GiB`."""
    caps = (("KV pool", config.pool_gib), ("all memory", config.capacity_gib))
    return [f"{memory} capped at {exact(gib, 'GiB')}" for memory, gib in caps if gib is not None]


def done_text(row: Mapping[str, Any]) -> str:
    """`9 of 12 points done, 1 out of memory`; `row` is one of the store's `experiments`."""
    points, done = _count(row, "points"), _count(row, "done")
    noun = point_noun(row.get("kind"))
    text = f"{done:,} of {plural(points, noun)} done" if done < points else f"All {plural(points, noun)} done"
    if points == 1 and done == 1:
        text = f"The one {noun} is done"
    bad = [f"{_count(row, name):,} {ending}" for name, ending in ENDINGS if _count(row, name)]
    return f"{text}, {listed(bad)}" if bad else text


def status_text(row: Mapping[str, Any]) -> str:
    """`completed`; `out of memory: asked for 4.38 GiB, 3.10 GiB free (prefill)`; `failed: …`; `2 of 3 done`."""
    status = str(row["status"])
    live = row.get("live_run_id")
    if status == "pending" and isinstance(live, str) and live:
        return "running"
    text = STATUS.get(status, status)
    if status == "oom" and not is_missing(row.get("asked_bytes")):
        free = row.get("free_bytes")
        text += f": asked for {size(row['asked_bytes'])}" + ("" if is_missing(free) else f", {size(free)} free")
        text += f" ({row['oom_where']})" if row.get("oom_where") else ""
    elif status in ("failed", "crashed") and row.get("error"):
        text += f": {row['error']}"
    done, repeats = row.get("completed"), row.get("repeats")
    if status != "completed" and done and repeats:
        text = f"{int(done)} of {plural(int(repeats), 'repeat')} completed, {text}"
    return text


def failure_lines(failures: Sequence[str], most: int = MOST_FAILURES) -> list[str]:
    """The first `most` failures as list items, and the number of the others."""
    left = len(failures) - most
    return [f"- {plain(failure)}" for failure in failures[:most]] + ([f"- and {left:,} more"] if left > 0 else [])


def spread_text(spread: float | None) -> str:
    """`18.3 %`; empty if there is none, for example for one run."""
    return "" if spread is None or is_missing(spread) else percent(spread)


def lines(sentences: Iterable[str]) -> str:
    """Sentences as Markdown, one a line, without empty ones."""
    return "  \n".join(plain(sentence) for sentence in sentences if sentence)


def _count(row: Mapping[str, Any], name: str) -> int:
    value = row.get(name)
    return 0 if value is None or is_missing(value) else int(value)

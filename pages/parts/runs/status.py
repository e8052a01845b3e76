"""A run that is still going, or that ended otherwise than meant: what is going on, told in words.

The watch on a live run redraws itself alone, so that figures stay still while somebody reads them; the whole page is
drawn anew when the run ends, however it ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import streamlit as st

from engine.core.format import count, is_missing, plural, size
from pages.parts.runs.loaded_run import RunData, find_row
from pages.parts.shared.lab import lab
from pages.parts.shared.markdown import plain
from pages.parts.shared.page_state import page_key

# What went wrong with a run, in words: how it ended, what it asked for and could not have, and what was kept.

Kind = Literal["info", "warning", "error"]

_KINDS: dict[str, Kind] = {"stopped": "info", "oom": "warning", "failed": "error", "crashed": "error"}
_ICONS = {
    "stopped": ":material/stop_circle:",
    "oom": ":material/memory:",
    "failed": ":material/error:",
    "crashed": ":material/heart_broken:",
}
ADVICE = {
    "oom": "Fewer slots, shorter prompts or budgets, or a smaller dtype ask for less.",
    "crashed": "Nothing has to be cleaned up: the next run gets a new worker.",
    "failed": "Mend the cause, then repeat the run on Bench.",
    "stopped": "",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """What to show of a run that did not complete."""

    kind: Kind
    icon: str
    headline: str
    lines: tuple[str, ...]


def trouble_of(
    status: str, error: str | None, oom: Mapping[str, Any] | None, metrics: Mapping[str, Any], num_requests: int
) -> Trouble | None:
    """The panel for a run that ended otherwise than it was meant to; None for one that completed or still runs."""
    if status not in _KINDS:
        return None
    headline = {
        "stopped": "This run was stopped before its end.",
        "oom": "This run ran out of memory.",
        "failed": "This run failed.",
        "crashed": "The worker died in the middle of this run, before it could write a result.",
    }[status]
    facts = oom_lines(oom) if status == "oom" and oom else ()
    said = (f"Its message: {plain(error)}",) if error and not facts else ()
    advice = (ADVICE[status],) if ADVICE[status] else ()
    return Trouble(
        kind=_KINDS[status],
        icon=_ICONS[status],
        headline=headline,
        lines=(*facts, *said, kept_line(metrics, num_requests), *advice),
    )


def oom_lines(oom: Mapping[str, Any]) -> tuple[str, ...]:
    """What was asked for, where, in which shape, and what was free; what is not known is left out."""
    asked, free = oom.get("asked_bytes"), oom.get("free_bytes")
    where = plain(str(oom.get("where") or "an allocation"))
    first = f"Asked for: {size(asked)}" if not is_missing(asked) else "Asked for: more than there was"
    lines = [f"{first}, in {where}"]
    if oom.get("shape"):
        lines.append(f"Shape: {plain(str(oom['shape']))}")
    if not is_missing(free):
        lines.append(f"Free at that moment: {size(free)}")
    return tuple(lines)


def kept_line(metrics: Mapping[str, Any], num_requests: int) -> str:
    """What of the run is safe."""
    tokens, finished = (int(metrics.get(name) or 0) for name in ("output_tokens", "finished_requests"))
    if not tokens:
        return "No token was logged."
    return (
        f"Kept and shown below: {plural(tokens, 'token')}, {count(finished)} of {plural(num_requests, 'request')} "
        f"finished."
    )


def draw_trouble(trouble: Trouble, stderr: str | None = None) -> None:
    """The panel, and behind an expander what the worker wrote last, where that is known."""
    text = "\n".join([f"**{trouble.headline}**\n", *(f"- {line}" for line in trouble.lines)])
    {"info": st.info, "warning": st.warning, "error": st.error}[trouble.kind](text, icon=trouble.icon)
    if stderr and stderr.strip():
        with st.expander("What the worker wrote last"):
            st.code(stderr[-8000:], language=None)


WATCH_S = 1.0


def draw_status(run: RunData) -> None:
    """Nothing for a run that completed and whose log is whole."""
    if damage := run.row.get("damage"):
        line = f"A part of this run's log cannot be read: {plain(str(damage))}. What is whole is shown."
        st.warning(line, icon=":material/broken_image:")
    if run.status == "running":
        _watch(run.run_id)
        return
    trouble = trouble_of(run.status, run.error, run.oom, run.metrics, run.num_requests)
    if trouble is not None:
        draw_trouble(trouble, worker_text(run.run_id))


@st.fragment(run_every=WATCH_S)
def _watch(run_id: str) -> None:
    row = find_row(run_id)
    if row is None or row["status"] != "running":
        st.rerun()
    metrics = lab().store.runs.metrics(run_id)
    done = (
        f"This run is still going: {count(metrics.get('finished_requests') or 0)} requests finished, "
        f"{plural(int(metrics.get('output_tokens') or 0), 'token')} so far."
    )
    with st.container(horizontal=True, vertical_alignment="center"):
        st.info(f"{done} Below is what was logged when the page was drawn.", icon=":material/play_circle:")
        if st.button("Draw anew", icon=":material/refresh:", key=page_key(f"draw_{run_id}")):
            st.rerun()


def worker_text(run_id: str) -> str:
    """What the worker of this run wrote to its stderr before it died, if this app still knows."""
    runs = [run for job in lab().queue.jobs() for run in job.runs if run.run_id == run_id]
    return runs[-1].stderr if runs else ""  # a run that had not begun may have been queued twice

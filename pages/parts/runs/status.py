"""What a page shows of a run that did not simply complete: no run yet, an unknown run, one that is running, one that
was stopped or failed.

The line on a running run redraws itself only, so that the figures stay still; the whole page is drawn again when the
run ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import streamlit as st

from engine.core.format import count, is_missing, plural, size
from engine.runlog.reader import RUN_ID
from engine.runlog.schema import RUN_FILE
from pages.parts.runs.loaded_run import LoadedRun, find_row
from pages.parts.shared.lab import lab
from pages.parts.shared.markdown import plain
from pages.parts.shared.page_state import page_key

AWAIT_S = 0.5
WATCH_S = 1.0
STDERR_CHARACTERS = 8000


def draw_no_runs(what: str) -> None:
    """For a lab without runs: what this page would show, and a link to Bench."""
    st.info(f"There is no run yet. {what}", icon=":material/hourglass_empty:")
    st.page_link("pages/bench.py", label="Set up a first run on Bench", icon=":material/tune:")
    _await_first()


@st.fragment(run_every=AWAIT_S)
def _await_first() -> None:
    """Draw the page again when the first run appears; it may come from the command line."""
    if lab().store.runs.count():
        st.rerun()


def draw_unknown(run_ids: list[str]) -> None:
    """For a link to runs that the store does not have: one line and a link; or a wait, where a run is being read."""
    if any(_is_on_disk(run_id) for run_id in run_ids):
        _await(run_ids)
        return
    named = ", ".join(plain(run_id[:40]) for run_id in run_ids)
    st.warning(
        f"There is no run {named} here: it may have been deleted, or belong to another LAB_HOME.",
        icon=":material/link_off:",
    )
    st.page_link("pages/history.py", label="All runs in History", icon=":material/history:")


@st.fragment(run_every=AWAIT_S)
def _await(run_ids: list[str]) -> None:
    """Draw the page again when the store has read the runs; show why where it cannot."""
    problems = [plain(line) for folder, line in lab().recorder.problems.items() if folder.name in run_ids]
    if problems:
        st.error(f"This run cannot be read: {problems[0]}", icon=":material/error:")
    elif all(find_row(run_id) for run_id in run_ids):
        st.rerun()
    else:
        st.info("Loading this run into the store …", icon=":material/hourglass_top:")


def _is_on_disk(run_id: str) -> bool:
    """Whether the folder of runs has this run, even if the store does not have it yet."""
    is_name = RUN_ID.fullmatch(run_id) is not None
    return is_name and (lab().home / "runs" / run_id / RUN_FILE).is_file()


def draw_status(run: LoadedRun) -> None:
    """Nothing for a run that completed with an intact log."""
    if damage := run.row.get("damage"):
        line = f"Part of this run's log cannot be read: {plain(str(damage))}. The intact part is shown."
        st.warning(line, icon=":material/broken_image:")
    if run.status == "running":
        _watch(run.run_id)
        return
    trouble = trouble_of(run.status, run.error, run.oom, run.metrics, run.num_requests)
    if trouble is not None:
        _draw_trouble(trouble, _worker_stderr(run.run_id))


@st.fragment(run_every=WATCH_S)
def _watch(run_id: str) -> None:
    row = find_row(run_id)
    if row is None or row["status"] != "running":
        st.rerun()
    metrics = lab().store.runs.metrics(run_id)
    done = (
        f"Still running: {count(metrics.get('finished_requests') or 0)} requests finished, "
        f"{plural(int(metrics.get('output_tokens') or 0), 'token')} so far."
    )
    with st.container(horizontal=True, vertical_alignment="center"):
        st.info(f"{done} The figures show the log as of the last refresh.", icon=":material/play_circle:")
        if st.button("Refresh", icon=":material/refresh:", key=page_key(f"draw_{run_id}")):
            st.rerun()


Kind = Literal["info", "warning", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ending:
    """How the panel of a run that ended badly looks, and what to do about it."""

    kind: Kind
    icon: str
    headline: str
    advice: str = ""


_ENDINGS = {
    "stopped": _Ending(kind="info", icon=":material/stop_circle:", headline="This run was stopped before its end."),
    "oom": _Ending(
        kind="warning",
        icon=":material/memory:",
        headline="This run ran out of memory.",
        advice="Use fewer slots, shorter prompts, fewer output tokens or a smaller dtype.",
    ),
    "failed": _Ending(
        kind="error",
        icon=":material/error:",
        headline="This run failed.",
        advice="Fix the cause, then repeat the run on Bench.",
    ),
    "crashed": _Ending(
        kind="error",
        icon=":material/heart_broken:",
        headline="The worker died during this run, before it wrote a result.",
        advice="No cleanup is needed: the next run starts a new worker.",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """The panel of a run that did not complete."""

    kind: Kind
    icon: str
    headline: str
    lines: tuple[str, ...]


def trouble_of(
    status: str, error: str | None, oom: Mapping[str, Any] | None, metrics: Mapping[str, Any], num_requests: int
) -> Trouble | None:
    """The panel of a run that was stopped or failed; None for one that completed or is running."""
    ending = _ENDINGS.get(status)
    if ending is None:
        return None
    request = oom_lines(oom) if status == "oom" and oom else ()
    message = (f"Error message: {plain(error)}",) if error and not request else ()
    advice = (ending.advice,) if ending.advice else ()
    return Trouble(
        kind=ending.kind,
        icon=ending.icon,
        headline=ending.headline,
        lines=(*request, *message, kept_line(metrics, num_requests), *advice),
    )


def oom_lines(oom: Mapping[str, Any]) -> tuple[str, ...]:
    """The size, place and shape of the allocation that failed, and the free memory; what is unknown is left out."""
    asked, free = oom.get("asked_bytes"), oom.get("free_bytes")
    where = plain(str(oom.get("where") or "an allocation"))
    first = "Requested: more than was free" if is_missing(asked) else f"Requested: {size(asked)}"
    lines = [f"{first}, in {where}"]
    if oom.get("shape"):
        lines.append(f"Shape: {plain(str(oom['shape']))}")
    if not is_missing(free):
        lines.append(f"Free at that moment: {size(free)}")
    return tuple(lines)


def kept_line(metrics: Mapping[str, Any], num_requests: int) -> str:
    """How much of the run was logged."""
    tokens, finished = (int(metrics.get(name) or 0) for name in ("output_tokens", "finished_requests"))
    if not tokens:
        return "No token was logged."
    return (
        f"Kept and shown below: {plural(tokens, 'token')}, {count(finished)} of {plural(num_requests, 'request')} "
        f"finished."
    )


def _draw_trouble(trouble: Trouble, stderr: str) -> None:
    """The panel, with the end of the worker's stderr in an expander."""
    text = "\n".join([f"**{trouble.headline}**\n", *(f"- {line}" for line in trouble.lines)])
    {"info": st.info, "warning": st.warning, "error": st.error}[trouble.kind](text, icon=trouble.icon)
    if stderr.strip():
        with st.expander("Last lines of the worker's stderr"):
            st.code(stderr[-STDERR_CHARACTERS:], language=None)


def _worker_stderr(run_id: str) -> str:
    """The stderr of the run's worker, as long as this app's queue has it."""
    runs = [run for job in lab().queue.jobs() for run in job.runs if run.run_id == run_id]
    return runs[-1].stderr if runs else ""  # a run that never began can be queued twice

"""The changes of a run's snapshot: at a worker's event, when the worker dies, or if the run never starts."""

from __future__ import annotations

import signal
from dataclasses import replace

from engine.launcher.job import JobRun
from engine.launcher.messages import Died, Event, Finished, Loaded, Loading, Progress, Started, Waiting


def after_event(run: JobRun, event: Event) -> JobRun:
    """The run after an event. Events of other runs change nothing; a run ended by a cancel may still get its log."""
    if getattr(event, "run_id", run.run_id) != run.run_id:
        return run
    if run.state == "done":
        return replace(run, has_log=True) if isinstance(event, Started) else run
    match event:
        case Loading():
            return replace(run, state="loading", message=event.message)
        case Loaded():
            return replace(run, message="")
        case Waiting():
            return replace(run, state="waiting", message=event.message)
        case Started():
            return replace(run, state="running", message="", has_log=True)
        case Progress():
            return replace(
                run,
                state="running",
                finished_requests=event.finished_requests,
                requests=event.requests,
                output_tokens=event.output_tokens,
                elapsed_s=event.elapsed_s,
            )
        case Finished():
            ended = replace(run, state="done", status=event.status, error=event.error, oom=event.oom)
            return replace(ended, message="")
        case _:
            return run


def died(run: JobRun, event: Died, *, has_log: bool, canceled: bool) -> JobRun:
    """A run whose worker died: crashed, with the worker's stderr."""
    if run.state == "done":
        return run
    error = f"the worker {exit_text(event.returncode)}"
    if canceled:
        error = f"canceled; {error} before the run stopped"
    ended = replace(run, state="done", status="crashed", error=error, message="")
    return replace(ended, stderr=event.stderr, has_log=has_log)


def ended_unrun(run: JobRun, status: str, reason: str | None) -> JobRun:
    """A run that never started: `stopped` if canceled, else `skipped` or `failed`."""
    return replace(run, state="done", status=status, error=reason, message="")


def exit_text(returncode: int) -> str:
    """`was killed by SIGKILL`, `ended with exit status 1`."""
    if returncode >= 0:
        return f"ended with exit status {returncode}"
    try:
        name = signal.Signals(-returncode).name
    except ValueError:
        name = f"signal {-returncode}"
    return f"was killed by {name}"

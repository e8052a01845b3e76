"""What a reader of a graph run has to know: which of its passes were not replayed CUDA graphs, and why."""

from __future__ import annotations

from engine.core.record import RunRecord
from engine.runtime.prepared_run import PreparedRun


def execution_notes(prepared: PreparedRun, record: RunRecord) -> list[str]:
    """Sentences; none for an eager run, or where every pass was a replayed graph."""
    if prepared.config.execution != "graph":
        return []
    # Triton is not installed everywhere; only a graph run needs it.
    from engine.runtime.graph.ladder import MAX_CAPTURED_TOKENS
    from engine.runtime.graph.make_runner import why_not_graph

    passes = len(record.passes["bucket_tokens"])
    eager = int((record.passes["bucket_tokens"] < 0).sum())
    if eager == 0:
        return []
    reason = why_not_graph(prepared)
    if reason is not None:
        return [f"Graph execution was asked for, but every pass ran eager: {reason}."]
    return [
        f"{eager:,} of {passes:,} passes ran eager: they hold more than {MAX_CAPTURED_TOKENS:,} tokens, the most that "
        "is captured, and their own work hides their launches."
    ]

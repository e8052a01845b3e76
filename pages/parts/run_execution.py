"""How a run's passes were carried out, in words: replayed CUDA graphs or eager, and why; rows computed too long."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from engine.core.config import RunConfig
from engine.core.format import count, is_missing, percent, plural
from pages.parts.ledger_row import captured_passes
from pages.parts.markdown import plain


def notes_of(row: Mapping[str, Any]) -> tuple[str, ...]:
    """What the worker had to say about how the run was carried out; `row` as the store's `run`."""
    notes = (row.get("result") or {}).get("notes") or (row.get("info") or {}).get("notes") or ()
    return tuple(str(note) for note in notes)


def execution_words(config: RunConfig, passes: pd.DataFrame, notes: tuple[str, ...]) -> str:
    """How many passes were replayed CUDA graphs and why the others were not; empty for an eager run without notes."""
    return execution_told(config, len(captured_passes(passes)), len(passes), notes)


def execution_told(config: RunConfig, captured: int, passes: int, notes: tuple[str, ...]) -> str:
    """The same of passes that are counted already."""
    why = plain(" ".join(notes))
    if config.execution != "graph" or not passes:
        return why
    of_all = f"{count(captured)} of {plural(passes, 'pass', 'passes')} were replayed CUDA graphs"
    if captured == passes:
        return " ".join(filter(None, [f"{of_all}.", why]))
    others = "the others ran eager" if captured else "all ran eager"
    return f"{of_all}; {others}{f': {why}' if why else '.'}"


def discarded_words(config: RunConfig, metrics: Mapping[str, Any]) -> str:
    """The row-steps that an engine without dead slots computed past an end that it learnt of one pass late."""
    rows, live = metrics.get("slot_steps"), metrics.get("useful_slot_steps")
    if config.engine == "static" or rows is None or live is None or is_missing(rows) or rows <= live:
        return ""
    late = int(rows - live)
    how_many = f"{plural(late, 'row-step')} of {count(rows)} ({percent(late / rows)})"
    return (
        f"{how_many} {'was' if late == 1 else 'were'} discarded: "
        "the next pass had been issued before the end of a sequence was known. They are counted as dead."
    )

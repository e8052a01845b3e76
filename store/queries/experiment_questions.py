"""The part of the store that answers about experiments and their points."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import duckdb
import pandas as pd

from engine.core.record import RunRecord
from store.queries import experiments as experiment_queries


class ExperimentQuestions(ABC):
    """Every method may be called from any thread. Frames have their columns even when they have no rows."""

    @abstractmethod
    def cursor(self) -> duckdb.DuckDBPyConnection:
        """This thread's own cursor."""

    def experiments(self, kind: str | None = None) -> pd.DataFrame:
        """Experiments (of one kind, or all), the newest first: sweep, load, overhead, repeats, pair, layouts.

        Columns: experiment_id, kind, label, created_at (UTC), points; of them done (nothing is left to run),
        completed, oom, failed, stopped (cut off: stopped or crashed); is_open (somebody is at work on it now),
        has_plan. One without a plan has its runs for points.
        """
        return experiment_queries.list_experiments(self.cursor(), kind)

    def experiment_plan(self, experiment_id: str) -> dict[str, Any]:
        """The plan as experiment.json has it, with the points that were added since. KeyError where there is none."""
        return experiment_queries.one_plan(self.cursor(), experiment_id)

    def points(self, experiment_id: str) -> pd.DataFrame:
        """A row a point, in order of position: the plan, the record that holds, and every metric of its run.

        Columns: key, repeat, position, engine, prompts, prompt_tokens (of each prompt), batch_size, rate_per_s, role,
        config_label, timing, point_values (JSON), config (JSON), attempts, run_id, error, asked_bytes, free_bytes,
        oom_where, ended_at, status (of the last settled attempt, else of the last; pending where there was none),
        live_run_id (its run that is going now), has_run (the store has its run), and every metric of a run by its name
        (`run_prompt_tokens` for prompt_tokens). Numbers that are missing are NaN, texts None.
        """
        return experiment_queries.point_rows(self.cursor(), experiment_id)

    def record(self, run_id: str) -> RunRecord:
        """The run's requests, passes and tokens, from which every metric follows. KeyError for a run not known."""
        return experiment_queries.run_record(self.cursor(), run_id)

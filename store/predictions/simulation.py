"""The simulator's value for closed predictions: computed once, from what was known before the start.

The configurations come from run.json or the plan, the machine from the newest calibration before the start. A pair,
whose runs appear one after the other, is simulated when all of its runs are known. The simulation takes seconds of CPU
time, so it waits while anything is measured on this machine; the value does not depend on when it is computed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb

from engine.core.config import RunConfig
from engine.core.home import device_locks
from engine.hardware.calibration import Calibration
from engine.predictions.prediction import Question
from engine.predictions.simulation import PlannedRun, Simulated, simulated_answer
from engine.runlog.experiment_log import ExperimentLog
from engine.runlog.locks import is_held
from engine.runlog.schema import LOCK_FILE
from engine.simulator.machine import read_calibrations
from store.database import carry_out, first_row, utc

DUE = """
    SELECT prediction_id, subject_kind, subject_id, run_ids, question, closed_at FROM predictions
    WHERE closed_at IS NOT NULL AND simulated_note IS NULL ORDER BY prediction_id
"""


def simulate_due(cursor: duckdb.DuckDBPyConnection, home: Path) -> list[tuple[str, Simulated]]:
    """The missing simulated values, by prediction; none while something runs. Writes nothing."""
    answers: list[tuple[str, Simulated]] = []
    calibrations: list[Calibration] | None = None
    for prediction_id, kind, subject_id, run_ids, question, closed_at in cursor.execute(DUE).fetchall():
        runs = _runs(cursor, kind, subject_id, json.loads(run_ids))
        if runs is None:
            continue
        if is_measuring(cursor):  # before each simulation: a run may have started during the previous one
            break
        if calibrations is None:
            calibrations = read_calibrations(home / "calibrations")
        known = [c for c in calibrations if _is_before(c, closed_at)]
        answers.append((prediction_id, _answer(Question.from_dict(json.loads(question)), runs, known)))
    return answers


def is_measuring(cursor: duckdb.DuckDBPyConnection) -> bool:
    """Whether a process holds a device of this machine, writes a run that the store knows, or works on an
    experiment."""
    running = cursor.execute("SELECT folder FROM runs WHERE status = 'running'").fetchall()
    worked_on = cursor.execute("SELECT folder FROM experiments WHERE is_worked_on AND folder IS NOT NULL").fetchall()
    return (
        any(is_held(lock) for lock in device_locks())
        or any(is_held(Path(folder) / LOCK_FILE) for (folder,) in running)
        or any(ExperimentLog.is_open(Path(folder)) for (folder,) in worked_on)
    )


def _answer(question: Question, runs: Sequence[PlannedRun], calibrations: Sequence[Calibration]) -> Simulated:
    try:
        return simulated_answer(question, runs, calibrations)
    except Exception as error:  # stored, or the recorder would try again at every check
        return Simulated(value=None, note=f"the simulation failed: {type(error).__name__} {error}".splitlines()[0])


def keep(cursor: duckdb.DuckDBPyConnection, answers: Sequence[tuple[str, Simulated]]) -> None:
    """Store simulated values with their predictions. Call it in a transaction."""
    for prediction_id, answer in answers:
        carry_out(
            cursor,
            "UPDATE predictions SET simulated = ?, simulated_note = ? "
            "WHERE prediction_id = ? AND simulated_note IS NULL",
            [answer.value, answer.note, prediction_id],
        )


def _is_before(calibration: Calibration, moment: datetime) -> bool:
    measured_at = utc(calibration.measured_at)
    return measured_at is not None and measured_at <= moment


def _runs(
    cursor: duckdb.DuckDBPyConnection, kind: str, subject_id: str, run_ids: Sequence[str]
) -> list[PlannedRun] | None:
    """The planned runs of a subject; None if the store does not have all of them."""
    if kind == "run":
        found = _known_runs(cursor, "run_id = ?", subject_id)
        return [_run("", info) for info in found] or None
    plan = first_row(cursor, "SELECT plan FROM experiments WHERE experiment_id = ? AND plan IS NOT NULL", [subject_id])
    infos = _known_runs(cursor, "experiment_id = ?", subject_id)
    if plan is not None and infos:
        points = json.loads(plan[0])["points"]
        return [_planned(p["key"], p["config"], infos[0], p["values"]) for p in points if p["repeat"] == 0]
    if plan is not None or len(infos) < max(1, len(run_ids)):
        return None
    return [_run(str(info["engine"]), info) for info in infos]


def _known_runs(cursor: duckdb.DuckDBPyConnection, condition: str, value: str) -> list[dict[str, Any]]:
    rows = cursor.execute(f"SELECT run_info FROM runs WHERE {condition} ORDER BY created_at", [value]).fetchall()
    return [json.loads(info) for (info,) in rows]


def _run(key: str, info: dict[str, Any]) -> PlannedRun:
    return _planned(key, info["config"], info, {})


def _planned(key: str, config: dict[str, Any], info: dict[str, Any], values: dict[str, Any]) -> PlannedRun:
    """A configuration with the device that was used: `auto` is resolved when a run starts."""
    device = (info.get("device") or {}).get("kind") or config.get("device", "auto")
    return PlannedRun(key=key, config=RunConfig.from_dict({**config, "device": device}), values=values)

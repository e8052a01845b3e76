"""Runs an experiment in this process, point by point, and keeps its record. Shared by all experiment commands.

`run_experiment` and `resume_experiment` take any kind; an adaptive experiment adds points through `next_points`.
`carry_out` is the command-line side of both: output folder, Ctrl-C, and how to resume.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import traceback
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.commands.options import COMMANDS, OUT, Own, add_option, add_options, settings_in
from engine.core.errors import EngineOutOfMemory, FieldError, first_line
from engine.core.format import in_unit
from engine.core.home import device_lock, runs_folder
from engine.core.run_id import new_run_id
from engine.experiments.experiment import REPEATS, Plan, Point, PointRecord, newest_records, remaining, run_stats
from engine.runlog.device_hold import hold_device
from engine.runlog.experiment_log import ExperimentLog, LoggedExperiment, record_of_result
from engine.runlog.reader import RUN_ID
from engine.validity.machine_checks import busy_machine_text, load_of

if TYPE_CHECKING:
    from engine.runtime.prepared_run import WarmModel

PROGRESS_FIGURES = (("TTFT", "ttft_p50_s", "s"), ("TPOT", "tpot_p50_s", "s"), ("", "output_tokens_per_s", "tokens/s"))

ALLOWED_WITH_RESUME = ("resume", "out", "json")  # of every command

ShouldStop = Callable[[], bool]
Tell = Callable[[str], None]
NextPoints = Callable[[Plan, Sequence[PointRecord]], Sequence[Point]]


def no_more_points(plan: Plan, records: Sequence[PointRecord]) -> Sequence[Point]:
    """For experiments whose points are all known from the start."""
    return ()


def add_experiment_arguments(parser: argparse.ArgumentParser, own: Own | None = None) -> None:
    """--repeats, --resume, --out, --warmups and --json."""
    group = parser.add_argument_group("measuring")
    add_options(group, [REPEATS, *settings_in("measuring")], own)
    group.add_argument("--resume", metavar="ID", help="resume an experiment that was stopped or interrupted")
    add_option(group, OUT)
    parser.add_argument("--json", action="store_true", help="one JSON object")


def require_alone(
    experiment_id: str,
    add_arguments: Callable[[argparse.ArgumentParser], None],
    given: Sequence[str],
    also: Collection[str],
) -> None:
    """ValueError when --resume comes with options that the experiment's plan has already fixed.

    `given` is the command line after the command's name. Every option counts, even at its default, except those in
    `also`, which only change the report.
    """
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    names = {}
    for action in parser._actions:  # argparse has no other way to tell a given option from a default
        names[action.dest] = action.option_strings[0]
        action.default = argparse.SUPPRESS
    found = [name for name in vars(parser.parse_args(given)) if name not in {*ALLOWED_WITH_RESUME, *also}]
    if found:
        flags = ", ".join(names[name] for name in found)
        raise ValueError(f"resume {experiment_id!r}: its plan is fixed; leave out {flags}")


def carry_out(
    args: argparse.Namespace,
    kind: str,
    make_plan: Callable[[], Plan],
    next_points: NextPoints = no_more_points,
    warm: WarmModel | None = None,
) -> LoggedExperiment:
    """Run a new experiment, or the rest of the one in --resume. ValueError for bad options."""
    plan = make_plan() if args.resume is None else None  # bad options leave no folder behind
    out = planned_folder(args.out) if plan is None else output_folder(args.out)
    require_locks()
    with stop_on_signal() as should_stop:
        if plan is not None:
            logged = run_experiment(plan, out, should_stop, tell, next_points, warm)
        else:
            logged = resume_experiment(args.resume, kind, out, should_stop, tell, next_points)
    left = len(remaining(logged.plan, logged.records))
    if left:
        where = "" if args.out is None else f" --out {args.out}"
        tell(
            f"stopped with {left} of {len(logged.plan.points)} points left; to resume: "
            f"python -m engine {args.command} --resume {logged.plan.experiment_id}{where}"
        )
    return logged


def run_experiment(
    plan: Plan,
    out: Path,
    should_stop: ShouldStop,
    tell: Tell,
    next_points: NextPoints = no_more_points,
    warm: WarmModel | None = None,
) -> LoggedExperiment:
    """A new experiment in `out`. A failed point is recorded; only a model that cannot be loaded is an error.

    ValueError or EngineOutOfMemory from loading the model is raised before anything is written.
    """
    warm = _warm_model(plan, tell, warm)
    with ExperimentLog.create(out, plan) as log:
        tell(f"experiment {plan.experiment_id}: {len(plan.points)} points, saved in {log.folder}")
        return _run_points(log, warm, should_stop, tell, next_points)


def resume_experiment(
    experiment_id: str,
    kind: str,
    out: Path,
    should_stop: ShouldStop,
    tell: Tell,
    next_points: NextPoints = no_more_points,
) -> LoggedExperiment:
    """Run the points that have no record yet or were interrupted. ValueError if the experiment cannot resume."""
    read_planned(experiment_id, kind, out)
    try:
        opened = ExperimentLog.open(out / experiment_id)
    except FileExistsError as error:
        raise ValueError(f"resume {experiment_id!r}: {error}; wait until it ends, or stop it") from None
    with opened as log:
        left = len(remaining(log.plan, log.records))
        tell(f"experiment {experiment_id}: {left} of {len(log.plan.points)} points left")
        warm = _warm_model(log.plan, tell, None) if left else None
        return _run_points(log, warm, should_stop, tell, next_points)


def read_planned(experiment_id: str, kind: str, out: Path) -> LoggedExperiment:
    """The experiment to resume. ValueError if it does not exist, is damaged or is of another kind."""
    folder = out / experiment_id
    try:
        if not RUN_ID.fullmatch(experiment_id):
            raise FileNotFoundError(experiment_id)
        logged = ExperimentLog.read(folder)
    except OSError:
        raise ValueError(f"resume {experiment_id!r}: no experiment in {folder}; set --out to its folder") from None
    if logged.plan.kind != kind:
        command = f"engine {COMMANDS[logged.plan.kind]} --resume {experiment_id}"
        raise ValueError(f"resume {experiment_id!r}: it is a {logged.plan.kind} experiment; resume it with {command}")
    return logged


def _warm_model(plan: Plan, tell: Tell, warm: WarmModel | None) -> WarmModel:
    # Loading torch takes seconds; bad options fail before it.
    from engine.runtime.environment import use_available_threads
    from engine.runtime.prepared_run import WarmModel

    use_available_threads()
    warm = WarmModel() if warm is None else warm
    if plan.points:
        warm.get(plan.points[0].config, lambda message, fraction: tell(message))
    return warm


def _run_points(
    log: ExperimentLog, warm: WarmModel | None, should_stop: ShouldStop, tell: Tell, next_points: NextPoints
) -> LoggedExperiment:
    while not should_stop():
        left = remaining(log.plan, log.records)
        if not left:
            log.add(next_points(log.plan, tuple(log.records)))
            left = remaining(log.plan, log.records)
        if not left:
            break
        warm = _warm_model(log.plan, tell, None) if warm is None else warm
        if not _run_point(log, left[0], warm, should_stop, tell):
            break
    return LoggedExperiment(plan=log.plan, records=tuple(log.records), open_attempts=())


def _run_point(log: ExperimentLog, point: Point, warm: WarmModel, should_stop: ShouldStop, tell: Tell) -> bool:
    """One attempt, recorded however it ends. False when the experiment must stop."""
    from engine.runtime.device_memory import still_works

    run_id = new_run_id()
    log.start(point, run_id)
    result = _attempt(log, point, run_id, warm, should_stop, tell)
    has_folder = (log.folder.parent / run_id).is_dir()
    record = record_of_result(point.key, point.repeat, run_id if has_folder else None, result)
    log.append(record)
    tell(point_line(log, point, record))
    if record.status == "failed" and warm.key is not None and not still_works(warm.key[1]):
        tell("the device's context is lost; resume the experiment in a new process")
        return False
    return record.status != "stopped"


def _attempt(
    log: ExperimentLog, point: Point, run_id: str, warm: WarmModel, should_stop: ShouldStop, tell: Tell
) -> dict[str, Any]:
    """The content of result.json, or the same fields for a run that failed before it had one."""
    from engine.runtime.prepared_run import prepare_run
    from engine.runtime.run import execute_run

    try:
        prepared = prepare_run(point.config, warm, lambda message, fraction: tell(message))
        with device(str(prepared.device), f"run {run_id}", should_stop, tell):
            return execute_run(
                prepared,
                run_id,
                log.folder.parent / run_id,
                warm,
                experiment=run_stats(log.plan, point),
                should_stop=should_stop,
            )
    except InterruptedError:
        return {"status": "stopped", "error": "stopped while waiting for the device"}
    except EngineOutOfMemory as error:
        return {"status": "oom", "error": str(error), "oom": error.to_dict()}
    except ValueError as error:
        return {"status": "failed", "error": str(error)}
    except Exception as error:
        traceback.print_exc()
        return {"status": "failed", "error": first_line(error)}


def point_line(log: ExperimentLog, point: Point, record: PointRecord) -> str:
    """`[3/12] static/p16/b4: completed, TTFT 32.1 ms, TPOT 12.3 ms, 310 tokens/s`."""
    done = len(log.plan.points) - len(remaining(log.plan, log.records))
    repeat = f" repeat {point.repeat + 1}" if any(p.repeat for p in log.plan.points) else ""
    line = f"[{done}/{len(log.plan.points)}] {point.key}{repeat}: {record.status}"
    if record.error:
        return f"{line}, {record.error}"
    totals = record.totals
    figures = [
        f"{name} {in_unit(totals[key], unit)}".strip() for name, key, unit in PROGRESS_FIGURES if totals.get(key)
    ]
    return ", ".join([line, *figures])


def device(name: str, purpose: str, should_stop: ShouldStop, tell: Tell) -> AbstractContextManager[None]:
    """Hold the device `name` exclusively. InterruptedError if `should_stop` turns true while waiting for it."""
    return hold_device(name, purpose, lambda taken: tell(f"waiting: {taken}"), should_stop)


def tell(message: str) -> None:
    """Print a progress line on stderr."""
    print(message, file=sys.stderr)


def output_folder(text: str | None) -> Path:
    """--out, created if missing, or the lab's runs folder. ValueError if it is not writable."""
    out = planned_folder(text)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"out {out}: {error.strerror or error}; use a writable folder") from None
    return out


def planned_folder(text: str | None) -> Path:
    """--out, or the lab's runs folder. It may not exist. FieldError if it is, or is inside, a file."""
    if text is None:
        return runs_folder()
    if not text.strip():
        raise FieldError("out", f"out {text!r}: name a folder")
    out = Path(text)
    try:
        existing = next((path for path in (out, *out.parents) if path.exists()), None)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FieldError("out", f"out {text}: {reason}; use a writable folder") from None
    if existing is not None and not existing.is_dir():
        raise FieldError("out", f"out {text}: {existing} is a file; name a folder")
    return out


def require_locks() -> None:
    """ValueError if no device can be locked: no point of an experiment could run."""
    folder = device_lock("cpu").parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"{folder}: {error.strerror or error}; set LAB_CACHE to a writable folder") from None
    if not os.access(folder, os.W_OK):
        raise ValueError(f"{folder}: Permission denied; set LAB_CACHE to a writable folder")


@contextmanager
def stop_on_signal() -> Iterator[ShouldStop]:
    """Ctrl-C or SIGTERM ends the run after the current pass and closes its log; a second one kills the process."""
    stopped = False

    def stop(number: int, frame: object) -> None:
        nonlocal stopped
        stopped = True
        signal.signal(number, signal.SIG_DFL)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def busy_text(out: Path, logged: LoggedExperiment) -> str:
    """How many runs started on a busy machine, and the highest load; empty if none did."""
    from engine.runlog.reader import RunLogReader

    run_ids = [record.run_id for record in newest_records(logged.records).values() if record.run_id is not None]
    folders = [out / run_id for run_id in run_ids if (out / run_id).is_dir()]
    return busy_machine_text(load_of(RunLogReader(folder).run_info()) for folder in folders)

"""The worker process: keeps one model loaded and runs one run at a time, as commands arrive.

`python -m engine.runtime` speaks JSON lines: commands on stdin (run, calibrate, cancel, load), events on stdout and
nothing else there. It exits when its stdin closes, so no worker outlives the app: a run has LEAVE_S to close its log,
then the kernel's timer ends the process; without a run the kernel ends it together with the app.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TextIO

from engine.core.config import RunConfig
from engine.core.errors import EngineOutOfMemory, first_line
from engine.core.home import lab_home
from engine.runlog.device_hold import hold_device
from engine.runtime.device_memory import still_works
from engine.runtime.environment import use_available_threads
from engine.runtime.measuring.machine_calibration import Reports, calibrate_machine
from engine.runtime.models.model_cache import ProgressCallback
from engine.runtime.parent_death import die_with_parent, outlive_parent
from engine.runtime.prepared_run import PreparedRun, WarmModel, prepare_run
from engine.runtime.run import execute_run
from engine.runtime.run_watcher import RunProgress
from engine.runtime.simulated_run import simulate_run
from engine.simulator.machine import SimulationTarget

PROGRESS_S = 0.25
LEAVE_S = 2.0  # time for a run to close its log after stdin closes


class CanceledWhileLoading(Exception):
    """The run was canceled before it began."""


class Worker:
    """Reads commands from `commands` and writes events to `events`. One per process."""

    def __init__(self, commands: TextIO, events: TextIO) -> None:
        self.commands = commands
        self.events = events
        self.warm = WarmModel()
        self._queue: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._canceled: set[str] = set()
        self._is_leaving = threading.Event()
        self._write = threading.Lock()

    def serve(self) -> None:
        """Run commands until stdin closes."""
        threading.Thread(target=self._listen, name="commands", daemon=True).start()
        self.emit("ready", pid=os.getpid())
        while (command := self._queue.get()) is not None:
            self._execute(command)

    def emit(self, event: str, **fields: Any) -> None:
        """Write one event as one line. A closed pipe is no error: the worker is about to exit."""
        with self._write:
            try:
                self.events.write(json.dumps({"event": event, **fields}) + "\n")
                self.events.flush()
            except (BrokenPipeError, ValueError):
                self._is_leaving.set()

    def _listen(self) -> None:
        for line in self.commands:
            if not line.strip():
                continue
            try:
                command = json.loads(line)
            except json.JSONDecodeError:
                print(f"worker: not a command: {line.strip()[:200]}", file=sys.stderr)
                continue
            if command.get("command") == "cancel":
                self._canceled.add(command["run_id"])
            else:
                self._queue.put(command)
        self._leave()

    def _leave(self) -> None:
        """stdin is closed: stop the run, give it time to close its log, and exit, even during a long pass.

        SIGALRM ends the process without waiting for a Python thread.
        """
        signal.setitimer(signal.ITIMER_REAL, LEAVE_S)
        self._is_leaving.set()
        self._queue.put(None)

    def _execute(self, command: dict[str, Any]) -> None:
        if command.get("command") == "run":
            self._run(command)
        elif command.get("command") == "calibrate":
            self._calibrate(command)
        elif command.get("command") == "load":
            self._load(command)
        else:
            print(f"worker: unknown command {command.get('command')!r}", file=sys.stderr)

    def _load(self, command: dict[str, Any]) -> None:
        names = {key: command[key] for key in ("model", "device", "dtype") if command.get(key)}
        try:
            self._warm_model(RunConfig(**names))
        except CanceledWhileLoading:
            return
        except (ValueError, RuntimeError) as error:
            self.emit("loaded", model=names.get("model"), seconds=None, error=first_line(error))

    def _warm_model(self, config: RunConfig) -> None:
        started = time.perf_counter()
        self.warm.get(config, self._loading(config.model, self._is_leaving.is_set))
        self.emit("loaded", model=config.model, seconds=time.perf_counter() - started)

    def _run(self, command: dict[str, Any]) -> None:
        run_id = command["run_id"]
        should_stop = self._should_stop(run_id)
        try:
            config = RunConfig.from_dict(command["config"])
            if should_stop():
                raise CanceledWhileLoading
            if command.get("target") is not None:
                self._simulate(config, command)
                return
            prepared = prepare_run(config, self.warm, self._loading(config.model, should_stop))
        except CanceledWhileLoading:
            self.emit("finished", run_id=run_id, status="stopped", error=None)
            return
        except (ValueError, TypeError) as error:
            self.emit("finished", run_id=run_id, status="failed", error=first_line(error))
            return
        except Exception as error:
            shortage = error if isinstance(error, EngineOutOfMemory) else None
            if shortage is None:
                traceback.print_exc()
            self.warm.drop()
            status, oom = ("failed", None) if shortage is None else ("oom", shortage.to_dict())
            self.emit("finished", run_id=run_id, status=status, error=first_line(error), oom=oom)
            return
        try:
            self._run_prepared(prepared, command)
        finally:
            die_with_parent()

    def _simulate(self, config: RunConfig, command: dict[str, Any]) -> None:
        """A run without the model: no device, no lock."""
        run_id, should_stop = command["run_id"], self._should_stop(command["run_id"])
        result = simulate_run(
            config,
            SimulationTarget(**command["target"]),
            run_id,
            Path(command["folder"]),
            experiment=command.get("experiment"),
            on_stage=self._loading(config.model, should_stop),
            on_progress=self._progress(run_id),
            should_stop=should_stop,
        )
        if result is None:
            raise CanceledWhileLoading
        self.emit("started", run_id=run_id)
        self.emit("finished", run_id=run_id, status=result["status"], error=result["error"])

    def _calibrate(self, command: dict[str, Any]) -> None:
        """A short calibration. After one on a GPU the process ends: a profiler can slow down everything after it."""
        run_id, device = command["run_id"], "cpu"
        try:
            config = RunConfig.from_dict(command["config"])
            found = calibrate_machine(
                config, command["engines"], self.warm, self._calibration_reports(run_id, config.model), short=True
            )
            device = found.device
            found.save(lab_home() / "calibrations")
        except (CanceledWhileLoading, InterruptedError):
            self.emit("finished", run_id=run_id, status="stopped", error=None)
        except (ValueError, TypeError, OSError) as error:
            self.emit("finished", run_id=run_id, status="failed", error=first_line(error))
        except Exception as error:
            traceback.print_exc()
            self.warm.drop()
            self.emit("finished", run_id=run_id, status="failed", error=first_line(error))
        else:
            self.emit("finished", run_id=run_id, status="completed", error=None)
        if device != "cpu":
            sys.exit("worker: calibrated; exiting, so that the next run gets a new process")

    def _calibration_reports(self, run_id: str, model: str) -> Reports:
        should_stop = self._should_stop(run_id)
        began_s = time.perf_counter()

        def report(message: str, done: int, of: int) -> None:
            self.emit("loading", model=model, message=message)
            elapsed_s = time.perf_counter() - began_s
            self.emit(
                "progress", run_id=run_id, finished_requests=done, requests=of, output_tokens=0, elapsed_s=elapsed_s
            )

        return Reports(
            loading=self._loading(model, should_stop),
            waiting=lambda message: self.emit("waiting", run_id=run_id, message=message),
            progress=report,
            should_stop=should_stop,
        )

    def _should_stop(self, run_id: str) -> Callable[[], bool]:
        return lambda: run_id in self._canceled or self._is_leaving.is_set()

    def _run_prepared(self, prepared: PreparedRun, command: dict[str, Any]) -> None:
        run_id = command["run_id"]
        should_stop = self._should_stop(run_id)
        outlive_parent()  # from here on there is a log to close
        lock = hold_device(
            str(prepared.device),
            f"run {run_id}",
            on_wait=lambda message: self.emit("waiting", run_id=run_id, message=message),
            should_stop=should_stop,
        )
        try:
            with lock:
                result = execute_run(
                    prepared,
                    run_id,
                    Path(command["folder"]),
                    self.warm,
                    experiment=command.get("experiment"),
                    on_started=lambda: self.emit("started", run_id=run_id),
                    on_progress=self._progress(run_id),
                    should_stop=should_stop,
                )
        except InterruptedError:
            self.emit("finished", run_id=run_id, status="stopped", error=None)
            return
        except Exception as error:
            if not isinstance(error, OSError):  # a folder that cannot be written: its one line says all
                traceback.print_exc()
            self.emit("finished", run_id=run_id, status="failed", error=first_line(error))
            return
        self.emit("finished", run_id=run_id, status=result["status"], error=result["error"])
        if result["status"] == "failed" and not still_works(prepared.device):
            # The next run needs a new process.
            sys.exit("worker: the device's context is lost; exiting, so that the next run gets a new one")

    def _loading(self, model: str, should_stop: Callable[[], bool]) -> ProgressCallback:
        """Reports each stage of loading. CanceledWhileLoading where the stage is no longer needed."""

        def report(message: str, share: float | None) -> None:
            if should_stop():
                raise CanceledWhileLoading
            self.emit("loading", model=model, message=message)

        return report

    def _progress(self, run_id: str) -> Callable[[RunProgress], None]:
        last = 0.0

        def report(progress: RunProgress) -> None:
            nonlocal last
            now = time.perf_counter()
            if now - last < PROGRESS_S:
                return
            last = now
            self.emit(
                "progress",
                run_id=run_id,
                finished_requests=progress.finished_requests,
                requests=progress.requests,
                output_tokens=progress.output_tokens,
                elapsed_s=progress.elapsed_s,
            )

        return report


def serve() -> NoReturn:
    """Serve the commands on stdin until it closes, and exit at once: Python's own shutdown takes seconds with torch."""
    # Libraries print to stderr: stdout carries events only.
    events = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # the parent may ignore it
    use_available_threads()
    Worker(sys.stdin, events).serve()
    os._exit(0)

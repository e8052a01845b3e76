"""How soon a cancel ends a run, and how soon a worker is gone after its app was killed, with other work on the cores.

    .venv/bin/python -m benchmarks.app.cancel_and_leave [--load 8] [--repeats 10]

`--load` is the number of processes that do nothing but keep the cores busy. Each case is measured in a LAB_HOME of its
own with the model `tiny-random` on the CPU, through the app's own queue and worker.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tabulate import tabulate

from engine.core.config import RunConfig, WorkloadConfig
from engine.launcher.run_queue import RunQueue
from engine.runlog.reader import RunLogReader

PATIENCE_S = 300
LONG = RunConfig(
    model="tiny-random", device="cpu", workload=WorkloadConfig(prompts="p16", requests=64, budget="3000"), slots=8
)
# What the app holds: a queue with a worker, and a run where asked. It prints the worker's process id.
APP = """
import sys, time
from pathlib import Path
from benchmarks.app.cancel_and_leave import LONG
from engine.launcher.run_queue import RunQueue
queue = RunQueue(Path(sys.argv[1]))
queue.submit([LONG]) if sys.argv[2] == "run" else queue.warm("tiny-random", "cpu", "fp32")
while queue.worker_pid is None:
    time.sleep(0.01)
print(queue.worker_pid, flush=True)
time.sleep(3600)
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--load", type=int, default=8, metavar="N", help="processes that keep the cores busy (default 8)"
    )
    parser.add_argument("--repeats", type=int, default=10, metavar="N", help="of each case (default 10)")
    args = parser.parse_args()
    cases: dict[str, Callable[[Path], float]] = {
        "cancel while the worker starts": cancel_while_loading,
        "cancel during a run": cancel_during_a_run,
        "app killed while torch is imported": lambda home: killed(home, "idle", lambda: imports_torch(home)),
        "app killed during a run": lambda home: killed(home, "run", lambda: has_tokens(home)),
    }
    rows = []
    with busy_cores(args.load):
        for name, measure in cases.items():
            seconds = []
            for _ in range(args.repeats):
                with tempfile.TemporaryDirectory() as home:
                    seconds.append(measure(Path(home)))
            rows.append([name, statistics.median(seconds), max(seconds), len(seconds)])
    print(f"{args.load} busy processes on {os.cpu_count()} cores")
    print(tabulate(rows, headers=["case", "median s", "longest s", "n"], floatfmt=".2f"))
    return 0


@contextmanager
def busy_cores(processes: int) -> Iterator[None]:
    """Processes that only count, for as long as the block runs."""
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def cancel_while_loading(home: Path) -> float:
    """Seconds from the cancel of a job whose worker is being started to the job's end."""
    queue = RunQueue(home)
    try:
        job = queue.submit([LONG])
        wait_until(lambda: queue.worker_pid is not None)
        return _canceled_s(queue, job.job_id)
    finally:
        queue.close()


def cancel_during_a_run(home: Path) -> float:
    """Seconds from the cancel of a job that has tokens to the job's end."""
    queue = RunQueue(home)
    try:
        job = queue.submit([LONG])
        wait_until(lambda: has_tokens(home))
        return _canceled_s(queue, job.job_id)
    finally:
        queue.close()


def _canceled_s(queue: RunQueue, job_id: str) -> float:
    begun_s = time.perf_counter()
    queue.cancel(job_id)
    queue.wait(job_id, timeout_s=PATIENCE_S)
    return time.perf_counter() - begun_s


def killed(home: Path, state: str, ready: Callable[[], bool]) -> float:
    """Seconds from the SIGKILL of an app to the end of its worker."""
    app = subprocess.Popen(
        [sys.executable, "-c", APP, str(home), state], stdout=subprocess.PIPE, text=True, env=_environment(home)
    )
    assert app.stdout is not None
    worker = int(app.stdout.readline())
    wait_until(ready)
    begun_s = time.perf_counter()
    app.kill()
    wait_until(lambda: not lives(worker))
    seconds = time.perf_counter() - begun_s
    app.wait()
    return seconds


def _environment(home: Path) -> dict[str, str]:
    return os.environ | {"LAB_HOME": str(home)}


def imports_torch(home: Path) -> bool:
    """Whether a worker of this home has mapped torch's library but has not begun a run."""
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                if str(home).encode() in (process / "environ").read_bytes():
                    maps = (process / "maps").read_text()
                    if "libtorch" in maps:
                        return True
            except OSError:
                continue
    return False


def has_tokens(home: Path) -> bool:
    """Whether a run of this home has tokens on disk."""
    return any(len(RunLogReader(path.parent).table("tokens")) > 0 for path in home.glob("runs/*/run.json"))


def lives(pid: int) -> bool:
    """Whether a process runs; one that only waits to be collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for a condition. RuntimeError where it does not come."""
    deadline_s = time.perf_counter() + PATIENCE_S
    while not condition():
        if time.perf_counter() > deadline_s:
            raise RuntimeError(f"not within {PATIENCE_S} s")
        time.sleep(0.01)


if __name__ == "__main__":
    sys.exit(main())

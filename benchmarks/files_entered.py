"""How many of the project's own files a reader has to open: the files entered while typical things happen.

    python -m benchmarks.files_entered [--root CHECKOUT] [--names]

Counts, with `sys.setprofile`, the distinct project files in which a function is called:
- one decode step of the paged engine on the CPU, and in graph execution where there is CUDA;
- Compare drawing two runs: all files, the files under pages/, and its own (files that no other page's script imports);
- TTFT from a run log to the tile on Run: the files that name TTFT, of those entered during ingest and drawing;
- from Bench's button to the first timeline: the press, the queue, the worker, ingest, and the timeline on Run.
Besides: modules, lines, import circles, and files that spell `max_num_batched_tokens`.
`--root` measures another checkout with the same interpreter, so that two commits can be compared.
"""

from __future__ import annotations

import argparse
import ast
import atexit
import contextlib
import importlib
import inspect
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path
from types import FrameType
from typing import Any

PACKAGES = ("engine", "store", "pages")
FOLDER, ROOT = "LAB_TRACE_FOLDER", "LAB_TRACE_ROOT"  # for the processes that a traced one starts
HOOK = "import files_entered; files_entered.trace_this_process()\n"
RUN = ("--model", "tiny-random", "--requests", "4", "--slots", "4", "--prompts", "p16", "--budget", "48")
GRAPH = ("--device", "cuda", "--dtype", "bf16", "--execution", "graph", "--timing", "async")


class Trace:
    """Collects the project files in which a function is called, in this thread and in threads started later.

    `inside`: only while one of these functions is on the stack of its thread. `files_of` has the same by call.
    """

    def __init__(self, root: Path, *, inside: frozenset[str] = frozenset()) -> None:
        self.files: set[str] = set()
        self.calls: Counter[frozenset[str]] = Counter()
        self._root = str(root) + os.sep
        self._inside = inside
        self._names: dict[str, str | None] = {}
        self._own = threading.local()

    def __enter__(self) -> Trace:
        threading.setprofile(self._event)
        sys.setprofile(self._event)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]

    def _event(self, frame: FrameType, event: str, _: Any) -> None:
        if event not in ("call", "return") or not frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            return  # bodies of modules and classes run at import
        name = self._name(frame.f_code.co_filename)
        if name is None:
            return
        if not self._inside:
            self.files.add(name)
            return
        self._follow(frame.f_code.co_name in self._inside, event, name)

    def _follow(self, is_door: bool, event: str, name: str) -> None:
        own = self._own
        depth, files = getattr(own, "depth", 0), getattr(own, "files", None)
        if event == "call" and is_door:
            own.depth = depth + 1
            files = own.files = files if depth else set()
        if event == "call" and files is not None:
            files.add(name)
        if event == "return" and is_door and depth:
            own.depth = depth - 1
            if own.depth == 0:
                self.calls[frozenset(own.files)] += 1
                self.files |= own.files
                own.files = None

    def _name(self, filename: str) -> str | None:
        if filename not in self._names:
            short = filename.removeprefix(self._root)
            own = short != filename and (short.partition(os.sep)[0] in PACKAGES or short == "app.py")
            self._names[filename] = short if own else None
        return self._names[filename]


def trace_this_process() -> None:
    """In a subprocess of a traced one: collect until it ends, then write the files' names."""
    if FOLDER not in os.environ:
        return
    trace = Trace(Path(os.environ[ROOT]))
    atexit.register(lambda: (Path(os.environ[FOLDER]) / f"{os.getpid()}.txt").write_text("\n".join(trace.files)))
    trace.__enter__()


def decode_step(root: Path, options: tuple[str, ...] = ()) -> set[str]:
    """The files of the engine's most frequent step: all requests decode."""
    from engine.cli import main

    step = frozenset({"step"})
    quiet, anyhow = contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit)
    with tempfile.TemporaryDirectory() as out, quiet, Trace(root, inside=step) as t, anyhow:
        main(["run", "--engine", "paged", *RUN, *options, "--out", out, "--json"])
    engine_steps = {files: n for files, n in t.calls.items() if any(f.endswith("runtime/engine.py") for f in files)}
    return set(max(engine_steps, key=lambda files: engine_steps[files]))


def _open(page: str, **query: str) -> Any:
    from streamlit.testing.v1 import AppTest

    app = AppTest.from_file(str(Path.cwd() / "app.py"), default_timeout=120)
    app.switch_page(f"pages/{page}.py")
    for name, value in query.items():
        app.query_params[name] = value
    return app


def _drawn(app: Any) -> Any:
    assert not app.exception, app.exception[0].value
    return app


def _make_run(home: Path, engine: str) -> str:
    command = [sys.executable, "-m", "engine", "run", "--engine", engine, *RUN, "--out", str(home / "runs"), "--json"]
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    return str(json.loads(ran.stdout)["run_id"])


def _ingest(home: Path) -> None:
    from store import Store

    store = Store(home)
    _ingest_all(store, home)
    store.close()


def _ingest_all(store: Any, home: Path) -> None:
    """As the checkout's store does it."""
    take_in = getattr(store, "ingest_new", None) or store.ingest.all_in
    take_in(home / "runs")


def log_to_tile(root: Path, home: Path) -> set[str]:
    """The files that name TTFT, of those entered while one run log is ingested and drawn on Run."""
    run = _make_run(home, "static")
    with Trace(root) as trace:
        _ingest(home)
        _drawn(_open("run", run_id=run).run())
    return {name for name in trace.files if re.search("ttft", (root / name).read_text(), flags=re.I)}


def compare_drawn(root: Path, home: Path) -> set[str]:
    """All files that drawing Compare enters, with the app's services already open."""
    runs = [_make_run(home, engine) for engine in ("static", "continuous")]
    _ingest_all(_lab(root).store, home)
    page = _open("compare", runs=",".join(runs))
    with Trace(root) as trace:
        _drawn(page.run())
    return trace.files


def _lab(root: Path) -> Any:
    """The app's services, wherever the checkout defines them."""
    home = next(path for path in (root / "pages").rglob("*.py") if re.search(r"^def lab\(", path.read_text(), re.M))
    return importlib.import_module(_dotted(home, root)).lab()


def button_to_timeline(root: Path, folder: Path) -> set[str]:
    """Bench's press, the queue, the worker, the recorder, and the timeline on Run."""
    (folder / "sitecustomize.py").write_text(HOOK)
    os.environ |= {FOLDER: str(folder), ROOT: str(root)}
    os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), str(Path(__file__).parent)])
    bench = _drawn(_open("bench", model="tiny-random", budget="8").run())
    button = next(b for b in bench.button if b.label.startswith("Run continuous"))
    with Trace(root, inside=frozenset({"_submit", "_run_loop", "_work", "_read_events", "_heard", "run"})) as pressed:
        button.click().run()
        queue = _lab(root).queue
        while any(not job.is_done for job in queue.jobs()):
            time.sleep(0.2)
    made = queue.jobs()[-1].runs[0].folder
    queue.close()
    copied = folder / "copied"
    shutil.copytree(made, copied / "runs" / made.name)
    with Trace(root) as ingested:
        _ingest(copied)
    with Trace(root, inside=frozenset({"load_run", "draw_timeline"})) as drawn:
        _drawn(_open("run", run_id=made.name).run())
    worker = {name for path in folder.glob("*.txt") for name in path.read_text().split("\n") if name}
    return pressed.files | ingested.files | drawn.files | worker


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules that import each other in a circle (Tarjan, 1972)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(graph.get(node, ())):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            at = stack.index(node)
            group, stack[at:] = stack[at:], []
            if len(group) > 1:
                found.append(sorted(group))

    sys.setrecursionlimit(10_000)
    for node in sorted(graph):
        if node not in index:
            visit(node)
    return found


def import_graph(root: Path) -> dict[str, set[str]]:
    """Module -> the project's modules that it imports, anywhere in its text."""
    modules = {_dotted(path, root): path for package in PACKAGES for path in (root / package).rglob("*.py")}
    graph: dict[str, set[str]] = defaultdict(set)
    for module, path in modules.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    inner = f"{node.module}.{alias.name}"
                    graph[module] |= {inner} if inner in modules else {node.module} & set(modules)
            elif isinstance(node, ast.Import):
                graph[module] |= {alias.name for alias in node.names} & set(modules)
    return graph


def own_files(root: Path, page: str, files: set[str]) -> set[str]:
    """Of `files`, those that `page`'s script imports, directly or not, and no other page's script does."""
    graph = import_graph(root)
    scripts = {f"pages.{path.stem}" for path in (root / "pages").glob("*.py")} - {"pages.__init__"}
    others = set().union(*(_reached(graph, script) for script in scripts - {f"pages.{page}"}))
    return {name for name in files if name.startswith("pages/") and _dotted(root / name, root) not in others}


def _reached(graph: dict[str, set[str]], start: str) -> set[str]:
    seen, todo = {start}, [start]
    while todo:
        for other in graph.get(todo.pop(), ()):
            if other not in seen:
                seen.add(other)
                todo.append(other)
    return seen


def _dotted(path: Path, root: Path) -> str:
    return ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


def sizes(root: Path) -> dict[str, int]:
    """Modules, lines, circles, and files that spell one option."""
    texts = [path.read_text() for package in PACKAGES for path in (root / package).rglob("*.py")]
    return {
        "modules": len(texts),
        "lines": sum(text.count("\n") for text in texts),
        "import circles": len(circles(import_graph(root))),
        "files that spell max_num_batched_tokens": sum("max_num_batched_tokens" in text for text in texts),
    }


def walks(root: Path) -> dict[str, set[str]]:
    """Each walk's files."""
    found = {"paged decode step, CPU": decode_step(root)}
    if has_cuda():
        found["paged decode step, graph"] = decode_step(root, GRAPH)
    with contextlib.suppress(ImportError), tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        (home / "runs").mkdir(parents=True)
        os.environ["LAB_HOME"] = str(home)
        found["TTFT, run log to tile"] = log_to_tile(root, home)
        drawn = compare_drawn(root, home)
        found["Compare drawn, all"] = drawn
        found["Compare drawn, in pages/"] = {name for name in drawn if name.startswith("pages/")}
        found["Compare drawn, its own"] = own_files(root, "compare", drawn)
        found["Bench's button to the timeline"] = button_to_timeline(root, Path(folder))
        _lab(root).close()
    return found


def has_cuda() -> bool:
    import torch

    return torch.cuda.is_available()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[1], help="the checkout to measure")
    parser.add_argument("--names", action="store_true", help="list the files of each walk")
    args = parser.parse_args()
    root = args.root.resolve()
    os.chdir(root)
    sys.path.insert(0, str(root))
    for name, number in sizes(root).items():
        print(f"{name:<42}{number:>8,}")
    for name, files in walks(root).items():
        print(f"{name:<42}{len(files):>8,}")
        if args.names:
            print("\n".join(f"    {file}" for file in sorted(files)))


if __name__ == "__main__":
    main()

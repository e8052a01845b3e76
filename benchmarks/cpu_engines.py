"""Static vs continuous, static vs transformers' generate, recording on vs off: interleaved, on a CPU.

    python -m benchmarks.cpu_engines [--repeats 3] [--json]

Every figure is a median over interleaved repeats (ABAB), so that drift affects both sides equally.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from engine.core.config import RunConfig, WorkloadConfig
from engine.core.home import device_lock
from engine.runlog.locks import hold
from engine.runlog.writer import RunLogWriter
from engine.runtime.build_engine import build_engine, make_runner
from engine.runtime.environment import use_available_threads
from engine.runtime.kv import attention
from engine.runtime.measuring.oracles import REFERENCE_ATTENTION
from engine.runtime.prepared_run import PreparedRun, WarmModel, prepare_run
from engine.runtime.run_description import describe_run
from engine.runtime.warm_up import NoSink, warm_up

MIXED = WorkloadConfig(prompts="p16,p64", requests=16, budget="8x8+8x64")
UNIFORM = WorkloadConfig(prompts="p64", requests=8, budget="64")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    tokens: int
    passes: int
    seconds: float

    @property
    def tokens_per_s(self) -> float:
        return self.tokens / self.seconds


class Bench:
    """A warm model, and runs with or without a log."""

    def __init__(self, model: str) -> None:
        self.warm = WarmModel()
        self.model = model

    def prepare(self, engine: str, workload: WorkloadConfig, slots: int = 8) -> PreparedRun:
        config = RunConfig(engine=engine, model=self.model, workload=workload, slots=slots)
        prepared = prepare_run(config, self.warm, lambda message, fraction: print(message))
        warm_up(prepared, make_runner(prepared, prepared.requests()), self.warm, lambda: False)
        return prepared

    def run(self, prepared: PreparedRun, *, recorded: bool = False) -> Outcome:
        requests = prepared.requests()
        runner = make_runner(prepared, requests)
        if not recorded:
            return self._timed(prepared, requests, runner, NoSink())
        with tempfile.TemporaryDirectory() as folder:
            run_info = describe_run(prepared, "benchmark", None)
            with RunLogWriter(Path(folder) / "run", run_info) as log:
                outcome = self._timed(prepared, requests, runner, log)
                log.finish({"status": "completed", "error": None, "oom": None, "totals": {}, "ended_at": ""})
            return outcome

    def _timed(self, prepared: PreparedRun, requests: Any, runner: Any, sink: Any) -> Outcome:
        engine = build_engine(prepared, requests, runner, sink)
        started = time.perf_counter()
        engine.run(lambda: False)
        seconds = time.perf_counter() - started
        return Outcome(tokens=engine.recorder.num_output_tokens, passes=engine.recorder.last_pass + 1, seconds=seconds)


def generate_uniform(prepared: PreparedRun) -> Outcome:
    """transformers' generate over the same eight rows, with its own cache, attention and loop."""
    model = prepared.loaded.model
    specs = prepared.workload.requests
    prompts = torch.tensor([prepared.prompt_ids[s.request_id] for s in specs])
    budget = specs[0].budget_tokens
    model.set_attn_implementation(REFERENCE_ATTENTION)
    try:
        started = time.perf_counter()
        with torch.inference_mode():
            model.generate(
                prompts,
                attention_mask=torch.ones_like(prompts),
                max_new_tokens=budget,
                do_sample=False,
                eos_token_id=None,
                pad_token_id=0,
            )
        seconds = time.perf_counter() - started
    finally:
        model.set_attn_implementation(attention.ATTENTION_NAME)
    return Outcome(tokens=len(specs) * budget, passes=budget, seconds=seconds)


def in_turns(repeats: int, *sides: Callable[[], Outcome]) -> list[list[Outcome]]:
    """Run the sides interleaved (ABAB…). Returns the outcomes of each side."""
    outcomes: list[list[Outcome]] = [[] for _ in sides]
    for _ in range(repeats):
        for side, run in enumerate(sides):
            outcomes[side].append(run())
    return outcomes


def rate(outcomes: list[Outcome]) -> float:
    return statistics.median(o.tokens_per_s for o in outcomes)


def paired_ratio(first: list[Outcome], second: list[Outcome]) -> float:
    """The median over turns of first's rate over second's: runs next to each other are compared, so drift cancels."""
    return statistics.median(a.tokens_per_s / b.tokens_per_s for a, b in zip(first, second, strict=True))


def continuous_over_static(bench: Bench, repeats: int) -> dict[str, Any]:
    static, continuous = bench.prepare("static", MIXED), bench.prepare("continuous", MIXED)
    s, c = in_turns(repeats, lambda: bench.run(static), lambda: bench.run(continuous))
    measured = paired_ratio(c, s)
    scheduled = s[0].passes / c[0].passes
    return {
        "static_tokens_per_s": rate(s),
        "continuous_tokens_per_s": rate(c),
        "static_passes": s[0].passes,
        "continuous_passes": c[0].passes,
        "measured_ratio": measured,
        "passes_ratio": scheduled,
        "measured_over_passes": measured / scheduled,
    }


def static_over_generate(bench: Bench, repeats: int) -> dict[str, Any]:
    static = bench.prepare("static", UNIFORM)
    generate_uniform(static)
    s, g = in_turns(repeats, lambda: bench.run(static, recorded=True), lambda: generate_uniform(static))
    return {
        "static_tokens_per_s": rate(s),
        "generate_tokens_per_s": rate(g),
        "static_over_generate": paired_ratio(s, g),
    }


def recording_cost(bench: Bench, repeats: int) -> dict[str, Any]:
    prepared = bench.prepare("continuous", replace(UNIFORM, budget="48"))
    on, off = in_turns(
        repeats * 2, lambda: bench.run(prepared, recorded=True), lambda: bench.run(prepared, recorded=False)
    )
    return {
        "recorded_tokens_per_s": rate(on),
        "unrecorded_tokens_per_s": rate(off),
        "recording_share": 1 - paired_ratio(on, off),
    }


FIGURES = {
    "continuous_over_static": continuous_over_static,
    "static_over_generate": static_over_generate,
    "recording": recording_cost,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", action="append", choices=FIGURES, help="run only this figure; repeatable")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    use_available_threads()
    bench = Bench(args.model)
    with hold(device_lock("cpu"), purpose="benchmark cpu_engines"):
        report = {name: FIGURES[name](bench, args.repeats) for name in args.only or FIGURES}
    if args.json:
        print(json.dumps(report))
        return
    for name, figures in report.items():
        print(name)
        for key, value in figures.items():
            print(f"  {key:<28} {value:.4g}")


if __name__ == "__main__":
    main()

"""The passes that a calibration times, through the real engine: which shapes, how long, and from when to when."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.core.config import RunConfig
from engine.runtime.measuring import measured_passes
from engine.runtime.measuring.measured_passes import Shape, measure_passes, shapes_for
from engine.runtime.prepared_run import PreparedRun, WarmModel, prepare_run
from engine.workload.workload import Workload

CONFIG = RunConfig(engine="static", model="tiny-random", device="cpu")


def test_shapes_keep_to_the_model_and_the_machine() -> None:
    on_cpu = shapes_for(torch.device("cpu"), 8192, "eager")
    assert max(shape.tokens for shape in on_cpu) <= 1024
    assert {1, 32} <= {shape.rows for shape in on_cpu}
    assert any(len(shape.lengths) == 2 for shape in on_cpu)
    assert {shape.lengths for shape in shapes_for(torch.device("cpu"), 100, "eager")} == {(16,), (64,)}
    assert {shape.lengths for shape in shapes_for(torch.device("cpu"), 71, "eager")} == {(16,)}
    on_gpu = shapes_for(torch.device("cuda"), 8192, "graph")
    assert max(max(shape.lengths) for shape in on_gpu) == 4096
    # 256 and 48 new tokens are 304.
    assert {shape.lengths for shape in shapes_for(torch.device("cuda"), 303, "graph")} == {(16,)}
    assert {shape.lengths for shape in shapes_for(torch.device("cuda"), 304, "graph")} == {(16,), (16, 256), (256,)}


@pytest.mark.parametrize(("execution", "budget"), [("eager", 8), ("graph", 48)])
def test_a_shapes_requests_are_there_twice_and_say_as_much_as_its_execution_needs(execution: str, budget: int) -> None:
    prepared: list[PreparedRun] = []
    config = replace(CONFIG, engine="continuous", execution=execution)

    def keep(config: RunConfig, warm: WarmModel, on_progress: Any, workload: Workload) -> PreparedRun:
        run = prepare_run(replace(config, execution="eager"), warm, on_progress, workload)
        prepared.append(run)
        return run

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measured_passes, "prepare_run", keep)
        measured_passes._prepared(config, WarmModel(), Shape(rows=3, lengths=(16,)))
    (run,) = prepared
    assert [spec.request_id for spec in run.workload.requests] == [0, 1, 2, 3, 4, 5]
    assert {spec.budget_tokens for spec in run.workload.requests} == {budget}
    assert run.config.slots == 3


def test_real_passes_are_measured_through_the_engine(lab_home: Path) -> None:
    shapes = [Shape(rows=2, lengths=(16,)), Shape(rows=4, lengths=(4, 64))]
    messages: list[str] = []
    found = measure_passes(replace(CONFIG, engine="continuous"), WarmModel(), shapes, messages.append)
    assert {(p.kv_layout, p.kind, p.rows, p.masked) for p in found} == {
        ("slots", "prefill", 2, False),
        ("slots", "decode", 2, False),
        ("slots", "prefill", 4, False),
        ("slots", "decode", 4, True),
    }
    ragged = next(p for p in found if p.kind == "prefill" and p.rows == 4)
    assert ragged.tokens == 2 * 4 + 2 * 64
    assert ragged.squared_lengths == 2 * 16 + 2 * 4096
    assert all(0 < p.seconds < 10 and p.samples == 2 for p in found)
    assert messages


def test_the_second_half_of_a_shape_begins_when_the_first_has_ended(lab_home: Path) -> None:
    sinks: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        make = measured_passes.build_engine
        patch.setattr(
            measured_passes,
            "build_engine",
            lambda run, requests, runner, sink: sinks.append(sink) or make(run, requests, runner, sink),
        )
        for engine in ("static", "continuous", "paged"):
            measure_passes(
                replace(CONFIG, engine=engine), WarmModel(), [Shape(rows=2, lengths=(4, 16))], lambda m: None, rounds=1
            )
    for sink in sinks:
        one = ["prefill", *["decode"] * (measured_passes.NEW_TOKENS - 1)]
        assert [row["kind"] for row in sink.rows] == one + one


def test_prompts_that_are_read_in_several_passes_are_left_out(lab_home: Path) -> None:
    config = replace(CONFIG, engine="chunked", max_num_batched_tokens=32)
    shapes = [Shape(rows=1, lengths=(16,)), Shape(rows=1, lengths=(64,))]
    found = measure_passes(config, WarmModel(), shapes, lambda message: None, rounds=1)
    assert [p.prompt_tokens for p in found if p.kind != "decode"] == [16]
    assert [p.kind for p in found].count("decode") == 2


class Rows:
    """In place of an engine: appends rows of passes that end when they are told to."""

    def __init__(self, sink: Any, kinds_and_ends_s: list[tuple[str, float]]) -> None:
        for kind, end_s in kinds_and_ends_s:
            numbers = {"rows": 1, "tokens": 1, "prompt_tokens": 16 if kind == "prefill" else 0, "width": 17}
            more = {"computed_positions": 17, "padding_positions": 0, "masked": False}
            sink.append("passes", kind=kind, start_s=end_s - 0.001, end_s=end_s, **numbers, **more)

    def run(self, should_stop: Any) -> None: ...


def test_a_pass_lasts_from_the_end_of_the_one_before_it_in_a_busy_engine(
    lab_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = [("prefill", 5.0), ("decode", 6.0), ("decode", 7.0), ("decode", 8.0), ("decode", 9.0)]
    second = [("prefill", 12.0), ("decode", 16.0), ("decode", 20.0), ("decode", 21.0), ("decode", 22.0)]
    rows = first + second
    monkeypatch.setattr(measured_passes, "build_engine", lambda run, requests, runner, sink: Rows(sink, rows))
    found = measure_passes(CONFIG, WarmModel(), [Shape(rows=1, lengths=(16,))], lambda message: None, rounds=1)
    # A prefill that had to wait for the device counts whole; of the decode passes the later half alone.
    assert [(p.kind, p.seconds) for p in found] == [("prefill", 3.0), ("decode", 1.0)]
    assert found[0].squared_lengths == 256

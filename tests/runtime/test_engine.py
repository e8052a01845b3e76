"""The engines on a tiny model: the same tokens as generate for every policy, layout and arrival law."""

from __future__ import annotations

import errno
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.core.config import RunConfig, SamplingConfig, WorkloadConfig
from engine.core.errors import EngineOutOfMemory
from engine.core.form_rule import FormRule
from engine.core.passes import PlannedPass
from engine.runlog.reader import RunLogReader
from engine.runtime.build_engine import build_engine, make_runner
from engine.runtime.measuring.oracles import generate_outputs
from engine.runtime.measuring.parity import engine_outputs
from engine.runtime.model_runner import SlotRunner
from engine.runtime.passes_in_flight import RunClock, make_timing
from engine.runtime.prepared_run import PreparedRun, WarmModel, prepare_run
from engine.runtime.run import execute_run

ENGINES = ("serial", "static", "continuous")
RAGGED = WorkloadConfig(prompts="p5,p9,p17,p30", requests=9, budget="1-20")


@pytest.fixture(scope="module")
def warm() -> WarmModel:
    return WarmModel()


def prepared(
    warm: WarmModel, engine: str = "continuous", workload: WorkloadConfig = RAGGED, **more: Any
) -> PreparedRun:
    config = RunConfig(engine=engine, model="tiny-random", device="cpu", workload=workload, **more)
    return prepare_run(config, warm, lambda message, fraction: None)


class Rows:
    """A sink that keeps all rows."""

    def __init__(self) -> None:
        self.rows: dict[str, list[dict[str, Any]]] = {
            "passes": [],
            "tokens": [],
            "requests": [],
            "spans": [],
            "memory": [],
        }

    def append(self, stream: str, **row: Any) -> None:
        self.rows[stream].append(row)

    def extend(self, stream: str, columns: Mapping[str, Sequence[Any]]) -> None:
        self.rows[stream] += [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def run_rows(run: PreparedRun) -> dict[str, list[dict[str, Any]]]:
    sink = Rows()
    requests = run.requests()
    engine = build_engine(run, requests, make_runner(run, requests), sink)
    assert engine.run(lambda: False)
    engine.recorder.close(engine.clock.now_s())
    return sink.rows


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("arrival", ["closed", "constant:200"])
def test_every_engine_says_what_generate_says(warm: WarmModel, engine: str, arrival: str) -> None:
    run = prepared(warm, engine, replace(RAGGED, arrival=arrival))
    assert engine_outputs(run) == generate_outputs(run)


@pytest.mark.parametrize("form", ["full", "timeout:0.02"])
def test_a_batch_that_waits_to_be_full_says_the_same(warm: WarmModel, form: str) -> None:
    workload = replace(RAGGED, arrival="constant:100")
    run = prepared(warm, "static", workload, form=FormRule.parse(form), slots=4)
    assert engine_outputs(run) == generate_outputs(run)


def test_sampled_tokens_do_not_depend_on_the_engine(warm: WarmModel) -> None:
    sampling = SamplingConfig(temperature=0.9, top_k=40, top_p=0.95)
    outputs = [engine_outputs(prepared(warm, engine, sampling=sampling)) for engine in ENGINES]
    assert outputs[0] == outputs[1] == outputs[2]
    greedy = engine_outputs(prepared(warm))
    assert outputs[0] != greedy


def test_the_end_of_the_sequence_ends_a_request_that_does_not_ignore_it(warm: WarmModel) -> None:
    run = prepared(warm, "continuous", replace(RAGGED, budget="eos:20"))
    free = engine_outputs(replace(run, workload=_ignoring_eos(run)))
    eos = free[0][3]
    expected = {i: ids[: ids.index(eos) + 1] if eos in ids else ids for i, ids in free.items()}
    for engine in ENGINES:
        requests = run.requests()
        turned = replace(run, config=replace(run.config, engine=engine))
        built = build_engine(turned, requests, make_runner(turned, requests), Rows())
        built.eos_ids = frozenset({eos})
        assert built.run(lambda: False)
        assert {r.request_id: r.output_ids for r in requests} == expected
    assert len(expected[0]) <= 4


def _ignoring_eos(run: PreparedRun) -> Any:
    specs = tuple(replace(s, ignore_eos=True) for s in run.workload.requests)
    return replace(run.workload, requests=specs)


def test_dead_rows_are_really_computed_in_a_static_batch(warm: WarmModel) -> None:
    workload = WorkloadConfig(prompts="p16", requests=4, budget="2x3+2x9")
    passes = run_rows(prepared(warm, "static", workload))["passes"]
    assert [p["rows"] for p in passes] == [4] * 9
    assert [p["live_rows"] for p in passes] == [4] * 3 + [2] * 6
    # 16 prompt columns + one a token so far; two dead rows of the full width from the fourth pass on.
    assert [p["dead_positions"] for p in passes][3:] == [2 * (16 + k) for k in range(3, 9)]


def test_a_continuous_pass_has_no_dead_row_and_refills_at_once(warm: WarmModel) -> None:
    workload = WorkloadConfig(prompts="p16", requests=6, budget="3x2+3x5")
    passes = run_rows(prepared(warm, "continuous", workload, slots=2))["passes"]
    assert all(p["rows"] == p["live_rows"] and p["dead_positions"] == 0 for p in passes)
    assert sum(p["rows"] for p in passes) == 3 * 2 + 3 * 5


def test_tokens_are_in_order_and_never_before_their_pass(warm: WarmModel) -> None:
    rows = run_rows(prepared(warm))
    ends = {p["pass_index"]: p["end_s"] for p in rows["passes"]}
    starts = {p["pass_index"]: p["start_s"] for p in rows["passes"]}
    by_request: dict[int, list[dict[str, Any]]] = {}
    for token in rows["tokens"]:
        assert starts[token["pass_index"]] < token["produced_s"] <= ends[token["pass_index"]]
        assert token["delivered_s"] >= token["produced_s"]
        by_request.setdefault(token["request_id"], []).append(token)
    for tokens in by_request.values():
        assert [t["token_index"] for t in tokens] == list(range(len(tokens)))


def test_a_batch_returned_whole_is_delivered_at_its_end(warm: WarmModel, tmp_path: Path) -> None:
    workload = WorkloadConfig(prompts="p16", requests=4, budget="2x3+2x9")
    run = prepared(warm, "static", workload, returns="whole")
    result = execute_run(run, "whole", tmp_path / "whole", warm)
    table = RunLogReader(tmp_path / "whole").table("requests")
    assert len(set(table["returned_s"].to_pylist())) == 1
    assert result["totals"]["ttft_p50_s"] == pytest.approx(result["totals"]["e2e_p50_s"])
    assert result["totals"]["itl_p50_s"] is None


def test_spans_fill_every_lane_from_the_first_pass_to_the_last(warm: WarmModel) -> None:
    for engine in ENGINES:
        rows = run_rows(prepared(warm, engine, slots=4))
        merged: dict[int, dict[str, Any]] = {}
        for row in rows["spans"]:
            merged.setdefault(row["span_id"], {}).update(row)
        num_passes = len(rows["passes"])
        for lane in range(4 if engine != "serial" else 1):
            spans = sorted((s for s in merged.values() if s["lane"] == lane), key=lambda s: s["span_id"])
            assert spans[0]["start_pass"] == 0
            assert spans[-1]["end_pass"] == num_passes
            for before, after in zip(spans, spans[1:], strict=False):
                assert before["end_pass"] == after["start_pass"]


def test_a_run_that_fills_the_disk_is_failed_in_one_line(
    warm: WarmModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def full(file: object, content: object) -> None:
        time.sleep(0.01)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("engine.runlog.writer._StreamFile.write", full)
    monkeypatch.setattr("engine.runlog.writer.FLUSH_S", 0.001)  # the run meets the full disk on its way
    result = execute_run(prepared(warm, "continuous"), "full", tmp_path / "full", warm)
    why = "the run log could not be written: No space left on the disk; free some space and run again"
    assert (result["status"], result["error"]) == ("failed", why)
    assert RunLogReader(tmp_path / "full").status() == "failed"
    assert "Traceback" not in capfd.readouterr().err


def test_a_pool_too_small_ends_the_run_as_oom_and_the_next_one_works(warm: WarmModel, tmp_path: Path) -> None:
    small = prepared(warm, "continuous", pool_gib=1e-6)
    result = execute_run(small, "small", tmp_path / "small", warm)
    assert result["status"] == "oom"
    # 4 slots x (30 + 20) columns x 2 x 2 layers x 2 KV heads x 16 wide x 4 bytes.
    widest = max(len(small.prompt_ids[s.request_id]) + s.budget_tokens for s in small.workload.requests)
    spec = small.loaded.spec
    assert result["oom"]["asked_bytes"] == 4 * widest * 2 * spec.layers * spec.kv_heads * spec.head_dim * 4
    assert result["oom"]["free_bytes"] == 1073
    assert "columns" in result["oom"]["shape"]
    assert RunLogReader(tmp_path / "small").status() == "oom"
    assert execute_run(prepared(warm), "next", tmp_path / "next", warm)["status"] == "completed"


def test_a_capacity_by_estimate_refuses_the_pass_that_does_not_fit(warm: WarmModel, tmp_path: Path) -> None:
    run = prepared(warm, "static", capacity_gib=0.0001)
    result = execute_run(run, "capacity", tmp_path / "capacity", warm)
    assert result["status"] == "oom"
    assert "by estimate" in result["error"]


def test_a_stop_ends_within_one_pass_and_keeps_the_tokens(warm: WarmModel, tmp_path: Path) -> None:
    calls = 0

    def stop_at_the_eighth_look() -> bool:
        nonlocal calls
        calls += 1
        return calls > 8

    run = prepared(warm, "continuous", replace(RAGGED, budget="20"), warmups=0)
    result = execute_run(run, "stopped", tmp_path / "stopped", warm, should_stop=stop_at_the_eighth_look)
    reader = RunLogReader(tmp_path / "stopped")
    assert result["status"] == "stopped"
    assert reader.status() == "stopped"
    states = set(reader.table("requests")["state"].to_pylist())
    assert "stopped" in states
    assert reader.table("tokens").num_rows == result["totals"]["output_tokens"] > 0


def test_an_empty_workload_completes_with_nothing(warm: WarmModel, tmp_path: Path) -> None:
    for engine in ENGINES:
        run = prepared(warm, engine, replace(RAGGED, requests=0))
        result = execute_run(run, engine, tmp_path / engine, warm)
        assert (result["status"], result["totals"]["output_tokens"]) == ("completed", 0)


def test_more_slots_than_requests(warm: WarmModel) -> None:
    for engine in ENGINES:
        run = prepared(warm, engine, replace(RAGGED, requests=2), slots=16)
        assert engine_outputs(run) == generate_outputs(run)


def test_a_prompt_beyond_the_models_positions_is_rejected_with_a_fix(warm: WarmModel) -> None:
    loaded = prepared(warm).loaded
    short = WarmModel(loaded=replace(loaded, spec=replace(loaded.spec, max_positions=49)), key=warm.key)
    with pytest.raises(ValueError, match="a prompt of 30 tokens and a budget of 20 exceed the 49 positions"):
        prepared(short, workload=replace(RAGGED, budget="20"))


def test_an_answer_ends_at_its_end_of_sequence_even_where_the_budget_goes_on(warm: WarmModel, tmp_path: Path) -> None:
    run = prepared(warm, workload=WorkloadConfig(prompts="p9", requests=1, budget="20"))
    tokens = engine_outputs(run)[0]
    loaded = replace(run.loaded, spec=replace(run.loaded.spec, eos_token_ids=(tokens[4],)))
    execute_run(replace(run, loaded=loaded), "eos", tmp_path / "eos", warm)
    row = RunLogReader(tmp_path / "eos").table("requests").to_pylist()[0]
    assert row["output_tokens"] == 20
    assert row["output_text"] == run.loaded.encoder.decode(tokens[: tokens.index(tokens[4])])


class LateTiming:
    """Passes land only when waited for, as on a slow device."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.held: list[Any] = []

    def begin(self) -> None:
        self.inner.begin()

    def launched(self, flight: Any) -> None:
        self.inner.launched(flight)
        self.held += self.inner.landed(wait=True)

    def landed(self, *, wait: bool) -> list[Any]:
        landed, self.held = (self.held, []) if wait else ([], self.held)
        return landed


def test_passes_in_flight_are_logged_when_the_run_fails(
    warm: WarmModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = prepared(warm, workload=WorkloadConfig(prompts="p8", requests=1, budget="20"), warmups=0)

    def make_late(name: str, device: Any, clock: RunClock) -> LateTiming:
        return LateTiming(make_timing(name, device, clock))

    monkeypatch.setattr("engine.runtime.build_engine.make_timing", make_late)

    def fail_at_the_seventh(self: SlotRunner, planned: PlannedPass) -> Any:
        if planned.index == 6:
            raise RuntimeError("the device is on fire")
        return SlotRunner.__mro__[1].run(self, planned)

    monkeypatch.setattr(SlotRunner, "run", fail_at_the_seventh)
    result = execute_run(run, "fire", tmp_path / "fire", warm)
    assert (result["status"], result["error"]) == ("failed", "the device is on fire")
    assert RunLogReader(tmp_path / "fire").table("passes").num_rows == 6
    assert result["totals"]["output_tokens"] == 6


def test_a_model_that_does_not_fit_is_out_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_big(*_: Any) -> Any:
        raise RuntimeError(
            "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 4096 bytes."
        )

    monkeypatch.setattr("engine.runtime.prepared_run.load_model", too_big)
    with pytest.raises(EngineOutOfMemory) as caught:
        prepared(WarmModel())
    assert caught.value.asked_bytes == 4096
    assert caught.value.where == "loading tiny-random"

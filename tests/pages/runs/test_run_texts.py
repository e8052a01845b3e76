"""Texts of runs on the pages: endings, missing latencies, headers, tables; against hand-written expectations."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest

from engine.core.config import RunConfig, WorkloadConfig
from engine.core.form_rule import FormRule
from engine.metrics.definitions import Definitions
from engine.metrics.distribution import Distribution
from pages.parts.compare.choice import asked_runs, pair_labels, pairs_of
from pages.parts.compare.compared_run import ComparedRun
from pages.parts.compare.differences import difference_header, difference_rows, differences
from pages.parts.compare.settings import Mismatch, mismatch_rows, setting_rows
from pages.parts.history.table import history_table
from pages.parts.history.toolbar import split_running
from pages.parts.run import environment
from pages.parts.run.requests import table_of
from pages.parts.runs.figures import LATENCY_FIGURES, absence, overlaid, worst_gap_text
from pages.parts.runs.request_texts import text_block
from pages.parts.runs.run_text import busy_line, choice_label, engine_line, machine_line, when, workload_line
from pages.parts.runs.status import kept_line, oom_lines, trouble_of
from pages.parts.shared.tables import table_html
from tests.support.no_break import nb

BY_KEY = {latency.key: latency for latency in LATENCY_FIGURES}
NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
METRICS_SO_FAR = {"output_tokens": 120, "finished_requests": 3}


def requests(**columns: list[object]) -> pd.DataFrame:
    names = ("queue_wait_s", "ttft_s", "tpot_s", "e2e_s", "returned_s", "output_tokens")
    rows = len(next(iter(columns.values())))
    return pd.DataFrame({name: columns.get(name, [None] * rows) for name in names}).astype(float)


def test_a_completed_or_running_run_has_no_panel() -> None:
    assert trouble_of("completed", None, None, METRICS_SO_FAR, 8) is None
    assert trouble_of("running", None, None, METRICS_SO_FAR, 8) is None


def test_out_of_memory() -> None:
    oom = {"asked_bytes": 3 * 2**30, "free_bytes": 2**29, "shape": "8 rows x 4096 columns", "where": "prefill pass 0"}
    trouble = trouble_of("oom", "out of memory", oom, METRICS_SO_FAR, 8)
    assert trouble is not None
    assert trouble.kind == "warning"
    assert trouble.lines[:3] == (
        nb("Requested: 3.00 GiB, in prefill pass 0"),
        "Shape: 8 rows x 4096 columns",
        nb("Free at that moment: 512 MiB"),
    )
    assert trouble.lines[3] == "Kept and shown below: 120 tokens, 3 of 8 requests finished."


def test_unknown_details_of_an_out_of_memory_are_left_out() -> None:
    assert oom_lines({"asked_bytes": None, "free_bytes": None, "shape": None, "where": None}) == (
        "Requested: more than was free, in an allocation",
    )


def test_an_out_of_memory_without_details_shows_its_message() -> None:
    trouble = trouble_of("oom", "no room", None, {}, 1)
    assert trouble is not None
    assert trouble.lines[:2] == ("Error message: no room", "No token was logged.")


@pytest.mark.parametrize(
    ("status", "kind", "word"),
    [("stopped", "info", "stopped"), ("failed", "error", "failed"), ("crashed", "error", "worker died")],
)
def test_other_endings(status: str, kind: str, word: str) -> None:
    trouble = trouble_of(status, None, None, METRICS_SO_FAR, 8)
    assert trouble is not None
    assert trouble.kind == kind
    assert word in trouble.headline


def test_a_message_cannot_draw_on_the_page() -> None:
    trouble = trouble_of("failed", "bad **dtype** <b>", None, {}, 1)
    assert trouble is not None
    assert trouble.lines[0] == r"Error message: bad \*\*dtype\*\* \<b\>"


def test_what_was_kept() -> None:
    assert kept_line({"output_tokens": 1, "finished_requests": 0}, 1) == (
        "Kept and shown below: 1 token, 0 of 1 request finished."
    )
    assert kept_line({}, 8) == "No token was logged."


def test_overlaid_points_keep_their_run_their_rank_and_the_percentiles_of_the_rule() -> None:
    latencies = {"a": Distribution.of(np.array([1.0, np.nan])), "b": Distribution.of(np.array([3.0, 2.0, np.inf]))}
    frame = overlaid(latencies, Definitions())
    assert frame["series"].tolist() == ["a", "b", "b"]
    assert frame["value_s"].tolist() == [1.0, 2.0, 3.0]
    assert (frame["rank"].tolist(), frame["n"].tolist()) == ([1, 1, 2], [1, 3, 3])
    assert (frame["p50_s"].tolist(), frame["p95_s"].tolist()) == ([1.0, 3.0, 3.0], [1.0, math.inf, math.inf])
    nearest = overlaid({"c": Distribution.of(np.array([1.0, 2.0]))}, Definitions(percentile="nearest"))
    assert nearest["p50_s"].tolist() == [1.0, 1.0]


def test_a_latency_with_infinite_samples_only_is_one_point() -> None:
    frame = overlaid({"a": Distribution.of(np.array([np.inf, np.inf]))}, Definitions())
    assert (frame["value_s"].tolist(), frame["n"].tolist()) == ([math.inf], [2])
    assert overlaid({}, Definitions()).empty


def test_the_worst_gap_over_the_median_gap() -> None:
    metrics = {"paged": {"itl_max_s": 0.3, "itl_p50_s": 0.1}, "chunked": {"itl_max_s": 0.2, "itl_p50_s": 0.1}}
    assert worst_gap_text(metrics) == (
        nb("Worst gap over median gap: paged 3.00 times (300 ms over 100 ms), chunked 2.00 times (200 ms over 100 ms).")
    )
    assert worst_gap_text({"whole": {"itl_max_s": None, "itl_p50_s": None}}) == ""
    assert worst_gap_text({"stopped": {"itl_max_s": math.inf, "itl_p50_s": 0.1}}) == ""


@pytest.mark.parametrize(
    ("key", "columns", "status", "words"),
    [
        ("itl", {"returned_s": [4.0]}, "completed", "full response mode"),
        ("tpot", {"returned_s": [4.0]}, "completed", "full response mode"),
        ("tpot", {"output_tokens": [1, 1]}, "completed", "no answer has a second token"),
        ("itl", {"output_tokens": [1, 1]}, "completed", "no answer has a second token"),
        ("e2e", {"output_tokens": [5]}, "running", "got that far yet"),
        ("e2e", {"output_tokens": [5]}, "crashed", "before the run ended"),
        ("ttft", {"output_tokens": []}, "running", "no request has arrived yet"),
        ("ttft", {"output_tokens": []}, "completed", "no request has arrived"),
    ],
)
def test_why_a_latency_is_absent(key: str, columns: dict[str, list[object]], status: str, words: str) -> None:
    assert words in absence(BY_KEY[key], requests(**columns), status)


def test_engine_lines() -> None:
    assert engine_line(RunConfig(engine="serial")) == "Serial, one request at a time"
    assert engine_line(RunConfig(slots=1)) == "Continuous batching, 1 slot"
    whole = RunConfig(engine="static", slots=8, form=FormRule(rule="timeout", timeout_s=2.0), returns="whole")
    assert engine_line(whole) == nb(
        "Static batching, 8 slots, batches formed when full or after 2.00 s, full response mode"
    )


def test_machine_and_workload_lines() -> None:
    info = {
        "model": {"name": "tiny", "dtype": "float32"},
        "device": {"kind": "cpu", "name": "EPYC 9", "threads": 2},
        "workload": {"requests": 8, "prompts": "chat", "budget": "8", "arrival": "closed", "seed": 0},
    }
    assert machine_line(info) == r"tiny in fp32 on EPYC 9 \(cpu, 2 threads\)"
    assert workload_line(info, {"output_tokens": 64, "duration_s": 2.0}) == (
        nb(r"8 requests \(chat, budget 8, arrival closed, seed 0\)\: 64 new tokens in 2.00 s")
    )
    assert workload_line(info, {"output_tokens": 0, "duration_s": None}).endswith("0 new tokens")
    assert machine_line({}) == "unknown model in unknown on unknown device"


def test_a_busy_machine_is_mentioned() -> None:
    assert busy_line({"environment": {"load_average_1min": 3.0, "cpu_count": 2}}) == ""
    assert "load 3.20 on 2 cores" in busy_line({"environment": {"load_average_1min": 3.2, "cpu_count": 2}})
    assert busy_line({"environment": {"load_average_1min": None, "cpu_count": 2}}) == busy_line({}) == ""


def test_times_are_shown_in_the_zone_of_this_machine() -> None:
    here = datetime(2026, 11, 29, 14, 31, 7).astimezone()
    in_utc = pd.Timestamp(here).tz_convert("UTC")
    assert when(here.isoformat()) == when(in_utc) == when(in_utc.tz_localize(None)) == "2026-11-29 14:31:07"
    assert when(pd.NaT) == "unknown time"
    assert when("some day") == "some day"


def test_a_run_in_a_list_of_runs() -> None:
    row = {"created_at": NOON, "engine": "static", "slots": 4, "requests": 1}
    assert choice_label(row | {"model": "tiny", "status": "completed"}) == (
        f"{when(NOON)}  static, 4 slots, 1 request, tiny"
    )
    assert choice_label(row | {"model": "tiny", "status": "oom", "slots": None}).endswith(
        "static, 1 request, tiny, oom"
    )


def test_asked_runs() -> None:
    assert asked_runs("a,b, a,,c") == ["a", "b", "c"]
    assert asked_runs(None) == asked_runs("") == asked_runs(" , ") == []


def run_row(run_id: str, engine: str, **changes: object) -> dict[str, object]:
    row = {"run_id": run_id, "engine": engine, "status": "completed", "workload_digest": "aa", "model": "m"}
    return row | {"dtype": "fp32", "device_name": "A CPU", "simulated": False} | changes


def test_suggested_pairs_share_their_setting_and_the_older_comes_first() -> None:
    rows = [
        run_row("5", "continuous"),
        run_row("4", "static", workload_digest="bb"),
        run_row("3", "static", status="crashed"),
        run_row("2", "static"),
        run_row("1", "continuous", dtype="bf16"),
    ]
    assert pairs_of(rows) == [("2", "5")]
    assert pairs_of(rows, "2") == [("2", "5")]
    assert pairs_of(rows, "4") == []


def test_pairs_that_look_the_same_are_told_apart_by_their_runs() -> None:
    shared = {"requests": 8, "model": "m", "created_at": "2026-11-29T14:31:07Z"}
    by_id = {name: {"engine": engine, **shared} for name, engine in (("a", "static"), ("b", "static"), ("c", "paged"))}
    alike = pair_labels([("a", "c"), ("b", "c")], by_id)
    assert [label.rpartition(" (")[2] for label in alike] == ["runs a and c)", "runs b and c)"]
    assert "runs" not in pair_labels([("a", "c")], by_id)[0]


def test_settings_that_differ() -> None:
    two = [RunConfig(engine="static"), RunConfig(engine="continuous", workload=WorkloadConfig(seed=3), pool_gib=2.0)]
    assert setting_rows(two) == [
        ["engine", "static", "continuous"],
        ["workload.seed", "0", "3"],
        ["pool_gib", "–", "2.0"],
    ]
    assert setting_rows([RunConfig(), RunConfig()]) == []


def test_tables_of_differences() -> None:
    runs = [
        ComparedRun(name=n, status="completed", arrival="closed", requests=1, metrics={"duration_s": v})
        for n, v in (("static", 4.0), ("continuous", 2.0), ("serial", 8.0))
    ]
    assert difference_header(runs[:2]) == ["metric", "static", "continuous", "ratio"]
    pair = difference_rows(differences(runs[:2], ["duration_s"]))
    assert pair == [["Duration", nb("4.00 s"), nb("2.00 s"), "0.500x better"]]
    assert difference_header(runs) == ["metric", "static", "continuous", "serial"]
    three = difference_rows(differences(runs, ["duration_s"]))
    assert three == [["Duration", nb("4.00 s"), nb("2.00 s (0.500x better)"), nb("8.00 s (2.00x worse)")]]


def test_mismatch_rows() -> None:
    found = [Mismatch(what="dtype", values=("float32", "bfloat16"), why="half the bytes")]
    assert mismatch_rows(found) == [["dtype", "float32", "bfloat16", "half the bytes"]]


def test_a_table_escapes_what_it_shows() -> None:
    table = table_html(["a", "b"], [["<b>", "1"]], figures=[1])
    assert "<td>&lt;b&gt;</td>" in table
    assert '<td class="figure">1</td>' in table
    sentence = "a sentence that goes on for more than a few words"
    assert f'<td class="prose">{sentence}</td>' in table_html(["a"], [[sentence]])


def test_history_rows() -> None:
    row = run_row("r1", "static", created_at=NOON, requests=8, output_tokens=64)
    figures = {"output_tokens_per_s": 32.0, "ttft_p50_s": 0.5, "dead_fraction": 0.25, "duration_s": 2.0, "slots": 4}
    annotation = {
        "note": "slow",
        "tags": "a",
        "pinned": True,
        "earned": "host",
        "lost": "real_weights",
        "log_bytes": 2**20,
    }
    table = history_table(pd.DataFrame([row | figures | annotation | {"random_weights": True, "watched": False}]))
    shown = table.iloc[0].to_dict()
    assert (shown["open"], shown["when"], shown["dead, %"]) == ("/run?run_id=r1", when(NOON), 25.0)
    assert shown["status"] == "completed, random weights"
    assert (shown["note and tags"], shown["on disk, MiB"]) == ("[a] slow", 1.0)
    assert (shown["badges"], shown["caveats"]) == ("1 of 2", "random weights")


def test_running_runs_cannot_be_deleted() -> None:
    assert split_running([run_row("a", "static"), run_row("b", "static", status="running")]) == (["a"], ["b"])


def test_nested_settings_become_one_table() -> None:
    settings = {
        "device": {"name": "a  b", "memory_bytes": 2**30},
        "threads": None,
        "load": 0.12345,
        "lines": ["x", "y"],
    }
    assert environment.setting_rows(settings) == [
        ["device.name", "a b"],
        ["device.memory_bytes", nb("1.00 GiB")],
        ["threads", "–"],
        ["load", "0.123"],
        ["lines", "2 lines"],
    ]


def test_the_request_table_cuts_texts_to_one_line() -> None:
    frame = pd.DataFrame({"request_id": [0], "prompt_text": ["a\nb"], "output_text": ["x" * 500]})
    table = table_of(frame)
    assert table["prompt"][0] == "a b"
    assert table["answer"][0] == "x" * 160 + " …"


def test_foreign_text_is_no_markup() -> None:
    assert "&lt;script&gt;" in text_block("<script>")
    assert "<script>" not in text_block("<script>")

"""The twelve prepared queries over five runs with hand-computed values: see tests/support/runs/question_runs.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from store import Store
from store.queries.prepared_queries import KINDS, PreparedQuery, prepared_queries
from store.sandbox import ask
from tests.support.runs.question_runs import write_question_runs

QUESTIONS = {question.name: question for question in prepared_queries()}
CPU = "tiny-random, fp32, A test's CPU"


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with Store(tmp_path_factory.mktemp("home")) as store:
        write_question_runs(store.runs_folder)
        reports, problems = store.ingest.all_in(store.runs_folder)
        assert (len(reports), problems) == (5, {})
        yield store.snapshots.publish().path


def answer(snapshot: Path, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = ask(snapshot, QUESTIONS[name].sql).table.to_pylist()
    return rows


def test_there_are_twelve_with_a_title_and_a_description() -> None:
    assert len(QUESTIONS) == len(prepared_queries()) == 12
    for question in QUESTIONS.values():
        assert question.title
        assert question.shows.endswith((".", "?"))
        assert question.sql.startswith(("SELECT", "WITH"))


@pytest.mark.parametrize("question", prepared_queries(), ids=list(QUESTIONS))
def test_a_chart_uses_columns_of_its_result(snapshot: Path, question: PreparedQuery) -> None:
    columns = ask(snapshot, question.sql).table.column_names
    assert len(columns) == len(set(columns))
    if question.chart is not None:
        assert question.chart.kind in KINDS
        assert {question.chart.x, question.chart.y, question.chart.color or columns[0]} <= set(columns)


@pytest.mark.parametrize("question", prepared_queries(), ids=list(QUESTIONS))
def test_a_query_runs_on_an_empty_store(tmp_path: Path, question: PreparedQuery) -> None:
    with Store(tmp_path) as store:
        assert ask(store.snapshots.publish().path, question.sql).table.num_rows == 0


def test_waste_by_engine(snapshot: Path) -> None:
    """Static: 2 of 8 slot-steps dead, 37 of 140 positions; 5.7 of 16 position-seconds held and unused.

    Continuous: b, c and d together: 5 of 103 + 55 + 103 positions are padding, and 3.55 + 50 + 4.35 of
    12 + 100 + 16 position-seconds unused. Paged: 20 of each 100.
    """
    rows = answer(snapshot, "waste_by_engine")
    names = ("engine", "runs", "dead_fraction", "padding_fraction", "dead_position_fraction", "kv_unused_fraction")
    assert [tuple(row) for row in rows] == [names] * 3
    assert [tuple(row.values())[:2] for row in rows] == [("static", 1), ("continuous", 3), ("paged", 1)]
    figures = [list(row.values())[2:] for row in rows]
    assert figures[0] == pytest.approx([0.25, 0, 37 / 140, 5.7 / 16])
    assert figures[1] == pytest.approx([0, 5 / 261, 0, 57.9 / 128])
    assert figures[2] == pytest.approx([0, 0, 0, 0.2])


def test_ttft_by_rate(snapshot: Path) -> None:
    """Only run c has arrivals: one request per second. They waited 1, 2, 3, 4 and 5 s for their first token."""
    [row] = answer(snapshot, "ttft_by_rate")
    assert (row["engine"], row["slots"], row["requests"], row["run_id"]) == ("continuous", 1, 5, "c")
    assert (row["offered_requests_per_s"], row["ttft_p50_s"], row["ttft_p95_s"]) == pytest.approx((1.0, 3.0, 4.8))


def test_slowest_gaps(snapshot: Path) -> None:
    """Request 0 of e has a gap of 3 s during prefills of 16 and 30 tokens. Then come the gaps of 1 s in c and e."""
    rows = answer(snapshot, "slowest_gaps")
    assert len(rows) == 20  # of 4 + 4 + 5 + 4 + 3
    first = {"gap_s": 3.0, "engine": "paged", "request_id": 0, "token_index": 1, "step": 1}
    assert rows[0] == first | {"admitted_requests": 2, "admitted_prompt_tokens": 46, "run_id": "e"}
    assert [(row["run_id"], row["request_id"], row["admitted_requests"]) for row in rows[1:8]] == [
        *(("c", i, 1) for i in range(5)),
        ("e", 1, 2),
        ("e", 2, 2),
    ]
    assert [row["gap_s"] for row in rows[1:8]] == [1.0] * 7
    assert rows[8]["gap_s"] == pytest.approx(0.1)


def test_speed_by_month(snapshot: Path) -> None:
    """6 tokens in 0.4 s in October; 20, 1 and 15 tokens/s in November; e: 6 tokens in 3.5 s."""
    rows = answer(snapshot, "speed_by_month")
    assert [(row["month"], row["series"], row["runs"]) for row in rows] == [
        ("2026-10", "static, tiny-random, cpu", 1),
        ("2026-11", "continuous, tiny-random, cpu", 3),
        ("2026-11", "paged, tiny-random, cpu", 1),
    ]
    assert [row["median_tokens_per_s"] for row in rows] == pytest.approx([15, 15, 6 / 3.5])
    assert [row["best_tokens_per_s"] for row in rows] == pytest.approx([15, 20, 6 / 3.5])


def test_rate_not_met(snapshot: Path) -> None:
    """c's last request was planned for 4 s and submitted at 7 s: later by more than the longest step, 2 s."""
    [row] = answer(snapshot, "rate_not_met")
    assert row["run_id"] == "c"
    rates = row["offered_requests_per_s"], row["given_requests_per_s"], row["latest_s"]
    assert rates == pytest.approx((1.0, 4 / 7, 3.0))
    assert "3.00 s later than intended" in row["finding"]


def test_fell_behind(snapshot: Path) -> None:
    """When c's last request arrived, at 4 s, request 3 was waiting: it got its slot at 6 s. 5 requests in 10 s."""
    [row] = answer(snapshot, "fell_behind")
    assert (row["run_id"], row["waiting_requests"], row["slots"]) == ("c", 1, 1)
    assert (row["waiting_share"], row["finished_requests_per_s"]) == pytest.approx((0.2, 0.5))


def test_prompt_cost(snapshot: Path) -> None:
    """32 tokens in 0.1, 0.1 and 0.2 s; 5 tokens in 1 s five times; 10 in 0.5 s; 46 in 2 s."""
    rows = answer(snapshot, "prompt_cost")
    assert {row["series"] for row in rows} == {CPU}
    assert [(row["prompt_tokens_up_to"], row["passes"]) for row in rows] == [(8, 5), (16, 1), (32, 3), (64, 1)]
    assert [row["median_pass_s"] for row in rows] == pytest.approx([1.0, 0.5, 0.1, 2.0])
    assert [row["prompt_tokens_per_s"] for row in rows] == pytest.approx([5, 20, 240, 23])


def test_decode_by_rows(snapshot: Path) -> None:
    """One row: 0.05 s four times and 1 s five times. Two rows: 0.1 s. Three rows, paged: 1 s."""
    rows = answer(snapshot, "decode_by_rows")
    assert [(row["series"], row["rows"], row["passes"]) for row in rows] == [
        (f"continuous, {CPU}", 1, 9),
        (f"continuous, {CPU}", 2, 2),
        (f"paged, {CPU}", 3, 1),
        (f"static, {CPU}", 2, 3),
    ]
    assert [row["median_pass_s"] for row in rows] == pytest.approx([1.0, 0.1, 1.0, 0.1])
    assert [row["tokens_per_s"] for row in rows] == pytest.approx([1, 20, 3, 20])


def test_static_against_continuous(snapshot: Path) -> None:
    """a vs b, the newer of the two continuous runs of the same requests."""
    [row] = answer(snapshot, "static_against_continuous")
    assert (row["static_run_id"], row["continuous_run_id"], row["slots"]) == ("a", "b", 2)
    speeds = row["static_tokens_per_s"], row["continuous_tokens_per_s"], row["speed_ratio"]
    assert speeds == pytest.approx((15, 20, 4 / 3))
    waits = row["static_ttft_p95_s"], row["continuous_ttft_p95_s"], row["static_dead_fraction"]
    assert waits == pytest.approx((0.1, 0.1, 0.25))


def test_preemptions(snapshot: Path) -> None:
    """Request 1 of e, twice: 3 + 2 blocks; 40 + 20 of 200 tokens were computed again."""
    [row] = answer(snapshot, "preemptions")
    assert row == {
        "run_id": "e",
        "pool": "paged, 24 blocks",
        "model": "tiny-random",
        "preemptions": 2,
        "preempted_requests": 1,
        "blocks_given_back": 5,
        "recomputed_tokens": 60,
        "recomputed_share": pytest.approx(0.3),
    }


def test_spread_of_repeats(snapshot: Path) -> None:
    """b and d: the same requests at 20 and at 15 tokens/s, with the first token after 0.1 and 0.2 s."""
    [row] = answer(snapshot, "spread_of_repeats")
    assert (row["series"], row["runs"]) == ("continuous, tiny-random, 2 slots", 2)
    speeds = row["least_tokens_per_s"], row["median_tokens_per_s"], row["most_tokens_per_s"]
    assert speeds == pytest.approx((15, 17.5, 20))
    assert (row["speed_spread"], row["ttft_p95_spread"]) == pytest.approx((1 / 3, 1.0))


def test_not_completed(snapshot: Path) -> None:
    [row] = answer(snapshot, "not_completed")
    shown = (row["run_id"], row["status"], row["error"], row["finished_requests"], row["workload_requests"])
    assert shown == ("e", "stopped", "stopped by hand", 0, 3)
    assert row["output_tokens"] == 6

"""The finding of a comparison, for every outcome."""

from __future__ import annotations

from dataclasses import replace

from pages.parts.compare.compared_run import ComparedRun
from pages.parts.compare.finding import drawback, finding
from pages.parts.compare.settings import Mismatch
from tests.support.no_break import nb

STATIC = ComparedRun(
    name="static",
    status="completed",
    arrival="closed",
    requests=8,
    metrics={
        "output_tokens": 240,
        "finished_requests": 8,
        "output_tokens_per_s": 40.0,
        "dead_fraction": 0.25,
        "passes": 90,
        "decode_pass_p50_s": 0.05,
        "prefill_s": 0.2,
        "ttft_p95_s": 3.0,
        "itl_max_s": 0.06,
        "e2e_p50_s": 4.0,
    },
)
CONTINUOUS = replace(
    STATIC,
    name="continuous",
    metrics={**STATIC.metrics, "output_tokens_per_s": 60.0, "dead_fraction": 0.0, "passes": 70, "e2e_p50_s": 2.0},
)


def with_metrics(run: ComparedRun, **metrics: float | int | None) -> ComparedRun:
    return replace(run, metrics={**run.metrics, **metrics})


def test_the_faster_engine_with_its_reason() -> None:
    assert finding([STATIC, CONTINUOUS]) == (
        nb(
            "Continuous was 1.50 times as fast as static on the same 8 requests: 60.0 against 40.0 tokens/s; "
            "static computed 25.0 % of its slot-steps for ended requests, continuous none."
        )
    )


def test_the_order_of_the_runs_changes_nothing() -> None:
    assert finding([CONTINUOUS, STATIC]) == finding([STATIC, CONTINUOUS])


def test_a_drawback_of_the_faster_run_is_named() -> None:
    spiky = with_metrics(CONTINUOUS, itl_max_s=0.3)
    assert finding([STATIC, spiky]).endswith("continuous none.")
    expected = nb("Drawback of continuous: the longest gap between two tokens was 300 ms against 60.0 ms.")
    assert drawback([STATIC, spiky]) == drawback([spiky, STATIC]) == expected
    assert drawback([STATIC, CONTINUOUS]) == ""
    assert drawback([STATIC, spiky, spiky]) == ""


def test_times_that_cannot_be_trusted_give_way_to_counts() -> None:
    runs = [with_metrics(STATIC, slot_steps=348, passes=87), with_metrics(CONTINUOUS, slot_steps=212, passes=74)]
    assert finding(runs, distrust="the host may have slowed the engine in both runs") == (
        "Continuous needed 74 forward passes and 212 slot-steps on the same 8 requests, static 87 and 348. "
        "The times cannot be trusted: the host may have slowed the engine in both runs."
    )
    three = [*runs, with_metrics(replace(STATIC, name="serial"), slot_steps=212, passes=212)]
    assert finding(three, distrust="x").startswith(
        "Continuous needed 74 forward passes and 212 slot-steps on the same 8 requests, static 87 and 348 and serial "
        "212 and 212."
    )


def test_simulated_runs_are_called_so() -> None:
    runs = [replace(run, is_simulated=True) for run in (STATIC, CONTINUOUS)]
    assert finding(runs).startswith("In simulation, continuous was 1.50 times as fast as static")


def test_the_drawback_of_few_requests_is_the_longest_wait() -> None:
    slow = with_metrics(CONTINUOUS, ttft_n=8, ttft_max_s=6.0, ttft_p95_s=5.0)
    base = with_metrics(STATIC, ttft_n=8, ttft_max_s=4.0)
    assert drawback([base, slow]) == nb(
        "Drawback of continuous: the longest time to first token was 6.00 s against 4.00 s."
    )
    many = [with_metrics(run, ttft_n=20) for run in (base, slow)]
    assert drawback(many) == nb("Drawback of continuous: the p95 time to first token was 5.00 s against 3.00 s.")


def test_continuous_can_lose() -> None:
    slow = with_metrics(CONTINUOUS, output_tokens_per_s=32.0, passes=90, decode_pass_p50_s=0.08)
    even = with_metrics(STATIC, dead_fraction=0.0)
    assert finding([even, slow]) == (
        nb(
            "Static was 1.25 times as fast as continuous on the same 8 requests: 40.0 against 32.0 tokens/s; "
            "its median decode pass took 50.0 ms, continuous's 80.0 ms."
        )
    )


def test_waste_of_the_faster_run_is_named() -> None:
    slow = with_metrics(CONTINUOUS, output_tokens_per_s=32.0, decode_pass_p50_s=0.08)
    assert finding([STATIC, slow]) == (
        nb(
            "Static was 1.25 times as fast as continuous on the same 8 requests: 40.0 against 32.0 tokens/s although "
            "it computed 25.0 % of its slot-steps for ended requests, continuous none; its median decode pass took "
            "50.0 ms, continuous's 80.0 ms."
        )
    )


def test_no_reason_without_a_figure() -> None:
    even = with_metrics(STATIC, dead_fraction=0.0)
    assert finding([even, with_metrics(even, output_tokens_per_s=32.0)]).endswith(nb("40.0 against 32.0 tokens/s."))


def test_a_tie_is_called_a_tie() -> None:
    even = with_metrics(STATIC, dead_fraction=0.0)
    tied = with_metrics(CONTINUOUS, output_tokens_per_s=40.6)
    assert finding([even, tied]) == (
        nb(
            "Static and continuous were equally fast on the same 8 requests, within 2 %: 40.0 against 40.6 "
            "tokens/s; neither computed slot-steps for ended requests."
        )
    )
    assert nb("ended requests: static 25.0 %, continuous none") in finding([STATIC, tied])


def test_over_time_arrivals_are_ranked_by_complete_answers() -> None:
    runs = [replace(run, arrival="poisson:2") for run in (with_metrics(STATIC, output_tokens_per_s=60.0), CONTINUOUS)]
    assert finding(runs).startswith(
        nb(
            "Continuous was 2.00 times as fast as static on the same 8 requests: half of the answers were complete "
            "within 2.00 s against 4.00 s;"
        )
    )


def test_closed_and_over_time_arrivals_are_ranked_by_one_measure() -> None:
    mixed = [replace(STATIC, arrival="poisson:2"), CONTINUOUS]
    assert nb("within 2.00 s against 4.00 s") in finding(mixed)


def test_unequal_counts_of_tokens_are_shown() -> None:
    assert nb("60.0 against 40.0 tokens/s (over 200 and 240 tokens)") in finding(
        [STATIC, with_metrics(CONTINUOUS, output_tokens=200)]
    )


def test_one_failure_leaves_nothing_to_compare() -> None:
    broken = replace(with_metrics(STATIC, finished_requests=3), status="oom")
    assert finding([broken, CONTINUOUS]) == (
        nb(
            "Only continuous completed (60.0 tokens/s): static ran out of memory after 3 of 8 requests, so there is no "
            "speed to compare it with."
        )
    )


def test_two_failures() -> None:
    crashed = replace(with_metrics(STATIC, finished_requests=0), status="crashed")
    stopped = replace(with_metrics(CONTINUOUS, finished_requests=8), status="stopped")
    assert finding([crashed, stopped]) == (
        "No run completed: static crashed after 0 of 8 requests and continuous was stopped after 8 of 8 requests."
    )


def test_no_finding_before_the_end() -> None:
    assert finding([STATIC, replace(CONTINUOUS, status="running")]) == (
        "continuous is still running; the finding follows when every run has ended."
    )


def test_an_empty_workload_has_no_speed() -> None:
    nothing = replace(with_metrics(STATIC, output_tokens=0, output_tokens_per_s=None), requests=0)
    assert finding([nothing, replace(nothing, name="continuous")]) == (
        "No speed to compare: static produced no token and continuous produced no token."
    )


def test_three_runs_are_ranked() -> None:
    serial = replace(with_metrics(STATIC, output_tokens_per_s=20.0), name="serial")
    assert finding([serial, STATIC, CONTINUOUS]) == (
        nb(
            "Of 3 runs on the same 8 requests continuous was fastest (60.0 tokens/s), 1.50 times as fast as static "
            "(40.0 tokens/s) and 3.00 times as fast as serial (20.0 tokens/s)."
        )
    )


def test_ties_at_the_top_and_failures_in_a_ranking() -> None:
    again = replace(with_metrics(CONTINUOUS, output_tokens_per_s=59.5), name="continuous, run 2")
    broken = replace(with_metrics(STATIC, finished_requests=3), name="serial", status="failed")
    assert finding([CONTINUOUS, again, STATIC, broken]) == (
        nb(
            "Of 3 runs on the same 8 requests continuous and continuous, run 2 were fastest (60.0 tokens/s), within "
            "2 % of each other, 1.50 times as fast as static (40.0 tokens/s) (left out: serial failed after 3 of 8 "
            "requests)."
        )
    )


def test_the_finding_begins_with_what_differs() -> None:
    differing = [Mismatch(what=what, values=("a", "b"), why="") for what in ("workload", "dtype")]
    assert finding([STATIC, CONTINUOUS], differing).startswith(
        "Not a comparison of engines only, because their workload and dtype differ: continuous was 1.50 times as fast "
        "as static: 60.0 against"
    )

"""`engine arrivals` with a real model: a whole load test, what it reports, and how it goes on after a stop."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from engine.cli import main
from engine.experiments.experiment import remaining
from engine.load.findings import (
    capacity_text,
    confirmation_text,
    goodput_text,
    little_text,
    ratio_sentence,
    saturation_text,
    wait_text,
)
from engine.load.load_point import load_point
from engine.load.load_report import load_report
from engine.load.load_table import load_table
from engine.runlog.experiment_log import POINTS_FILE, ExperimentLog
from engine.runlog.reader import RunLogReader
from tests.load.test_load import growth, known_table, sample
from tests.support.no_break import nb

pytestmark = pytest.mark.usefixtures("own_locks")  # a lab that is in use is not waited for

SMALL = ["arrivals", "--model", "tiny-random", "--prompts", "p4,p9", "--budget", "3-6", "--slots", "2", "--rates", "40"]


def arrivals(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    assert main([*arguments, "--json"]) == 0
    report: dict[str, object] = json.loads(capsys.readouterr().out)
    return report


def test_a_load_test_measures_both_engines_on_one_trace_and_goes_on_after_a_cut(
    lab_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = arrivals(capsys, *SMALL, "--requests", "12", "--ttft-limit-s", "3600")
    assert report["status"] == "completed"
    points = report["points"]
    assert isinstance(points, list)
    assert [(p["engine"], p["role"]) for p in points] == [
        (engine, role) for engine in ("static", "continuous") for role in ("rate", "saturation", "below", "above")
    ]
    assert all(p["status"] == "completed" and p["ttft_n"] == 12 and p["goodput_share"] == 1.0 for p in points)
    capacity = report["capacity"]
    assert isinstance(capacity, dict)
    ratio = capacity["continuous"]["requests_per_s"] / capacity["static"]["requests_per_s"]
    assert report["capacity_ratio"] == pytest.approx(ratio)
    assert report["capacity_base"] == "static"
    for role, share in (("below", 0.9), ("above", 1.1)):
        asked = next(p for p in points if (p["engine"], p["role"]) == ("static", role))["rate_per_s"]
        assert asked == pytest.approx(share * capacity["static"]["requests_per_s"], rel=1e-5)
    # Both engines were given the same requests at the same moments: the logs say so themselves.
    runs = lab_home / "runs"
    infos = [RunLogReader(runs / p["run_ids"][0]).run_info() for p in points if p["role"] == "rate"]
    assert {info["engine"] for info in infos} == {"static", "continuous"}
    assert len({info["workload"]["digest"] for info in infos}) == 1
    _cut_off_after(runs / str(report["experiment_id"]), 6)
    again = arrivals(capsys, "arrivals", "--resume", str(report["experiment_id"]))
    assert again["status"] == "completed"
    repeated = again["points"]
    assert isinstance(repeated, list)
    kept = [a["run_ids"] == b["run_ids"] for a, b in zip(points, repeated, strict=True)]
    assert kept == [True] * 6 + [False] * 2  # continuous just below and above its capacity were run again


def _cut_off_after(folder: Path, ended: int) -> None:
    """Take all of an experiment's record away but its first points: as if it had been killed then."""
    lines = (folder / POINTS_FILE).read_text().splitlines(keepends=True)
    places = [place for place, line in enumerate(lines) if "started" not in line and "added" not in line]
    (folder / POINTS_FILE).write_text("".join(lines[: places[ended - 1] + 1]))
    logged = ExperimentLog.read(folder)
    assert len(remaining(logged.plan, logged.records)) == 8 - ended


def test_the_text_report_has_one_line_per_point_and_the_findings(
    lab_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*SMALL, "--engine", "serial", "--requests", "8", "--no-confirm"]) == 0
    message = capsys.readouterr().out
    header, at_a_rate, at_once = (line.split() for line in message.splitlines()[2:5])
    assert header[:5] == ["engine", "rate", "offered/s", "vs", "rate"]
    assert at_a_rate[:2] == ["serial", "40/s"]
    deviation = float(at_a_rate[2]) / 40 - 1
    assert float(at_a_rate[3].removesuffix("\u00a0%")) == pytest.approx(100 * deviation, abs=1)
    assert at_once[:5] == ["serial", "all", "at", "once", "–"]
    assert "serial: capacity" in message
    assert "Not confirmed" in message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rates", "0"], "rates '0': use requests/s from 0.000001 to 1,000,000"),
        (["--rates", "1e9"], "rates '1e9': use requests/s from 0.000001 to 1,000,000"),
        (["--rates", "1e-300"], "rates '1e-300': use requests/s from 0.000001 to 1,000,000"),
        (["--requests", "0"], "requests 0: use 1 or more"),
        (["--engines", "fast"], "engines 'fast': use some of serial, static"),
        (["--arrival", "closed"], "arrival 'closed': use poisson, constant or gamma:CV"),
        (["--ttft-limit-s", "0"], "ttft-limit-s 0.0: use seconds above 0"),
        (["--repeats", "0"], "repeats 0: use 1 to 1,000"),
        (["--budget", "x"], "budget 'x'"),
        (["--budget", ""], "budget '': use 64"),
        (["--rates", ""], "rates '': use requests/s"),
        (["--engines", ""], "engines '': use some of serial, static"),
        (["--arrival", ""], "arrival '': use poisson, constant or gamma:CV"),
        (["--arrival", "gamma:0"], "arrival 'gamma:0': use a coefficient of variation of 0.01 to 100"),
        (["--out", ""], "out '': name a folder"),
        (["--out", __file__], "is a file; name a folder"),
        (["--engines", "chunked", "--slots", "600"], "max-num-batched-tokens 512"),
        (["--engines", "paged", "--form", "full"], "form full: only the static engine forms batches"),
        (["--resume", "x", "--rates", "1"], "leave out --model, --rates"),
    ],
)
def test_bad_input_gets_one_line(
    arguments: list[str], message: str, lab_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["arrivals", "--model", "tiny-random", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_the_report_of_a_known_table() -> None:
    report = load_report(known_table())
    assert report["capacity_ratio"] == pytest.approx(1.6)
    assert report["capacity_ratios"] == {"continuous": pytest.approx(1.6)}
    assert report["capacity"]["static"] == {
        "requests_per_s": 1.5, "low_per_s": 1.4, "high_per_s": 1.8, "repeats": 3, "output_tokens_per_s": 150.0,
        "grows_at_0.9": False, "grows_at_1.1": True, "confirmed": True, "served_at_0.9_per_s": None,
        "served_at_1.1_per_s": None,
    }  # fmt: skip
    assert report["knee"]["static"]["wait_ratio"] == 20.0
    json.dumps(report)
    json.dumps(load_report(load_table(["static"], [sample("static", 1.0)])))
    assert load_report(load_table([], []))["capacity_ratio"] is None


def test_findings_name_the_numbers_and_favor_no_engine() -> None:
    table = known_table()
    static, continuous = table.capacity("static"), table.capacity("continuous")
    assert static is not None
    assert continuous is not None
    assert capacity_text(static) == (
        nb(
            "static: capacity 1.50 requests/s, 150 output tokens/s, when all requests arrive at once (median of "
            "3 runs, 1.40 to 1.80). Confirmed: with evenly spaced requests the queue does not grow at 0.9 times the "
            "capacity and grows at 1.1 times."
        )
    )
    assert "the run at 1.1 times the capacity is missing" in capacity_text(continuous)
    unsure = " Not conclusive: the capacity of continuous was not confirmed."
    assert ratio_sentence(table) == f"continuous's capacity is 1.60 times static's.{unsure}"
    turned = load_table(["continuous", "static"], [s for row in table.rows for s in row.samples])
    assert ratio_sentence(turned) == "static's capacity is 0.625 times continuous's." + unsure
    found = table.saturation_point("static")
    assert found is not None
    assert saturation_text(found) == (
        nb(
            "static: saturation point between 1 request/s (queue steady) and 2 requests/s (queue grows); the median "
            "queue wait rises from 500 ms to 10.0 s (20.0 times)."
        )
    )
    at_two = [row for row in table.rows if row.rate_per_s == 2.0]
    assert wait_text(at_two) == (
        nb("Median queue wait at 2 requests/s: 10.0 s with static, 100 ms with continuous (100 times).")
    )
    assert wait_text(at_two[:1]) == ""
    assert goodput_text(at_two[0]) == ""


@pytest.mark.parametrize("grew", [False, True])
def test_a_capacity_below_a_served_rate_is_too_low(grew: bool) -> None:
    known = known_table()
    static = known.capacity("static")
    assert static is not None
    assert (static.is_confirmed, static.refuted_by) == (True, None)
    assert confirmation_text(static).startswith("Confirmed: ")
    rows = [s for row in known.rows for s in row.samples]
    hair = load_table(known.engines, [sample("static", 1.9, achieved_per_s=1.57, growth=growth(grew)), *rows])
    assert hair.capacity("static") == replace(static, refuted_by=None)
    table = load_table(known.engines, [sample("static", 1.9, achieved_per_s=1.8, growth=growth(grew)), *rows])
    refuted = table.capacity("static")
    assert refuted is not None
    assert refuted.is_confirmed is False
    assert confirmation_text(refuted).startswith(
        nb(
            "Not confirmed: the capacity is too low, since 1.80 requests/s were served at 1.9 requests/s. The run with "
            "all requests at once was too short, "
        )
    )
    assert ratio_sentence(table).endswith("Not conclusive: neither capacity was confirmed.")


def test_littles_law_text_for_half_a_request_per_second() -> None:
    from engine.load.load_point import LittlesLaw

    little = LittlesLaw(n=60, arrivals_per_s=0.5, mean_stay_s=26.0, mean_number=13.0)
    assert little_text("static", 0.5, little) == (
        nb(
            "static at 0.5 requests/s: 0.500 requests/s after the ramp x 26.0 s in the system = 13.0 requests in the "
            "system; as counted."
        )
    )
    few = LittlesLaw(n=19, arrivals_per_s=0.5, mean_stay_s=26.0, mean_number=13.0)
    assert little_text("static", 0.5, few) == (
        nb(
            "static at 0.5 requests/s: too few requests to check Little's law (19 arrivals in the steady part; needs "
            "20)."
        )
    )
    piling = LittlesLaw(n=60, arrivals_per_s=1.0, mean_stay_s=30.0, mean_number=15.0)
    assert little_text("static", 1.0, piling).endswith(
        nb("counted: 15.0, 50.0 % fewer. Arrivals and completions had different rates: no steady state.")
    )


def test_a_log_without_requests_is_an_empty_point() -> None:
    from tests.support.runs.records import EMPTY

    assert (load_point(EMPTY).requests, load_point(EMPTY).window) == (0, None)

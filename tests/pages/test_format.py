"""Formatted numbers: one text for one value everywhere, against hand-written expectations."""

from __future__ import annotations

import ast
import io
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from engine.commands.run import _table
from engine.core.errors import EngineOutOfMemory
from engine.core.format import (
    NO_BREAK_SPACE,
    aligned,
    breakable,
    change,
    count,
    counted,
    duration,
    exact,
    fit_terminal,
    in_unit,
    number,
    percent,
    plural,
    quantity,
    ratio,
    size,
    unbroken,
)
from engine.validity.load_checks import judge_steady_window
from pages.figures.latency.cdf import latency_caption, latency_cdf
from pages.parts.runs.badges import badge_text, badges_of, status_badge
from pages.parts.runs.validity import explained_checks
from pages.parts.shared.links import compare_link, runs_query
from pages.parts.shared.markdown import code, listed, plain
from pages.parts.shared.metric_text import METRIC_BY_NAME, metric_text, value_and_unit, value_text
from pages.parts.shared.tables import TABLE_FORMAT
from tests.support.no_break import UNIT, nb
from tests.support.runs.evidence import evidence, requests

ROOT = Path(__file__).parents[2]
INF, NAN = float("inf"), float("nan")
BY_HAND = (  # limits of what may be typed, keys, JSON, what a command line or a style takes, and d3's formats
    "{rate_per_s:.6g}",
    "{share * capacity_per_s:.6g}",
    "map(exact, rates_per_s)",
    "%{{y:,.4~r}}",
    "%{{customdata[{i}]}}",
    "{x:.4f},{middle + up - tooth:.6g}",
    "{x:.4f},{middle + up + tooth:.6g}",
    "{(start - window[0]) / span:.3%}",
    "{waiting / deepest:.0%}",
    "--capacity-gib",
    "--pool-gib",
    "{float(row[name]) / entry.factor:.12g}",
    "query.py: f'{value:.6g}'",
    "report/commands.py: f'{value:.12g}'",
    "{self.low:,.16g} to {self.high:,.16g}",
)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (number(0.052149), "0.0521"),
        (number(1), "1.00"),
        (number(9.996), "10.0"),
        (number(59.96), "60.0"),
        (number(99.96), "100"),
        (number(999.6), "1,000"),
        (number(5214.9), "5,210"),
        (number(1e12), "1,000,000,000,000"),
        (number(1e-9), "0.00000000100"),
        (number(0), "0"),
        (number(-0.0), "0"),
        (number(-0.5), "-0.500"),
        (number(0.123456, 2), "0.12"),
        (number(INF), "∞"),
        (number(-INF), "-∞"),
        (count(4096), "4,096"),
        (count(4095.6), "4,096"),
        (count(1e12), "1,000,000,000,000"),
        (counted(4096.0), "4,096"),
        (counted(12.54), "12.5"),
        (counted(INF), "∞"),
        (plural(1, "request"), "1 request"),
        (plural(2, "batch", "batches"), "2 batches"),
        (plural(0, "token"), "0 tokens"),
        (plural(12345, "token"), "12,345 tokens"),
        (duration(0), "0 s"),
        (duration(1e-9), "0.00100 µs"),
        (duration(0.0005), "500 µs"),
        (duration(0.0009994), "999 µs"),
        (duration(0.0009996), "1.00 ms"),
        (duration(0.0521), "52.1 ms"),
        (duration(0.9994), "999 ms"),
        (duration(0.9996), "1.00 s"),
        (duration(59.96), "60.0 s"),
        (duration(75.53), "75.5 s"),
        (duration(312), "312 s"),
        (duration(1e12), "1,000,000,000,000 s"),
        (duration(-0.0005), "-500 µs"),
        (duration(INF), "∞"),
        (percent(0), "0 %"),
        (percent(1e-9), "under 0.01 %"),
        (percent(0.00009), "under 0.01 %"),
        (percent(0.0002), "0.0200 %"),
        (percent(0.4375), "43.8 %"),
        (percent(0.9994), "99.9 %"),
        (percent(0.99996), "over 99.9 %"),
        (percent(1), "100 %"),
        (percent(1 - 1e-15), "100 %"),
        (percent(1.234), "123 %"),
        (percent(-0.25), "-25.0 %"),
        (percent(INF), "∞"),
        (change(0.241), "+24.1 %"),
        (change(-0.003), "-0.300 %"),
        (change(0.00004), "0 %"),
        (change(0), "0 %"),
        (change(11.5), "+1,150 %"),
        (change(INF), "+∞"),
        (ratio(1.9231), "1.92x"),
        (ratio(0), "0x"),
        (ratio(1.0004, 5), "1.0004x"),
        (ratio(INF), "∞"),
        (size(0), "0 B"),
        (size(512), "512 B"),
        (size(1023.6), "1.00 KiB"),
        (size(1023.6 * 2**10), "1.00 MiB"),
        (size(97_600_000), "93.1 MiB"),
        (size(2.88 * 2**30), "2.88 GiB"),
        (size(3 * 2**40), "3.00 TiB"),
        (size(-3 * 2**20), "-3.00 MiB"),
        (size(INF), "∞"),
        (quantity(312.4, "tokens/s"), "312 tokens/s"),
        (quantity(4.392, "TB/s"), "4.39 TB/s"),
        (quantity(1.5, ""), "1.50"),
        (quantity(INF, "s"), "∞"),
        (exact(5, "%"), "5 %"),
        (exact(100 * 0.07, "%"), "7 %"),
        (exact(0.5, "GiB"), "0.5 GiB"),
        (exact(1024), "1,024"),
        (exact(0.00001), "0.00001"),
        (exact(3.14159, digits=4), "3.142"),
        (in_unit(0.0521, "s"), "52.1 ms"),
        (in_unit(0.5, "share"), "50.0 %"),
        (in_unit(512, "bytes"), "512 B"),
        (in_unit(2, "times"), "2.00x"),
        (in_unit(2048, ""), "2,048"),
        (in_unit(194, "tokens/s"), "194 tokens/s"),
        (aligned(0.0521, "s"), "      52.1 ms"),
        (aligned(2048, ""), "     2,048"),
    ],
)
def test_written(written: str, expected: str) -> None:
    assert written == nb(expected)


@pytest.mark.parametrize("missing", [None, NAN, np.nan, pd.NA, pd.NaT])
def test_what_was_not_measured_is_a_dash_and_never_a_zero(missing: float | None) -> None:
    writers = (number, count, counted, duration, percent, change, ratio, size)
    assert {write(missing) for write in writers} == {"–"}
    assert quantity(missing, "tokens/s") == "–"
    assert {in_unit(missing, unit) for unit in ("s", "share", "bytes", "times", "", "tokens/s")} == {"–"}


def test_a_file_has_usual_spaces_and_a_page_makes_them_no_break_ones() -> None:
    written = f"{duration(0.0521)} of {size(2**30)}, {percent(0.5)} at {quantity(3, 'requests/s')}, 8 rows"
    assert written.count(NO_BREAK_SPACE) == 4
    assert breakable(written) == "52.1 ms of 1.00 GiB, 50.0 % at 3.00 requests/s, 8 rows"
    assert unbroken(breakable(written)) == written
    assert unbroken("4 slots, 2 steps, 3 times") == "4 slots, 2 steps, 3 times"


def test_an_error_that_is_kept_in_a_file_has_usual_spaces() -> None:
    error = EngineOutOfMemory(asked_bytes=3 * 2**30, free_bytes=2**20, shape="8 rows", where="prefill")
    assert str(error) == "out of memory: prefill asked for 3.00 GiB (8 rows), 1.00 MiB were free"


def test_a_terminal_without_the_characters_gets_plain_ones() -> None:
    written = io.BytesIO()
    stream = io.TextIOWrapper(written, encoding="ascii")
    fit_terminal(stream, io.StringIO())
    print(duration(0.0005), percent(0.5), file=stream, flush=True)
    assert written.getvalue() == b"500 ?s 50.0 %\n"


def test_one_value_has_one_text_in_tiles_labels_captions_badges_and_on_the_terminal() -> None:
    value_s, expected = 0.9996, nb("1.00 s")
    metric = METRIC_BY_NAME["ttft_p50_s"]
    tile = NO_BREAK_SPACE.join(value_and_unit(metric, value_s))
    samples = pd.DataFrame({"series": "static", "value_s": [value_s]})
    label = " ".join(str(note.text) for note in latency_cdf(samples, title="TTFT").layout.annotations)
    run = evidence(requests=requests(finished_s=requests()["arrival_s"] + value_s))
    verdict = judge_steady_window(run)
    stored = {
        "check_name": "steady_window",
        "outcome": verdict.outcome.value,
        "finding": breakable(verdict.finding),
    }
    report = {"run_id": "a", "status": "completed", "ttft_p50_s": value_s}
    assert "for 1.00 s on average" in stored["finding"]
    for text in (tile, metric_text(metric, value_s), label, latency_caption(samples, "TTFT")):
        assert expected in text
    assert expected in explained_checks([stored])[0].finding
    assert expected in _table(report)


def test_no_number_is_formatted_by_hand() -> None:
    """What people read is written by engine/core/format.py: no f-string has a unit, a share or decimals."""
    found = [
        f"{path.relative_to(ROOT)}: {ast.unparse(string)}"
        for folder in ("engine", "pages", "store")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if path.name != "format.py"
        for string in ast.walk(ast.parse(path.read_text()))
        if isinstance(string, ast.JoinedStr) and _is_by_hand(string)
    ]
    assert [line for line in found if not any(known in line for known in BY_HAND)] == []
    assert [known for known in BY_HAND if not any(known in line for line in found)] == []


@pytest.mark.parametrize(
    ("unit", "value", "text"),
    [
        ("s", 0.0521, "52.1 ms"),
        ("share", 0.4375, "43.8 %"),
        ("bytes", 3_092_376_453, "2.88 GiB"),
        ("times", 1.9231, "1.92x"),
        ("tokens/s", 312.4, "312 tokens/s"),
        ("slot-steps", 2304, "2,304 slot-steps"),
        ("requests", 12.54, "12.5 requests"),
        ("", 4096, "4,096"),
        ("requests", None, "–"),
    ],
)
def test_a_metrics_value_has_its_unit(unit: str, value: float | None, text: str) -> None:
    assert value_text(unit, value).replace(NO_BREAK_SPACE, " ") == text


def test_sortable_tables_share_one_number_format() -> None:
    """A column's format is TABLE_FORMAT, or `localized` for whole numbers."""
    formats = [
        (path.relative_to(ROOT).as_posix(), ast.unparse(keyword.value))
        for path in sorted((ROOT / "pages").rglob("*.py"))
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call)
        and ast.unparse(call.func).lower().endswith(("number", "number_column", "numbercolumn"))
        for keyword in call.keywords
        if keyword.arg == "format"
    ]
    assert {text for _, text in formats} == {"TABLE_FORMAT", "'localized'"}, formats
    assert TABLE_FORMAT == "%.4g"


def test_a_unit_in_a_header_follows_a_comma() -> None:
    """`TTFT p50, s`, not `TTFT p50 s`."""
    found = [
        f"{path.relative_to(ROOT)}: {node.value}"
        for folder in ("engine/commands", "pages")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and re.fullmatch(r"[\w-]+(?: p\d\d)? (?:s|ms|GiB|MiB|%)", str(node.value))
    ]
    assert found == []


def _is_by_hand(string: ast.JoinedStr) -> bool:
    for value, after in zip(string.values, [*string.values[1:], None], strict=True):
        if isinstance(value, ast.FormattedValue):
            spec = "" if value.format_spec is None else ast.unparse(value.format_spec)
            if re.search(r"\.[1-9]\d*[efg]|\.\d+%", spec):
                return True
            if isinstance(after, ast.Constant) and re.match(
                rf"[ {NO_BREAK_SPACE}](?:{UNIT})(?![\w/])", str(after.value)
            ):
                return True
    return False


def test_foreign_text_stays_what_it_is() -> None:
    assert plain("# a *b*\n$x$ <b> `c` :red[d]") == r"\# a \*b\* \$x\$ \<b\> \`c\` \:red\[d\]"
    assert plain(f" 5{NO_BREAK_SPACE}%  of\n it ") == f"5{NO_BREAK_SPACE}% of it"


def test_a_command_stands_as_it_is_typed() -> None:
    assert code("run --model tiny-random") == "`run --model tiny-random`"
    assert code("run `x` [a](b)\nand more") == "`run x [a](b) and more`"


def test_links_to_compare_name_no_more_runs_than_it_takes() -> None:
    runs = [f"r{number}" for number in range(1, 7)]
    assert runs_query(runs) == {"runs": "r1,r2,r3,r4"}
    assert compare_link(runs[:2]) == "/compare?runs=r1,r2"
    assert compare_link(runs) == "/compare?runs=r1,r2,r3,r4"


def test_lists_read_as_sentences() -> None:
    assert [listed(words) for words in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == ["", "a", "a and b", "a, b and c"]


def test_badges_come_from_a_runs_columns() -> None:
    run = {"status": "completed", "random_weights": np.True_, "simulated": pd.NA, "watched": None}
    assert [badge.label for badge in badges_of(run)] == ["completed", "random weights"]
    assert badge_text({"status": "oom", "watched": 1, "simulated": True}) == "out of memory, simulated, watched live"
    assert badges_of({"status": "running"}, with_status=False) == []
    assert status_badge("odd").label == "odd"

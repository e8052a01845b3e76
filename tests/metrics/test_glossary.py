"""The definitions: every metric has a name, a unit and a meaning; every glossary term has one meaning."""

import re

from engine.core.config import RETURNS
from engine.core.record import PASS_COLUMNS, REQUEST_COLUMNS, TOKEN_COLUMNS
from engine.metrics.glossary import GLOSSARY
from engine.metrics.latency import latencies
from engine.metrics.metrics import METRICS, run_metrics
from engine.runlog.schema import STREAMS
from tests.support.runs.records import EMPTY


def test_metric_names_are_unique_and_in_the_order_of_the_results() -> None:
    names = [metric.name for metric in METRICS]
    assert len(names) == len(set(names))
    assert list(run_metrics(EMPTY)) == [metric.name for metric in METRICS if metric.level == "run"]


def test_every_metric_of_a_request_or_a_gap_is_defined() -> None:
    names = {metric.name for metric in METRICS if metric.level == "request"}
    assert names == set(latencies(EMPTY).requests) - {"request_id", "itl_s", "output_tokens"}
    assert [metric.name for metric in METRICS if metric.level == "gap"] == ["itl_s"]


def test_every_metric_is_explained() -> None:
    for metric in METRICS:
        assert metric.label, metric.name
        assert metric.unit, metric.name
        assert metric.meaning.endswith("."), metric.name


def test_a_name_ends_in_its_unit() -> None:
    suffixes = {"_per_s": "/s", "_position_s": "position-seconds", "_s": "s", "_bytes": "bytes", "_fraction": "share"}
    for metric in METRICS:
        suffix = next((suffix for suffix in suffixes if metric.name.endswith(suffix)), None)
        if suffix is not None:
            assert metric.unit.endswith(suffixes[suffix]), metric.name


def test_formulas_speak_of_metrics_and_of_the_run_log_only() -> None:
    known = {metric.name for metric in METRICS} | {name for schema in STREAMS.values() for name in schema.names}
    for metric in METRICS:
        mentioned = set(re.findall(r"\b[a-z0-9]+(?:_[a-z0-9]+)+\b", metric.formula))
        assert mentioned <= known, metric.name


def test_a_record_is_named_as_the_run_log_is() -> None:
    for table, columns in (("requests", REQUEST_COLUMNS), ("passes", PASS_COLUMNS), ("tokens", TOKEN_COLUMNS)):
        assert set(columns) <= set(STREAMS[table].names)


def test_the_response_modes_are_explained_by_the_options_values() -> None:
    (meaning,) = (entry.meaning for entry in GLOSSARY if entry.word == "response mode")
    assert re.findall(r"(\w+): ", meaning) == list(RETURNS) == ["stream", "whole"]


def test_the_glossary_explains_each_word_once() -> None:
    words = [entry.word for entry in GLOSSARY]
    assert len(words) == len({word.lower() for word in words})
    assert not set(words) & {metric.name for metric in METRICS}
    assert all(entry.meaning.endswith(".") for entry in GLOSSARY)
    needed = {"request", "slot", "step", "pass", "lane", "span", "width", "budget", "arrival", "slot-step", "dead"}
    assert needed <= set(words)


def test_the_response_modes_are_named_as_the_option_is() -> None:
    (meaning,) = [entry.meaning for entry in GLOSSARY if entry.word == "response mode"]
    assert re.findall(r"(?:^|[.] )(\w+):", meaning) == list(RETURNS)

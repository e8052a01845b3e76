"""Latencies by chosen definitions: the SQL equals engine.metrics.latency for every kind of run."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from engine.metrics.definitions import CHOICES, Definitions
from engine.metrics.latency import LATENCIES, latencies, latency_metrics
from engine.metrics.metrics import RUN_METRICS
from engine.runlog.reader import RunLogReader
from engine.runlog.writer import RunLogWriter
from store import Store
from tests.store.queries.test_store_views import RUNS, assert_metrics
from tests.support.runs.page_runs import config_of, run_info
from tests.support.runs.sample_runs import write_sample_run

NAN, INF = math.nan, math.inf
NAMES = [choice.name for choice in CHOICES]
ALL = [
    Definitions.from_names(dict(zip(NAMES, options, strict=True)))
    for options in product(*([option.name for option in choice.options] for choice in CHOICES))
]
INFINITE = Definitions(failures="infinite", itl="mean", tpot="with-first", ttft="admission")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "home") as opened:
        yield opened


def assert_equal(store: Store, folder: Path, definitions: Definitions) -> None:
    """Compare every request, every kept sample and every metric."""
    record = RunLogReader(folder).record()
    by_python = latencies(record, definitions)
    expected = {name: values for name, values in by_python.requests.items() if name != "output_tokens"}
    frame = store.latencies.requests(folder.name, definitions)
    assert list(frame) == list(expected)
    for name, values in expected.items():
        assert frame[name].tolist() == pytest.approx(values.tolist(), rel=1e-12, abs=1e-12, nan_ok=True), name
    found, wanted = store.latencies.distributions(folder.name, definitions), by_python.distributions()
    assert list(found) == [latency.key for latency in LATENCIES]
    for key, mine in found.items():
        assert (mine.n, mine.num_unbounded) == (wanted[key].n, wanted[key].num_unbounded), key
    assert_metrics(latency_metrics(found, definitions), latency_metrics(wanted, definitions))


def test_every_option_is_covered() -> None:
    assert len(set(map(str, ALL))) == 2**5


@pytest.mark.parametrize("name", RUNS)
def test_the_sql_equals_the_definitions(store: Store, tmp_path: Path, name: str) -> None:
    folder = write_sample_run(tmp_path, **RUNS[name])
    store.ingest.run(folder)
    for definitions in (Definitions(), Definitions(failures="infinite"), INFINITE):
        assert_equal(store, folder, definitions)


@pytest.mark.parametrize("name", ["stopped", "crashed, whole", "continuous, arrivals"])
def test_the_sql_equals_the_definitions_in_every_combination(store: Store, tmp_path: Path, name: str) -> None:
    folder = write_sample_run(tmp_path, **RUNS[name])
    store.ingest.run(folder)
    for definitions in ALL:
        assert_equal(store, folder, definitions)


def test_the_sql_gives_hand_computed_values(store: Store, tmp_path: Path) -> None:
    """A stopped run: request 0 finished with three tokens, 1 with one; 2 was cut off after two, 3 never started."""
    with RunLogWriter(tmp_path / "hand", run_info("hand", config_of("continuous"))) as log:
        for request_id, (arrival_s, admitted_s) in enumerate([(0.0, 1.0), (1.0, 1.0), (3.0, 3.5), (6.0, None)]):
            state = "finished" if request_id < 2 else "stopped"
            log.append("requests", request_id=request_id, state=state, arrival_s=arrival_s, admitted_s=admitted_s)
        for request_id, delivered_s in enumerate([(2.0, 3.0, 5.0), (2.0,), (4.0, 6.0)]):
            for index, time_s in enumerate(delivered_s):
                log.append("tokens", request_id=request_id, token_index=index, delivered_s=time_s)
        log.finish({"status": "stopped", "totals": {}})
    store.ingest.run(tmp_path / "hand")
    expected: dict[Definitions, dict[str, list[float]]] = {
        Definitions(): {
            "queue_wait_s": [1, 0, 0.5, NAN],
            "ttft_s": [2, 1, 1, NAN],
            "itl_s": [1.5, NAN, 2, NAN],
            "tpot_s": [1.5, NAN, NAN, NAN],
            "e2e_s": [5, 1, NAN, NAN],
        },
        Definitions(ttft="admission", tpot="with-first"): {"ttft_s": [1, 1, 0.5, NAN], "tpot_s": [5 / 3, 1, NAN, NAN]},
        Definitions(failures="infinite"): {
            "queue_wait_s": [1, 0, 0.5, INF],
            "ttft_s": [2, 1, 1, INF],
            "itl_s": [1.5, NAN, INF, INF],
            "tpot_s": [1.5, NAN, INF, INF],
            "e2e_s": [5, 1, INF, INF],
        },
    }
    for definitions, columns in expected.items():
        assert_equal(store, tmp_path / "hand", definitions)
        frame = store.latencies.requests("hand", definitions)
        for name, values in columns.items():
            assert frame[name].tolist() == pytest.approx(values, nan_ok=True), (definitions, name)
    shown = store.cursor().execute("FROM request_metrics WHERE run_id = 'hand' ORDER BY request_id").df()
    assert shown["output_tokens"].tolist() == [3, 1, 2, 0]
    for name in ("queue_wait_s", "ttft_s", "tpot_s", "e2e_s"):
        assert shown[name].tolist() == pytest.approx(expected[Definitions()][name], nan_ok=True), name


def test_the_default_definitions_give_the_stored_metrics(store: Store, tmp_path: Path) -> None:
    folder = write_sample_run(tmp_path, **RUNS["stopped"])
    store.ingest.run(folder)
    kept = store.runs.metrics(folder.name)
    mine = latency_metrics(store.latencies.distributions(folder.name, Definitions()), Definitions())
    assert set(mine) < {metric.name for metric in RUN_METRICS}
    assert_metrics(mine, {name: kept[name] for name in mine})


def test_a_thinned_distribution_keeps_the_extremes_and_the_percentiles(store: Store, tmp_path: Path) -> None:
    gaps = np.random.default_rng(3).lognormal(-4, 1, 30_000)
    with RunLogWriter(tmp_path / "long", run_info("long", config_of("continuous"))) as log:
        log.append("requests", request_id=0, state="finished", arrival_s=0.0, admitted_s=0.0)
        times = np.concatenate([[1.0], 1.0 + np.cumsum(gaps)])
        log.extend(
            "tokens",
            {"request_id": [0] * len(times), "token_index": list(range(len(times))), "delivered_s": times.tolist()},
        )
        log.finish({"status": "completed", "totals": {}})
    store.ingest.run(tmp_path / "long")
    measured = np.diff(times)
    found = store.latencies.distributions("long", Definitions())["itl"]
    assert found.n == 30_000
    assert len(found.value_s) <= 2000 + 16
    assert np.array_equal(found.value_s, np.sort(measured)[found.ranks - 1])
    assert (found.ranks[0], found.ranks[-1]) == (1, 30_000)
    assert found.percentile(95) == pytest.approx(np.percentile(measured, 95), rel=1e-12)
    assert found.percentile(99, "nearest") == np.sort(measured)[29_699]  # rank 0.99 x 30,000


def test_an_unknown_run_has_no_latencies(store: Store) -> None:
    assert store.latencies.requests("nope", INFINITE).empty
    assert {found.n for found in store.latencies.distributions("nope", INFINITE).values()} == {0}

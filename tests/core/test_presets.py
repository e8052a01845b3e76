"""The engines' presets: what each answers about itself, and what is asked of engines by name."""

from __future__ import annotations

import pytest

from engine.commands.parity_cases import make_cases
from engine.core.errors import FieldError
from engine.core.presets import ENGINES, PRESETS, logged_slots, parse_engines


@pytest.mark.parametrize(
    ("engine", "setting", "slots"),
    [("serial", 8, 1), ("static", 8, 8), ("jet", 8, 8), (None, 8, 8), (["serial"], 8, 8), ("serial", None, 1)],
)
def test_slots_of_a_logged_run(engine: object, setting: object, slots: object) -> None:
    assert logged_slots(engine, setting) == slots


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_is_timed_by_passes_of_its_own_layout(name: str) -> None:
    measured = PRESETS[PRESETS[name].calibrate_with]
    assert measured.layout is PRESETS[name].layout
    assert measured.calibrate_with == measured.name


def test_calibrations_of_the_engines() -> None:
    measured = {"serial": "continuous", "static": "static", "continuous": "continuous", "paged": "paged"}
    for name, expected in (measured | {"chunked": "paged"}).items():
        assert PRESETS[name].calibrate_with == expected, name
    assert {preset.calibrate_with for preset in PRESETS.values()} <= set(ENGINES)


def test_parity_asks_every_engine_over_blocks_for_preemption() -> None:
    engines = {case.name: case.engines for case in make_cases(seed=0)}
    assert set(engines["a pool of 7 blocks, preempted"]) == {name for name in ENGINES if PRESETS[name].has_blocks}
    assert set(engines["chunks of 7"]) == {name for name in ENGINES if PRESETS[name].is_chunked}


def test_a_list_of_engines_keeps_its_order() -> None:
    assert parse_engines("static, continuous") == ("static", "continuous")
    assert parse_engines("chunked") == ("chunked",)
    assert parse_engines(" none ", also=("none",)) == ("none",)


@pytest.mark.parametrize(
    ("text", "also", "problem"),
    [
        ("static,vllm", (), "engines 'vllm': use some of serial, static, continuous"),
        ("", (), "engines '': use some of serial"),
        ("static,", (), "engines '': use some of serial"),
        ("static,static", (), "engines 'static,static': name each once"),
        ("none", (), "engines 'none': use some of serial"),
        ("vllm", ("none",), "engines 'vllm': use none, or some of serial"),
        ("static,none", ("none",), "engines 'none': use none, or some of serial"),
    ],
)
def test_a_list_that_names_no_engine_is_refused(text: str, also: tuple[str, ...], problem: str) -> None:
    with pytest.raises(FieldError) as refusal:
        parse_engines(text, also)
    assert str(refusal.value).startswith(problem)
    assert refusal.value.field == "engines"

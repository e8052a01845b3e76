"""What the pages of experiments share: export and delete, wide status columns, and text for many rates."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import streamlit as st

from pages.parts.experiments.page import follow_results
from pages.parts.load.results import rates_text
from tests.support.page_app import open_page, take_in, words
from tests.support.runs.load_experiments import load_plan_of, out_of_memory, write_load
from tests.support.runs.sweep_experiments import sweep_plan, write_sweep


def one_sweep(runs: Path) -> Path:
    return write_sweep(runs, sweep_plan(prompts="p16", batch_sizes="1"))


def one_load_test(runs: Path) -> Path:
    return write_load(runs, load_plan_of(engines="static", rates="5", confirm=False), only=[0])


@pytest.mark.parametrize(("page", "write"), [("sweep", one_sweep), ("load", one_load_test)])
def test_an_experiment_is_exported_and_deleted_where_it_is_shown(
    home: Path, page: str, write: Callable[[Path], Path]
) -> None:
    folder = write(home / "runs")
    take_in(home)
    app = open_page(page)
    assert not app.exception
    exports = [button.proto.label for button in app.get("download_button")]
    assert "Export" in exports
    delete = next(button for button in app.button if button.key == f"{page}.delete_{folder.name}")
    assert not delete.disabled
    delete.click().run()
    assert any("go into the trash" in text.value for text in app.markdown)


def test_many_rates_are_counted_and_few_are_named() -> None:
    assert rates_text([0.5, 1.0, 2.0]) == "0.5, 1, 2"
    assert rates_text([float(rate) for rate in range(2, 60, 2)]) == "29 rates from 2 to 58"


def test_a_long_status_gets_a_wide_column_and_placeholders_differ(home: Path) -> None:
    write_load(home / "runs", load_plan_of(rates="5", confirm=False), out_of_memory, only=[0])
    take_in(home)
    app = open_page("load")
    table = next(frame for frame in app.dataframe if "achieved/s" in frame.value)
    assert json.loads(table.proto.columns)["status"]["width"] == "medium"
    placeholders = {field.key: field.proto.placeholder for field in app.number_input}
    assert placeholders["load.ttft_within_s"] == "no limit"
    assert placeholders["load.ttft_limit_s"] == "no limit"
    assert placeholders["load.pool_gib"] == "no cap"


@pytest.mark.parametrize(
    ("page", "advanced"), [("bench", "memory"), ("sweep", "memory, seed"), ("load", "memory, seed")]
)
def test_every_form_has_the_same_model_picker_and_advanced_settings(
    home: Path, monkeypatch: pytest.MonkeyPatch, page: str, advanced: str
) -> None:
    monkeypatch.setattr("pages.parts.shared.devices.has_cuda", lambda: False)
    app = open_page(page, model="my/own")
    text = words(app)
    assert "A folder or hub id; it is looked up when the run starts." in text
    assert "Runs use fp32 on cpu. No NVIDIA GPU found; CUDA is unavailable." in text
    assert "One round: a prefill of each prompt length and three decode steps." in text
    assert f"Advanced: execution, timing, warm-up, {advanced}" in [box.label for box in app.expander]
    keys = [each.key for kind in (app.number_input, app.segmented_control) for each in kind]
    for name in ("execution", "timing", "warmups", "seed", "pool_gib", "capacity_gib", "block_size"):
        assert keys.count(f"{page}.{name}") == 1, name


def test_a_blank_model_is_reported_under_its_field(home: Path) -> None:
    app = open_page("sweep", model=" ")
    red = [caption.value.replace("\\", "") for caption in app.caption if caption.value.startswith(":red")]
    assert red == [":red[:material/error: model: name one, or a folder or hub id; `models` lists the names]"]


def test_an_experiment_damaged_while_it_is_shown_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first drawing uses the loaded experiment; the next loads it again."""
    fragments: list[Callable[[], None]] = []
    said: list[str] = []
    drawn: list[object] = []
    monkeypatch.setattr(st, "fragment", lambda function, run_every: fragments.append(function) or function)
    monkeypatch.setattr("pages.parts.experiments.page.draw_unreadable", lambda error: said.append(str(error)))

    def load(name: str) -> None:
        raise ValueError(f"{name} is damaged")

    follow_results("sw1", True, load, drawn.append, first=lambda name: None)
    assert (drawn, said) == ([None], [])
    fragments[0]()
    assert (drawn, said) == ([None], ["sw1 is damaged"])
    follow_results("sw1", True, load, drawn.append)
    assert (len(fragments), len(said)) == (1, 2)

"""The Sweep page's form: links, invalid values, its plan, its estimate, and predictions."""

from __future__ import annotations

from pathlib import Path

from engine.predictions.published_predictions import PUBLISHED
from pages.parts.shared.lab import lab
from tests.support.experiment_page import buttons, widget
from tests.support.experiment_page import open_sweep as opened
from tests.support.page_app import figures, words
from tests.support.runs.page_runs import write_run
from tests.support.runs.sweep_experiments import sweep_plan, write_sweep


def test_without_a_sweep_the_page_says_what_to_do(home: Path) -> None:
    app = opened(home)
    said = words(app)
    assert "No sweep yet" in said
    assert "python -m engine sweep" in said
    assert "10 runs: 2 prompt lengths x 5 batch sizes." in said
    assert "No time estimate" in said
    assert buttons(app)["Run the sweep"] is True
    assert figures(app) == {}


def test_every_setting_comes_from_a_link(home: Path) -> None:
    link = {"engine": "paged", "model": "tiny-random", "prompts": "p16", "batch_size": "1,2", "budget": "8"}
    link |= {"mix": "p16,p64", "repeats": "2", "pool_gib": "0.5", "capacity_gib": "3", "seed": "7", "block_size": "32"}
    app = opened(home, **link)
    said = words(app)
    assert "12 runs: 1 prompt length x 2 batch sizes and 2 ragged batches with their controls, each 2 times" in said
    assert "paged, tiny-random in fp32 on cpu, 8 output tokens per request" in said
    assert "KV pool capped at 0.5 GiB, all memory capped at 3 GiB" in said
    assert widget(app, "seed").value == 7


def test_an_invalid_link_is_reported_and_defaults_are_used(home: Path) -> None:
    app = opened(home, engine="turbo", repeats="0", pool_gib="inf", ttft_limit_s="-1")
    said = words(app)
    for line in ("engine 'turbo'", "repeats '0'", "pool_gib 'inf'", "ttft_limit_s '-1'"):
        assert line in said
    assert buttons(app)["Run the sweep"] is True


def test_invalid_text_is_reported_and_blocks_the_start(home: Path) -> None:
    app = opened(home, batch_size="4,4")
    assert "4 is named twice" in words(app)
    assert buttons(app)["Run the sweep"] is False


def test_links_of_published_predictions_work(home: Path) -> None:
    links = [published.query for published in PUBLISHED if published.page == "pages/sweep.py"]
    assert links
    for query in {tuple(sorted(link.items())) for link in links}:
        app = opened(home, **dict(query))
        said = words(app)
        assert "Invalid setting" not in said
        assert f"{5 * len(dict(query)['batch_size'].split(','))} runs: 5 prompt lengths x " in said
        assert buttons(app)["Run the sweep"] is True


def test_the_form_comes_back_from_a_sweep(home: Path) -> None:
    plan = sweep_plan(prompts="p16", batch_sizes="1,2", mix="p16,p64", repeats=2)
    write_sweep(home / "runs", plan, with_run=False)
    app = opened(home)
    app.button(key="sweep.again").click()
    said = words(app.run())
    assert "12 runs: 1 prompt length x 2 batch sizes and 2 ragged batches with their controls, each 2 times" in said
    assert "static, tiny-random in fp32 on cpu, 32 output tokens per request" in said
    found = {name: widget(app, name).value for name in ("prompts", "batch_size", "mix", "repeats", "pool_gib")}
    assert found == {"prompts": "p16", "batch_size": "1,2", "mix": "p16,p64", "repeats": 2, "pool_gib": None}


def test_an_earlier_run_of_the_model_gives_an_estimate(home: Path) -> None:
    write_run(home / "runs", "r1", "static")
    app = opened(home, model="tiny-random", batch_size="1,64")
    said = words(app)
    assert "from 1 earlier run of this model here; none had more than 2 rows, so 64 rows are a guess" in said


def test_an_incomplete_prediction_blocks_the_start(home: Path) -> None:
    app = opened(home, model="tiny-random")
    next(found for found in app.number_input if found.key == "sweep.expect_low").set_value(4)
    next(button for button in app.button if button.label == "Run the sweep").click()
    said = words(app.run())
    assert "The prediction is incomplete" in said
    assert lab().queue.jobs() == []

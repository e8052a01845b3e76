"""The Load page's form over a real store: links, bad text, and settings that come back from a load test."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.predictions.published_predictions import PUBLISHED
from tests.support.experiment_page import buttons, widget
from tests.support.experiment_page import open_load as opened
from tests.support.page_app import words
from tests.support.runs.load_experiments import load_plan_of, write_load


def test_every_setting_comes_from_a_link(home: Path) -> None:
    link = {"engines": "paged,serial", "rates": "0.5,4", "law": "gamma:3", "requests": "12", "prompts": "p16,p64"}
    link |= {"budget": "9", "slots": "3", "model": "tiny-random", "repeats": "2", "confirm": "no", "seed": "5"}
    app = opened(home, **link, ttft_limit_s="0.5")
    said = words(app)
    assert "12 runs: paged and serial at 2 rates and all at once; each 2 times, interleaved." in said
    assert "12 requests per run, prompts of p16,p64. Every request gets exactly 9 new tokens" in said
    assert "tiny-random in fp32 on cpu, 3 slots" in said
    assert "12 requests fill 3 slots only 4 times, too few" in said
    assert (widget(app, "seed").value, widget(app, "ttft_limit_s").value) == (5, 0.5)


def test_links_of_published_predictions_work(home: Path) -> None:
    links = [published.query for published in PUBLISHED if published.page == "pages/load.py"]
    assert links
    for query in {tuple(sorted(link.items())) for link in links}:
        app = opened(home, **dict(query))
        said = words(app)
        assert "Invalid setting" not in said
        assert "400 requests per run, prompts of p16,p64,p256,p1024,p4096. 64 to 256 new tokens" in said
        assert buttons(app)["Run the load test"] is True


@pytest.mark.parametrize(
    ("field", "text", "why"),
    [
        ("engines", "static,fast", "engines 'fast': use some of"),
        ("rates", "1,x", "rates '1,x': use requests/s from 0.000001 to 1,000,000"),
        ("law", "closed", "arrival 'closed': use poisson, constant or gamma:CV"),
        ("budget", "many", "budget 'many'"),
        ("prompts", "p0", "prompts"),
        ("prompts", "file", "use the command line for a prompt file"),
    ],
)
def test_invalid_text_is_reported_and_blocks_the_start(home: Path, field: str, text: str, why: str) -> None:
    app = opened(home, **{field: text})
    assert why in words(app)
    assert buttons(app)["Run the load test"] is False


def test_an_invalid_link_is_reported_and_defaults_are_used(home: Path) -> None:
    app = opened(home, slots="0", requests="inf", confirm="maybe", ttft_within_s="-1")
    said = words(app)
    for line in ("slots '0'", "requests 'inf'", "confirm 'maybe'", "ttft_within_s '-1'"):
        assert line in said
    assert buttons(app)["Run the load test"] is True


def test_the_form_comes_back_from_a_load_test(home: Path) -> None:
    write_load(home / "runs", load_plan_of(rates="5,20", repeats=2, confirm=False))
    app = opened(home)
    app.button(key="load.again").click()
    said = words(app.run())
    assert "12 runs: static and continuous at 2 rates and all at once; each 2 times" in said
    found = {name: widget(app, name).value for name in ("engines", "rates", "law", "budget", "requests", "slots")}
    assert found == {
        "engines": "static,continuous", "rates": "5,20", "law": "poisson", "budget": "4-20", "requests": 24, "slots": 4,
    }  # fmt: skip

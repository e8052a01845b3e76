"""Each figure module runs by itself and shows its demo; a real browser draws the figures."""

from __future__ import annotations

import base64
import json
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path

import plotly.graph_objects as go
import pytest
import streamlit
from playwright.sync_api import Page
from plotly.offline import get_plotlyjs

from pages.figures import demo
from pages.figures.demo import write_page
from pages.figures.latency.cdf import latency_cdf
from pages.figures.sample import sample_run
from pages.figures.timeline.passes import pass_trace
from pages.figures.timeline.queue import queue_from_passes
from pages.figures.timeline.timeline import slot_timeline
from pages.figures.waste.waste import waste_breakdown
from tests.support.no_break import nb

STATIC = sample_run("static")
FOLDER = Path(demo.__file__).parent
MODULES = sorted(
    path.relative_to(FOLDER).with_suffix("").as_posix().replace("/", ".")
    for path in FOLDER.rglob("*.py")
    if "pages.figures.demo import show" in path.read_text(encoding="utf-8")
)


def test_every_folder_has_a_demo() -> None:
    folders = {path.parent.name for path in FOLDER.glob("*/__init__.py")}
    assert {module.split(".")[0] for module in MODULES} == folders


@pytest.mark.parametrize("module", MODULES)
def test_each_module_shows_its_demo(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delitem(sys.modules, f"pages.figures.{module}", raising=False)
    runpy.run_module(f"pages.figures.{module}", run_name="__main__")
    page = Path(capsys.readouterr().out.strip())
    assert page.is_relative_to(tmp_path)
    assert "Plotly.newPlot" in page.read_text(encoding="utf-8")


def test_figures_load_no_model_library_and_no_database() -> None:
    code = (
        f"import sys, {', '.join(f'pages.figures.{module}' for module in MODULES)}\n"
        "print(sorted({'torch', 'transformers', 'streamlit', 'duckdb'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def draw_as_in_the_app(page: Page, figure: go.Figure) -> None:
    """Draw a figure with the app's font, loaded before Plotly measures any text."""
    font = next(Path(streamlit.__file__).parent.glob("static/static/media/SourceSansVF-Upright*.woff2"))
    data = base64.b64encode(font.read_bytes()).decode()
    face = f'@font-face {{font-family: "Source Sans"; src: url(data:font/woff2;base64,{data}); font-weight: 200 900}}'
    page.set_content(f'<meta charset="utf-8"><style>{face} body {{margin: 0 16px}}</style><div id="figure"></div>')
    page.evaluate("""Promise.all(["12px", "bold 12px"].map(f => document.fonts.load(f + ' "Source Sans"')))""")
    page.add_script_tag(content=get_plotlyjs())
    page.evaluate("figure => Plotly.newPlot('figure', figure)", json.loads(figure.to_json()))


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
def test_a_browser_draws_the_timeline_with_its_labels(page: Page, width: int) -> None:
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    queue = queue_from_passes(STATIC.passes)
    page.set_viewport_size({"width": width, "height": 900})
    draw_as_in_the_app(page, slot_timeline(STATIC.spans, queue=queue))
    page.wait_for_selector(".bars text")
    drawn = page.locator(".bars .point path:not([d='M0,0Z'])")
    assert drawn.count() == 22  # 8 prefill, 8 decode, 6 dead; the legend's bars have no extent
    assert sorted(page.locator(".bars text").all_text_contents()) == [str(n) for n in range(8)]
    legend = page.locator(".legendtext")
    assert [text.strip() for text in legend.all_text_contents()] == ["prefill", "decode", "dead slot", "empty"]
    tops = {round(box["y"]) for box in (item.bounding_box() for item in legend.all()) if box}
    assert len(tops) == 1  # one line, on a phone too
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert errors == []


@pytest.mark.browser
def test_a_browser_shows_the_hover_text_of_a_span(page: Page, tmp_path: Path) -> None:
    page.goto(write_page([slot_timeline(STATIC.spans)], tmp_path / "page.html").as_uri())
    number = page.locator(".bars text", has_text="6").first
    number.wait_for()
    box = number.bounding_box()
    assert box is not None
    page.mouse.move(box["x"], box["y"])
    page.mouse.move(box["x"] + 2, box["y"] + 2)
    hover = page.locator(".hovertext")
    hover.wait_for()
    text = hover.text_content() or ""
    assert "request 6" in text
    assert "120 prompt tokens, 36 tokens so far" in text
    assert "steps 43 to 77" in text
    assert "lane 2, slot 2" in text


@pytest.mark.browser
def test_a_browser_draws_the_other_figures_without_an_error(page: Page, tmp_path: Path) -> None:
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    waits = STATIC.requests.assign(series="static", value_s=STATIC.requests["ttft_s"])
    figures = [
        pass_trace(STATIC.passes),
        waste_breakdown(STATIC.totals),
        latency_cdf(waits, title="Time to first token"),
    ]
    page.set_viewport_size({"width": 390, "height": 900})
    page.goto(write_page(figures, tmp_path / "page.html").as_uri())
    page.wait_for_selector(".js-plotly-plot >> nth=2 >> .main-svg")
    assert page.locator(".js-plotly-plot").count() == 3
    assert nb("p50 1.24 s") in page.locator(".annotation-text").all_text_contents()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert errors == []

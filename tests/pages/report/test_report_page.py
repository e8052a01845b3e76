"""A report as HTML and as Markdown: foreign text, what a dark page changes, and the file's parts."""

from __future__ import annotations

import base64
import gzip
import json
import re

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from pages.parts.shared.tiles import Tile
from pages.report.html_page import changes, packed, report_html, themed_figure
from pages.report.markdown import report_markdown
from pages.report.report import Picture, Report, ReportTable, Section

SETTINGS = ReportTable(title="Settings", header=("setting", "value"), rows=[["model", "<b>x|y"], ["seed", "–"]])


def figure(dark: bool) -> go.Figure:
    return go.Figure(go.Bar(y=[1, 2], marker_color="#111" if dark else "#eee"), layout={"height": 222})


def report(finding: str = "It was fast.") -> Report:
    picture = Picture(title="Bars", caption="Two bars & more", draw=figure)
    return Report(
        kind="Run",
        finding=finding,
        about=["about it"],
        badges=[],
        cautions=["careful"],
        tiles=[Tile(label="Throughput", value="15.0", unit="tokens/s", note="n = 6 tokens")],
        sections=[Section(heading="Bars of it", pictures=[picture])],
        settings=SETTINGS,
        machine=ReportTable(title="Machine", header=("setting", "value"), rows=[]),
        metrics=None,
        commands=["engine run --prompt-file 'a b'"],
        subjects=["r1"],
    )


def unpacked(page: str, name: str) -> str:
    found = re.search(f'id="{name}">([^<]+)<', page)
    assert found is not None
    return gzip.decompress(base64.b64decode(found[1])).decode()


def test_a_dark_figure_is_a_light_one_with_changes() -> None:
    found = themed_figure(Picture(title="", caption="", draw=figure))
    assert found["light"]["data"][0]["marker"]["color"] == "#eee"
    assert found["dark"] == [[["data", 0, "marker", "color"], "#111"]]


def test_parts_of_another_shape_are_replaced_whole() -> None:
    before, after = {"a": [1, 2], "b": {"c": 1}, "d": 0}, {"a": [1], "b": {"c": 1}, "d": 0}
    assert list(changes(before, after)) == [(("a",), [1])]
    assert list(changes(before, before)) == []
    assert list(changes({"a": 1}, {"b": 1})) == [((), {"b": 1})]


def test_plotly_and_the_figures_are_in_the_file_once() -> None:
    page = report_html(report())
    assert unpacked(page, "plotly") == get_plotlyjs()
    (bars,) = json.loads(unpacked(page, "figures"))
    assert bars["light"]["layout"]["height"] == 222
    assert "min-height:222px" in page
    assert page.count("Two bars &amp; more") == 1


def test_equal_texts_are_packed_equally() -> None:
    assert packed("text" * 100) == packed("text" * 100)


def test_the_page_allows_no_request_and_names_no_other_file() -> None:
    page = report_html(report())
    head = page.partition('<script type="application/octet-stream"')[0]
    assert "default-src 'none'" in head
    assert re.findall(r'(?:src|href)="(?!#)[^"]*"', head) == []
    assert re.findall(r"url\((?!data:)", head) == []


def test_foreign_text_is_text() -> None:
    page = report_html(report("<script>alert(1)</script>"))
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "<b>x|y" not in page


def test_markdown_has_finding_key_figures_settings_command_and_source() -> None:
    assert report_markdown(report()) == "\n".join(
        [
            "**It was fast.**",
            "- about it",
            "> careful",
            "",
            "| key figure | value |  |",
            "| --- | --- | --- |",
            "| Throughput | 15.0 tokens/s | n = 6 tokens |",
            "",
            "**Settings**",
            "",
            "| setting | value |",
            "| --- | --- |",
            "| model | \\<b>x\\|y |",
            "",
            "```",
            "engine run --prompt-file 'a b'",
            "```",
            "",
            "Run r1, from the batching lab",
            "",
        ]
    )

"""A report as one HTML file that needs no network and no other file.

Plotly is in it once, compressed; the page unpacks it with the browser's DecompressionStream (Chrome 80, Firefox 113,
Safari 16.4). A browser without it shows all texts and tables. The page's policy forbids every request.
"""

from __future__ import annotations

import base64
import functools
import gzip
import html
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from plotly.offline import get_plotlyjs

from engine.core.run_id import current_time
from pages.parts.runs.badges import Badge
from pages.parts.shared import tables, tiles
from pages.parts.shared.charts import file_name
from pages.parts.shared.components.page_scripts import script, table_script
from pages.report.report import Picture, Report, ReportTable, Section

HERE = Path(__file__).parent
# Plotly builds functions from text for WebGL figures, and draws a picture from a blob.
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; img-src data: blob:; "
    "font-src data:; base-uri 'none'; form-action 'none'"
)
FALLBACK = (
    "This browser cannot unpack the figures. Chrome or Edge 80, Firefox 113, Safari 16.4 and newer ones can. All texts "
    "and tables are here."
)


def report_html(report: Report) -> str:
    """The whole file."""
    pictures = [picture for section in report.sections for picture in section.pictures]
    drawn = [themed_figure(picture) for picture in pictures]
    boxes = {id(picture): _figure(report, picture, place, drawn[place]) for place, picture in enumerate(pictures)}
    title = html.escape(f"{report.kind}: {report.finding}"[:160])
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>{title}</title>
{tiles.STYLE}
{tables.STYLE}
<style>{_font_face()}{(HERE / "report.css").read_text(encoding="utf-8")}</style>
</head>
<body>
{_header(report)}
<main>
{_navigation(report)}
{"".join(_section(section, boxes) for section in report.sections)}
{_ending(report)}
</main>
<footer><p>The batching lab. {html.escape(report.source)}. Written {current_time():%Y-%m-%d %H:%M} UTC.</p></footer>
<script type="application/octet-stream" id="plotly">{_packed_plotly()}</script>
<script type="application/octet-stream" id="figures">{packed(json.dumps(drawn))}</script>
<script>{script("picture.js")}{table_script()}{(HERE / "report.js").read_text(encoding="utf-8")}</script>
</body>
</html>
"""


def packed(text: str) -> str:
    """Text compressed by gzip, in base64. Equal texts give equal results."""
    return base64.b64encode(gzip.compress(text.encode(), compresslevel=9, mtime=0)).decode()


@functools.cache
def _packed_plotly() -> str:
    return packed(get_plotlyjs())


@functools.cache
def _font_face() -> str:
    """The app's font, which Streamlit brings along; without it the page takes the system's."""
    found = find_spec("streamlit")
    folder = Path(found.origin).parent if found is not None and found.origin else HERE
    font = next(folder.glob("static/static/media/SourceSansVF-Upright*.woff2"), None)
    if font is None:
        return ""
    source = f"url(data:font/woff2;base64,{base64.b64encode(font.read_bytes()).decode()})"
    return f'@font-face {{font-family: "Source Sans"; src: {source}; font-weight: 200 900}}'


def themed_figure(picture: Picture) -> dict[str, Any]:
    """A figure's JSON for a light page, and what a dark page changes in it, as paths with values."""
    light, dark = (json.loads(picture.draw(is_dark).to_json()) for is_dark in (False, True))
    return {"light": light, "dark": [[list(path), value] for path, value in changes(light, dark)]}


def changes(before: Any, after: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """The smallest parts of JSON that differ, each with its path. A part of another shape is replaced whole."""
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict) and before.keys() == after.keys():
        for name in before:
            yield from changes(before[name], after[name], (*path, name))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for place, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from changes(old, new, (*path, place))
    else:
        yield path, after


def _header(report: Report) -> str:
    finding = report.finding[:1].upper() + report.finding[1:]
    below = f'<p class="below">{html.escape(report.below)}</p>' if report.below else ""
    about = "".join(f"<li>{html.escape(line)}</li>" for line in report.about)
    note = f'<p class="note">{html.escape(report.tiles_note)}</p>' if report.tiles_note else ""
    shown = tiles.tiles_html(report.tiles) if report.tiles else ""
    return (
        f'<header><p class="brand"><b>The batching lab</b> · {html.escape(report.kind)} report</p>'
        f'<h1>{html.escape(finding)}</h1>{below}<ul class="about">{about}</ul>{_badges(report.badges)}'
        f"{_cautions(report.cautions)}{shown}{note}"
        f'<p class="fallback" id="fallback" hidden>{FALLBACK}</p>'
        '<noscript><p class="fallback">Figures need JavaScript. All texts and tables are here.</p></noscript></header>'
    )


def _badges(badges: Sequence[Badge]) -> str:
    shown = "".join(
        f'<span class="badge {badge.color}" title="{html.escape(badge.help)}">{html.escape(badge.label)}</span>'
        for badge in badges
    )
    return f'<div class="badges">{shown}</div>' if shown else ""


def _cautions(cautions: Sequence[str]) -> str:
    lines = "".join(f"<li>{html.escape(line)}</li>" for line in cautions)
    return f'<aside class="cautions" role="note"><ul>{lines}</ul></aside>' if lines else ""


def _navigation(report: Report) -> str:
    headings = [section.heading for section in report.sections] + ["Settings and command"]
    links = "".join(f'<a href="#{_anchor(heading)}">{html.escape(heading)}</a>' for heading in headings)
    return f'<nav aria-label="Sections">{links}</nav>'


def _anchor(heading: str) -> str:
    return "-".join(re.findall(r"\w+", heading.lower()))


def _section(section: Section, boxes: Mapping[int, str]) -> str:
    """`boxes` has the HTML of each picture by its id()."""
    figures = "".join(boxes[id(picture)] for picture in section.pictures)
    sentences = "".join(f"<p>{html.escape(text)}</p>" for text in section.sentences)
    return (
        f'<section id="{_anchor(section.heading)}"><h2>{html.escape(section.heading)}</h2>'
        + (f'<div class="plots">{figures}</div>' if figures else "")
        + (f'<div class="sentences">{sentences}</div>' if sentences else "")
        + "".join(map(_table, section.tables))
        + "</section>"
    )


def _figure(report: Report, picture: Picture, place: int, drawn: Mapping[str, Any]) -> str:
    """The place of a figure with its caption, as high as the figure will be."""
    height = int(drawn["light"]["layout"].get("height") or 300)
    title, source = html.escape(picture.title), html.escape(report.source)
    return (
        f'<figure class="{"narrow" if picture.is_narrow else "wide"}" data-place="{place}" data-title="{title}" '
        f'data-source="{source}" data-file="{file_name(picture.title, *report.subjects)}">'
        f'<div class="draw waiting" role="img" aria-label="{title}" aria-describedby="caption-{place}" '
        f'style="min-height:{height}px"></div>'
        f'<figcaption id="caption-{place}">{html.escape(picture.caption)}</figcaption></figure>'
    )


def _table(table: ReportTable) -> str:
    body = tables.table_html(table.header, table.rows, figures=table.figures)
    body += f'<p class="note">{html.escape(table.caption)}</p>' if table.caption else ""
    title = html.escape(table.title)
    if table.is_folded:
        return f"<details><summary>{title}</summary>{body}</details>"
    return (f"<h3>{title}</h3>" if title else "") + body


def _command(command: str) -> str:
    """A command that breaks between its words only, where they fit a line."""
    return " ".join(f"<span>{html.escape(word)}</span>" for word in command.split(" "))


def _ending(report: Report) -> str:
    """Metrics, the commands that repeat it, settings and machine."""
    commands = "\n".join(map(_command, report.commands))
    note = f'<p class="note">{html.escape(report.commands_note)}</p>' if report.commands_note else ""
    listed = [table for table in (report.metrics, report.settings, report.machine) if table is not None and table.rows]
    return (
        f'<section id="{_anchor("Settings and command")}"><h2>Settings and command</h2>'
        f"<h3>The command that repeats it</h3><pre>{commands}</pre>"
        f'<button class="copy" type="button">Copy</button>{note}'
        f"{''.join(map(_table, listed))}</section>"
    )

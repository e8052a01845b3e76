"""Pages through app.py in Streamlit's own test harness: open one at an address, read all of its words and figures."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from streamlit.testing.v1 import AppTest

from engine.core.format import breakable
from store import Store
from tests.support.app_server import ROOT
from tests.support.patience import PATIENCE_S


def take_in(home: Path) -> None:
    """Take every run folder of `home` into its store, as the app's recorder would within a moment."""
    store = Store(home)
    store.ingest.all_in(home / "runs")
    store.close()


def open_page(name: str, **query: str) -> AppTest:
    """The page at /`name`?`query`."""
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=PATIENCE_S)
    app.switch_page(f"pages/{name}.py")
    for key, value in query.items():
        app.query_params[key] = value
    return app.run()


def words(app: AppTest) -> str:
    """Everything that the page says, in plain text: Markdown's escapes and HTML's tags taken away, all spaces usual."""
    assert not app.exception, app.exception[0].value
    kinds = (app.title, app.subheader, app.markdown, app.caption, app.warning, app.error, app.info, app.code)
    said = [str(element.value).replace("\\", "") for kind in kinds for element in kind]
    blocks = [element.proto.body for element in app.get("html")]
    return breakable("\n".join(said + [_without_tags(block) for block in blocks]))


def figures(app: AppTest) -> dict[str, dict[str, Any]]:
    """Every figure on the page by what it says for those who cannot see it."""
    charts = app.get("plotly_chart")
    return {chart.proto.alt: json.loads(chart.proto.spec) for chart in charts}


def links(app: AppTest) -> list[tuple[str, str]]:
    """Every page link's label and its address with its query."""
    found = [element.proto for element in app.get("page_link")]
    return [(link.label, f"{link.page}?{unquote(link.query_string)}") for link in found]


def _without_tags(block: str) -> str:
    text = re.sub(r"<(style|script)>.*?</\1>", "", block, flags=re.S)
    return html.unescape(re.sub(r"<[^>]+>", " ", text))

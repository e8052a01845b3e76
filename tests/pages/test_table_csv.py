"""CSV files of tables: full precision, empty cells, and no text that a spreadsheet would run."""

from __future__ import annotations

import pandas as pd

from pages.parts.shared.tables import frame_csv, table_html


def test_a_formula_becomes_text_and_numbers_stay() -> None:
    frame = pd.DataFrame({"text": ["=1+1", "@x", "plain", None], "number": [-0.1234567891, 2.0, None, 4.0]})
    assert frame_csv(frame).splitlines() == [
        "text,number",
        "'=1+1,-0.1234567891",
        "'@x,2.0",
        "plain,",
        ",4.0",
    ]


def test_a_small_table_has_a_button_for_its_csv() -> None:
    page = table_html(["metric <b>", "value"], [["x", "1"]], figures=(1,))
    assert 'class="lab-csv"' in page
    assert 'data-file="metric-b"' in page

"""The SQL editor: highlighting, completion of tables and columns, Ctrl+Enter, over a text area of the page."""

from __future__ import annotations

from collections.abc import Sequence

from pages.parts.shared.components.registration import class_of, mount
from pages.parts.shared.page_state import page_key
from store.snapshot.catalog import Table


def sql_editor(area: str, tables: Sequence[Table]) -> None:
    """Turn the text area with the key `area` into an editor that completes `tables`. Draw it beside the text area.

    The text area keeps the text; it is seen where the browser cannot build the editor.
    """
    names = [
        {
            "name": table.name,
            "columns": [{"name": c.name, "unit": c.unit, "meaning": c.meaning} for c in table.columns],
        }
        for table in tables
    ]
    mount("sql_editor", key=page_key("sql_editor"), data={"area": class_of(area), "tables": names})

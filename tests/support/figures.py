"""The size of a figure."""

from __future__ import annotations

import plotly.graph_objects as go


def json_bytes(figure: go.Figure) -> int:
    """The bytes of a figure that are sent to the browser."""
    return len(figure.to_json().encode())

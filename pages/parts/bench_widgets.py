"""Widgets over fields: each is bound to the query parameter of its name. Without `fields`, those of the Bench page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from pages.parts.bench_fields import FIELDS, Choice, Field, Number, unbounded


def group(title: str, explanation: str) -> Any:
    """A framed part of the page, to be drawn into."""
    box = st.container(border=True)
    box.markdown(f"**{title}**", help=explanation)
    return box


def choice(
    label: str,
    name: str,
    options: tuple[str, ...] | None = None,
    *,
    disabled: bool = False,
    fields: Mapping[str, Field] = FIELDS,
) -> str:
    """One of a field's words. They are their own labels: the address, the command line and the screen say the same.

    An address that names none of them, an empty one included, gives the default.
    """
    field = fields[name]
    assert isinstance(field, Choice)
    words = options or field.options
    chosen = st.segmented_control(
        label,
        words,
        default=field.default,
        required=True,
        key=name,
        disabled=disabled,
        bind="query-params",
    )
    return str(chosen) if chosen in words else field.default


def number(
    label: str,
    name: str,
    *,
    disabled: bool = False,
    step: float | None = None,
    least: float = 0.01,
    fields: Mapping[str, Field] = FIELDS,
) -> Any:
    """A number within its field's bounds; `least` is the smallest that a field with an open lower bound takes."""
    field = fields[name]
    assert isinstance(field, Number)
    kind = int if field.whole else float
    low = kind(field.low) if not field.above else kind(least)
    high = None if field.high == float("inf") else kind(field.high)
    # A value that is no number at all would fail the widget before it could be refused.
    is_unbounded = name in unbounded(st.query_params.to_dict(), fields)
    return st.number_input(
        label,
        low,
        high,
        field.default,
        step=kind(step) if step else None,
        format="%g" if least < 0.01 else None,
        key=name,
        disabled=disabled,
        bind=None if is_unbounded else "query-params",
        placeholder=None if field.default is not None else "no limit" if name.endswith("_s") else "no cap",
    )


def text(label: str, name: str, examples: str, *, fields: Mapping[str, Field] = FIELDS) -> str:
    """Free text, without the blanks around it."""
    field = fields[name]
    return str(
        st.text_input(label, str(field.default), key=name, help=f"Use {examples}.", bind="query-params") or ""
    ).strip()

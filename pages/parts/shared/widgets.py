"""Widgets over fields: the address of the page has each by its name. Without `fields`, those of the Bench page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from pages.parts.shared.fields import FIELDS, Choice, Field, Number
from pages.parts.shared.page_state import Texts, last_text, linked, one_of, some_text


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
    with linked(name, field.default, one_of(words)) as key:
        if st.session_state[key] not in words:  # it was one before another choice took it away
            st.session_state[key] = field.default
        chosen = st.segmented_control(label, words, required=True, key=key, disabled=disabled, persist_state="page")
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

    def read(texts: Texts) -> Any:
        value = kind(texts[-1])
        if field.complaint(texts[-1]) is not None or value < low:
            raise ValueError("out of bounds")
        return value

    with linked(name, field.default, read) as key:
        return st.number_input(
            label,
            low,
            high,
            "min" if field.default is not None else None,
            step=kind(step) if step else None,
            format="%g" if least < 0.01 else None,
            key=key,
            disabled=disabled,
            persist_state="page",
            placeholder=None if field.default is not None else "no limit" if name.endswith("_s") else "no cap",
        )


def text(label: str, name: str, examples: str, *, fields: Mapping[str, Field] = FIELDS) -> str:
    """Free text, without the blanks around it."""
    with linked(name, str(fields[name].default), last_text) as key:
        entered = st.text_input(label, key=key, help=f"Use {examples}.", persist_state="page")
    return str(entered or "").strip()


def model(options: Sequence[str], default: str, help: str) -> str | None:
    """A model of the list, or what is typed in its place."""
    with linked("model", default, some_text) as key:
        chosen: str | None = st.selectbox(
            "Model", options, key=key, accept_new_options=True, help=help, persist_state="page"
        )
    return chosen


def slide(label: str, name: str, fields: Mapping[str, Field]) -> str:
    """One of a field's words, in their order along a line."""
    field = fields[name]
    assert isinstance(field, Choice)
    with linked(name, field.default, one_of(field.options)) as key:
        return str(st.select_slider(label, field.options, key=key, persist_state="page"))

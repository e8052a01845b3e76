"""Widgets of fields. The page's address has each value by its name. `fields` are those of Bench by default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from pages.parts.shared.fields import FIELDS, Choice, Field, Number
from pages.parts.shared.page_state import Texts, last_text, linked, one_of, some_text


def group(title: str, explanation: str) -> Any:
    """A framed container with a title."""
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
    """One of a field's options. Their labels are the same in the address, on the command line and on the screen.

    An address with no valid option gives the default.
    """
    field = fields[name]
    assert isinstance(field, Choice)
    options = options or field.options
    with linked(name, field.default, one_of(options)) as key:
        if st.session_state[key] not in options:  # another choice removed it
            st.session_state[key] = field.default
        chosen = st.segmented_control(label, options, required=True, key=key, disabled=disabled, persist_state="page")
    return str(chosen) if chosen in options else field.default


def number(
    label: str,
    name: str,
    *,
    disabled: bool = False,
    step: float | None = None,
    least: float = 0.01,
    fields: Mapping[str, Field] = FIELDS,
) -> Any:
    """A number within its field's bounds; `least` is the smallest value of a field with an open lower bound."""
    field = fields[name]
    assert isinstance(field, Number)
    kind = int if field.whole else float
    low: Any = kind(field.low) if not field.above else kind(least)
    high: Any = None if field.high == float("inf") else kind(field.high)

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
    """Free text, stripped."""
    with linked(name, str(fields[name].default), last_text) as key:
        entered = st.text_input(label, key=key, help=f"Use {examples}.", persist_state="page")
    return str(entered or "").strip()


def model(options: Sequence[str], default: str, help: str) -> str | None:
    """A model from the list, or a typed name."""
    with linked("model", default, some_text) as key:
        chosen: str | None = st.selectbox(
            "Model", options, key=key, accept_new_options=True, help=help, persist_state="page"
        )
    return chosen


def slide(label: str, name: str, fields: Mapping[str, Field]) -> str:
    """One of a field's options, on a slider."""
    field = fields[name]
    assert isinstance(field, Choice)
    with linked(name, field.default, one_of(field.options)) as key:
        return str(st.select_slider(label, field.options, key=key, persist_state="page"))

"""Widgets for fields: label, tooltip and limits are the field's, and the page's address has its value by name.

Without `fields`, they are the Bench page's.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import streamlit as st

from engine.core.errors import FieldError
from pages.parts.shared.fields import FIELDS, MAX_SHOWN, Choice, Field, Number, complaints
from pages.parts.shared.markdown import listed, plain
from pages.parts.shared.page_state import Texts, last_text, linked, note, noted, one_of, some_text

NAMES, UNKNOWN = "address.names", "address.unknown"
MOST_UNKNOWN = 5  # that are named


def draw_complaints(fields: Mapping[str, Field] = FIELDS, also: Collection[str] = ()) -> None:
    """A warning for each value of the page's address that its field does not accept, and a line with the names that the
    page does not know. `also` are the names of the page's address that are not in `fields`."""
    for line in complaints(st.query_params.to_dict(), fields):
        st.warning(f"Invalid setting in the link: {plain(line)}.", icon=":material/link_off:")
    names = (*fields, *also)
    note(NAMES, names)
    unknown = list(dict.fromkeys([*(noted(UNKNOWN) or ()), *(name for name in st.query_params if name not in names)]))
    note(UNKNOWN, unknown)  # until the visitor leaves: another setting may remove them from the address
    if unknown:
        st.warning(plain(unknown_text(unknown, names)), icon=":material/link_off:")


def unknown_text(unknown: Sequence[str], names: Sequence[str]) -> str:
    """`This page has no setting run, as in the link. Did you mean run_id?`"""
    shown = [name if len(name) <= MAX_SHOWN else f"{name[:MAX_SHOWN]}…" for name in unknown[:MOST_UNKNOWN]]
    more = [f"{len(unknown) - MOST_UNKNOWN} more"] if len(unknown) > MOST_UNKNOWN else []
    text = f"This page has no setting {' or '.join([*shown, *more])}, as in the link."
    near = dict.fromkeys(found for name in unknown for found in nearest(name, names))
    return f"{text} Did you mean {listed(list(near))}?" if near else text


def nearest(name: str, names: Sequence[str]) -> list[str]:
    """The page's name that is most like this one, if any is."""
    begun = [known for known in names if known.startswith(f"{name}_") or name.startswith(f"{known}_")]
    return begun[:1] or difflib.get_close_matches(name, names, n=1)


def draw_error(places: Mapping[str, Any], error: ValueError, otherwise: str) -> None:
    """An error in the place under the field that it is about, by field name; under `otherwise` if that has none."""
    name = error.field if isinstance(error, FieldError) else otherwise
    place = places.get(name, places[otherwise])
    place.caption(f":red[:material/error: {plain(str(error))}]")


def group(title: str, explanation: str) -> Any:
    """A framed part of the page to draw into, with its explanation as a tooltip."""
    box = st.container(border=True)
    box.markdown(f"**{title}**", help=explanation)
    return box


def choice(
    name: str,
    options: tuple[str, ...] | None = None,
    *,
    disabled: bool = False,
    fields: Mapping[str, Field] = FIELDS,
) -> str:
    """One of a field's values, or of `options`. An address with any other value gives the default."""
    field = fields[name]
    assert isinstance(field, Choice)
    values = options or field.options
    with linked(name, field.default, one_of(values)) as key:
        if st.session_state[key] not in values:  # another setting took this value away
            st.session_state[key] = field.default
        chosen = st.segmented_control(
            field.label,
            values,
            required=True,
            key=key,
            help=field.help or None,
            disabled=disabled,
            persist_state="page",
        )
    return str(chosen) if chosen in values else field.default


def pick(name: str, *, fields: Mapping[str, Field] = FIELDS) -> str:
    """One of a field's values, in a list that opens: for values that do not fit side by side."""
    field = fields[name]
    assert isinstance(field, Choice)
    with linked(name, field.default, one_of(field.options)) as key:
        return str(st.selectbox(field.label, field.options, key=key, help=field.help or None, persist_state="page"))


def number(
    name: str,
    *,
    disabled: bool = False,
    step: float | None = None,
    least: float = 0.01,
    fields: Mapping[str, Field] = FIELDS,
) -> Any:
    """A number within its field's limits. `least` is the smallest value of a field that excludes its lower limit."""
    field = fields[name]
    assert isinstance(field, Number)
    kind = int if field.whole else float
    low: Any = kind(field.low) if not field.above else kind(least)
    high: Any = None if field.high == float("inf") else kind(field.high)
    start: Any = "min" if field.default is not None else None
    stride: Any = kind(step) if step else None

    def read(texts: Texts) -> Any:
        value = kind(texts[-1])
        if field.complaint(texts[-1]) is not None or value < low:
            raise ValueError("out of bounds")
        return value

    with linked(name, field.default, read) as key:
        return st.number_input(
            field.label,
            low,
            high,
            start,
            step=stride,
            format="%g" if least < 0.01 else None,
            key=key,
            help=field.help or None,
            disabled=disabled,
            persist_state="page",
            placeholder=field.unset if field.default is None else None,
        )


def text(name: str, *, fields: Mapping[str, Field] = FIELDS) -> str:
    """Free text, stripped."""
    field = fields[name]
    with linked(name, str(field.default), last_text) as key:
        entered = st.text_input(field.label, key=key, help=field.help or None, persist_state="page")
    return str(entered or "").strip()


def model(options: Sequence[str], *, fields: Mapping[str, Field] = FIELDS) -> str:
    """A model of the list, or the text typed instead; without the blanks around it."""
    field = fields["model"]
    with linked("model", field.default, some_text) as key:
        chosen = st.selectbox(
            field.label, options, key=key, accept_new_options=True, help=field.help, persist_state="page"
        )
    return str(chosen or "").strip()


def slide(name: str, fields: Mapping[str, Field]) -> str:
    """One of a field's values, in order along a slider."""
    field = fields[name]
    assert isinstance(field, Choice)
    with linked(name, field.default, one_of(field.options)) as key:
        return str(st.select_slider(field.label, field.options, key=key, help=field.help or None, persist_state="page"))

"""History's filters: the fields, their values in the address, and the RunFilter that they make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import streamlit as st

from engine.validity.validity import CHECKS
from pages.figures.frames import records
from pages.parts.experiments.description import experiment_name
from pages.parts.runs.run_text import when
from pages.parts.shared.lab import lab
from pages.parts.shared.page_state import Texts, is_asked, last_text, linked, put, some_of, some_text, switch, texts_of
from store.queries.history import RunFilter

CHOICES = {"engine": "Engine", "model": "Model", "device_name": "Device", "status": "Status", "tags": "Tags"}
EXPERIMENT = "experiment"
YEARS = 10
FILTERS = (*CHOICES, EXPERIMENT, "badges", "since", "until")
NAMES = (*FILTERS, "text", "pinned")  # in the address
EARNED, LOST = "earned", "lost"
# By their text on the screen, which is also the value in the address: `random weights`.
BADGES = {check.fault: (LOST, check.name) for check in CHECKS} | {check.label: (EARNED, check.name) for check in CHECKS}
FORMER_LABELS = {
    "warm-up covered what was measured": "warm-up complete",
    "warm-up left something out": "warm-up incomplete",
    "host may have held it up": "host may have slowed it",
    "pace drifted": "speed drifted",
    "KV memory sufficed": "KV memory sufficient",
}  # in older links


def draw_filters() -> RunFilter:
    """Draw the fields and return the filter. The address has each field by its name."""
    search, pinned = st.columns([4, 1], vertical_alignment="bottom")
    with search, linked("text", "", last_text) as key:
        text = st.text_input(
            "Search",
            key=key,
            persist_state="page",
            placeholder="Note, tag, model, workload, run id …",
            label_visibility="collapsed",
        )
    with pinned, linked("pinned", False, switch) as key:
        only_pinned = st.toggle("Pinned only", key=key, persist_state="page")
    with st.expander("Filters", icon=":material/filter_list:", expanded=is_filtered()):
        chosen = _draw_choices(lab().store.history.facets())
        left, right = st.columns(2)
        with left:
            experiment_id = _draw_experiment()
        with right:
            badges = _draw_badges()
        left, right = st.columns(2)
        with left:
            since = _day("since", "From")
        with right:
            until = _day("until", "To (inclusive)")
    return filter_of(text or "", chosen, badges, since, until, only_pinned, experiment_id)


def _draw_choices(facets: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    chosen = {}
    columns = st.columns(len(CHOICES))
    for column, (name, label) in zip(columns, CHOICES.items(), strict=True):
        # A value in the link is an option even if no run has it any more.
        options = list(dict.fromkeys([*facets[name], *st.query_params.get_all(name)]))
        with column:
            chosen[name] = _some(name, label, options)
    return chosen


def _draw_badges() -> list[str]:
    options = list(BADGES)
    read = some_of(options)
    with linked("badges", [], lambda texts: read(tuple(FORMER_LABELS.get(text, text) for text in texts))) as key:
        return st.multiselect("Badges", options, key=key, placeholder="Any", persist_state="page")


def _some(name: str, label: str, options: list[str]) -> list[str]:
    with linked(name, [], some_of(options)) as key:
        return st.multiselect(label, options, key=key, placeholder="Any", persist_state="page")


def _day(name: str, label: str) -> date | None:
    """A day within ten years of today, as in Streamlit's field. A link may also have 2026/11/28."""
    today = date.today()

    def read(texts: Texts) -> date:
        day = date.fromisoformat(texts[-1].replace("/", "-"))
        if abs(day.year - today.year) >= YEARS:
            raise ValueError("too far from today")
        return day

    with linked(name, None, read) as key:
        return st.date_input(label, None, key=key, persist_state="page")


def _draw_experiment() -> str | None:
    """The choice of an experiment: the address has its id, the page its name."""
    asked = texts_of(EXPERIMENT)
    rows = records(lab().store.experiments.list())
    names = {str(row["experiment_id"]): _experiment_line(row) for row in rows}
    with linked(EXPERIMENT, None, some_text) as key:
        chosen: str | None = st.selectbox(
            "Experiment",
            list(dict.fromkeys([*names, *filter(None, (*asked, st.session_state[key]))])),
            index=None,
            format_func=lambda experiment_id: names.get(experiment_id, experiment_id),
            key=key,
            placeholder="Any",
            persist_state="page",
        )
    return chosen


def _experiment_line(row: Mapping[str, Any]) -> str:
    return f"{when(row['created_at'])}  {experiment_name(row['kind'], row['label'])}"


def filter_of(
    text: str,
    chosen: Mapping[str, Sequence[str]],
    badges: Sequence[str],
    since: object,
    until: object,
    pinned: bool,
    experiment_id: str | None = None,
) -> RunFilter:
    """The filter of the fields' values. Days are local; `until` is included."""
    last = until + timedelta(days=1) if isinstance(until, date) else None
    return RunFilter(
        text=text,
        **{name: tuple(chosen.get(name, ())) for name in CHOICES},
        experiment_id=(experiment_id,) if experiment_id else (),
        earned=_checks(badges, EARNED),
        lost=_checks(badges, LOST),
        since=_midnight_utc(since),
        until=_midnight_utc(last),
        pinned=pinned,
    )


def _checks(badges: Sequence[str], kind: str) -> tuple[str, ...]:
    """The names of the chosen checks that are earned, or lost."""
    return tuple(BADGES[badge][1] for badge in badges if BADGES[badge][0] == kind)


def is_filtered() -> bool:
    """Whether a filter besides the search is set."""
    return any(is_asked(name) for name in FILTERS)


def clear_filters() -> None:
    """Reset every field; the address follows."""
    none: dict[str, Any] = {name: [] for name in (*CHOICES, "badges")}
    put(none | {"since": None, "until": None, "text": "", "pinned": False, EXPERIMENT: None})


def _midnight_utc(day: object) -> datetime | None:
    """The start of a local day as the store has times: in UTC, without a zone."""
    if not isinstance(day, date):
        return None
    return datetime(day.year, day.month, day.day).astimezone(UTC).replace(tzinfo=None)

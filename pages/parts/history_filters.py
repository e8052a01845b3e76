"""The filters of the history: what the address says, the fields on the page, and the question they make together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import streamlit as st

from engine.core.validity import CHECKS
from pages.parts.experiments.description import experiment_name
from pages.parts.lab import lab
from pages.parts.run_words import when
from store.queries.history import RunFilter

CHOICES = {"engine": "Engine", "model": "Model", "device_name": "Device", "status": "Status", "tags": "Tags"}
EXPERIMENT, EXPERIMENT_FIELD, EXPERIMENT_SEEN = "experiment", "history_experiment", "history_experiment_seen"
FILTERS = (*CHOICES, EXPERIMENT, "badges", "since", "until")
EARNED, LOST = "earned", "lost"
# As they are read, since the address carries what is read: `random weights`.
BADGES = {check.fault: (LOST, check.name) for check in CHECKS} | {check.label: (EARNED, check.name) for check in CHECKS}


def draw_filters() -> RunFilter:
    """The fields, each bound to the address by its name, and the question that they make."""
    search, pinned = st.columns([4, 1], vertical_alignment="bottom")
    with search:
        text = st.text_input(
            "Search",
            key="text",
            bind="query-params",
            placeholder="Words of a note, a tag, a model, a workload, a run id …",
            label_visibility="collapsed",
        )
    with pinned:
        only_pinned = st.toggle("Pinned only", key="pinned", bind="query-params")
    with st.expander("Filters", icon=":material/filter_list:", expanded=is_filtered()):
        chosen = _draw_choices(lab().store.history.facets())
        left, right = st.columns(2)
        with left:
            experiment_id = _draw_experiment()
        badges = right.multiselect("Badges", list(BADGES), key="badges", bind="query-params", placeholder="Any")
        left, right = st.columns(2)
        since = left.date_input("From", None, key="since", bind="query-params")
        until = right.date_input("Up to, and with", None, key="until", bind="query-params")
    return filter_of(text or "", chosen, badges, since, until, only_pinned, experiment_id)


def _draw_choices(facets: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    chosen = {}
    columns = st.columns(len(CHOICES))
    for column, (name, label) in zip(columns, CHOICES.items(), strict=True):
        # What a link asks for stays an option, also where no run has it any more.
        options = list(dict.fromkeys([*facets[name], *st.query_params.get_all(name)]))
        with column:
            chosen[name] = st.multiselect(label, options, key=name, bind="query-params", placeholder="Any")
    return chosen


def _draw_experiment() -> str | None:
    """The experiment whose runs are wanted. Not bound: the address has its id, and the page what it is."""
    asked = st.query_params.get(EXPERIMENT) or None
    rows = lab().store.experiments.list().to_dict("records")
    names = {str(row["experiment_id"]): _experiment_line(row) for row in rows}
    if EXPERIMENT_FIELD not in st.session_state or asked != st.session_state.get(EXPERIMENT_SEEN):
        st.session_state[EXPERIMENT_FIELD] = asked  # as a default it could not be cleared
    st.session_state[EXPERIMENT_SEEN] = asked  # Back, or a link, changes the address and not the field
    return st.selectbox(
        "Experiment",
        list(dict.fromkeys([*names, *([asked] if asked else [])])),
        index=None,
        format_func=lambda experiment_id: names.get(experiment_id, experiment_id),
        key=EXPERIMENT_FIELD,
        on_change=_follow_experiment,
        placeholder="Any",
    )


def _experiment_line(row: Mapping[str, Any]) -> str:
    return f"{when(row['created_at'])}  {experiment_name(row['kind'], row['label'])}"


def _follow_experiment() -> None:
    """The address follows the field."""
    chosen = st.session_state.get(EXPERIMENT_FIELD)
    if chosen:
        st.query_params[EXPERIMENT] = chosen
    else:
        st.query_params.pop(EXPERIMENT, None)


def filter_of(
    text: str,
    chosen: Mapping[str, Sequence[str]],
    badges: Sequence[str],
    since: object,
    until: object,
    pinned: bool,
    experiment_id: str | None = None,
) -> RunFilter:
    """Days are this machine's; `until` is the last day that counts."""
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
    """The names of the checks that were chosen as earned, or as lost."""
    return tuple(BADGES[badge][1] for badge in badges if BADGES[badge][0] == kind)


def is_filtered() -> bool:
    """Whether the address asks for some of the runs by more than words."""
    return any(st.query_params.get_all(name) for name in FILTERS)


def clear_filters() -> None:
    """Every field at its default; the address follows."""
    for name in (*CHOICES, "badges"):
        st.session_state[name] = []
    st.session_state.update({"since": None, "until": None, "text": "", "pinned": False, EXPERIMENT_FIELD: None})
    st.query_params.pop(EXPERIMENT, None)


def _midnight_utc(day: object) -> datetime | None:
    """The beginning of a day here, as the store keeps moments: in UTC, without a zone."""
    if not isinstance(day, date):
        return None
    return datetime(day.year, day.month, day.day).astimezone(UTC).replace(tzinfo=None)

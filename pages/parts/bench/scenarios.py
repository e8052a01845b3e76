"""Scenarios on Bench: a button each that sets the whole workload, so that one look at the plan shows one effect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import streamlit as st

from pages.parts.shared.fields import FIELDS
from pages.parts.shared.page_state import page_key, put

# Settings that a scenario sets; those that it does not name go back to their defaults.
WORKLOAD = (
    *("engine", "first", "second", "slots", "max_num_batched_tokens", "prompts", "mix", "requests", "seed", "budget"),
    *("arrival", "block_size", "pool_gib", "form", "timeout", "return"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """`settings` by their names on the page; `shows` is the button's tooltip."""

    name: str
    icon: str
    shows: str
    settings: Mapping[str, Any]


SCENARIOS = (
    Scenario(
        name="Textbook eight",
        icon=":material/school:",
        shows="Eight requests of unequal length in four slots: a static batch waits for its longest.",
        settings={},
    ),
    Scenario(
        name="Equal lengths",
        icon=":material/density_small:",
        shows="All requests are equally long: continuous batching gains nothing.",
        settings={"prompts": "lengths", "mix": "p64", "budget": "32"},
    ),
    Scenario(
        name="One long prompt",
        icon=":material/vertical_align_top:",
        shows="A long prompt stalls every decoding row; chunked prefill bounds the stall.",
        settings={
            "first": "continuous",
            "second": "chunked",
            "prompts": "lengths",
            "mix": "p16:7,p1024:1",
            "budget": "16-48",
            "max_num_batched_tokens": 64,
        },
    ),
    Scenario(
        name="Steady traffic",
        icon=":material/stream:",
        shows="Requests arrive one by one, more slowly than they are served.",
        settings={"prompts": "lengths", "mix": "p16,p64", "requests": 16, "budget": "8-32", "arrival": "constant:0.5"},
    ),
    Scenario(
        name="KV pool too small",
        icon=":material/memory:",
        shows="Blocks run out: requests are preempted and recomputed. A larger KV pool ends the preemptions.",
        settings={
            "first": "paged",
            "second": "chunked",
            "prompts": "lengths",
            "mix": "p64",
            "budget": "32-96",
            "pool_gib": 0.011,
        },
    ),
    Scenario(
        name="Overload",
        icon=":material/trending_up:",
        shows="Requests arrive faster than they are served: the queue grows, and so does every wait.",
        settings={"prompts": "lengths", "mix": "p16,p64", "requests": 32, "budget": "8-32", "arrival": "poisson:8"},
    ),
)


def settings_of_scenario(scenario: Scenario) -> dict[str, Any]:
    """Every setting of WORKLOAD: the scenario's, else the default."""
    return {name: scenario.settings.get(name, FIELDS[name].default) for name in WORKLOAD}


def draw_scenarios() -> None:
    """Buttons, each of which sets the workload, the two engines and the slots."""
    for scenario in SCENARIOS:
        st.button(
            scenario.name,
            icon=scenario.icon,
            help=scenario.shows,
            key=page_key(f"scenario_{scenario.name}"),
            on_click=put,
            args=(settings_of_scenario(scenario),),
        )

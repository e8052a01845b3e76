"""Workload profiles on Bench: a button each that sets prompt lengths and output tokens as in a published trace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from engine.hardware.model_presets import model_shape
from engine.workload.profiles import PROFILES, REQUESTS, ScaledProfile, WorkloadProfile, scaled_to
from pages.parts.bench.scenarios import WORKLOAD
from pages.parts.shared.fields import FIELDS
from pages.parts.shared.markdown import plain
from pages.parts.shared.page_state import page_key, put, setting

ICONS = {
    "Chat": ":material/forum:",
    "RAG": ":material/find_in_page:",
    "Summarization": ":material/summarize:",
    "Code": ":material/code:",
}


def draw_profiles() -> None:
    """A menu with a button for each profile, and its source."""
    with st.popover("Profiles", icon=":material/category:", help="Prompt and output lengths of published traces."):
        for profile in PROFILES:
            st.button(
                profile.name,
                icon=ICONS[profile.name],
                help=profile.meaning,
                key=page_key(f"profile_{profile.name}"),
                width="stretch",
                on_click=_take,
                args=(profile,),
            )
            st.caption(plain(scaled_to(profile, _context_tokens(_model())).text))


def draw_profile_source(values: Mapping[str, Any]) -> None:
    """Where the lengths come from, as long as the settings are those of a profile."""
    found = profile_of(values)
    if found is not None:
        st.caption(f":material/category: {found.profile.name}: {plain(found.text)}")


def profile_of(values: Mapping[str, Any]) -> ScaledProfile | None:
    """The profile whose lengths are set."""
    context_tokens = _context_tokens(str(values["model"] or ""))
    for profile in PROFILES:
        scaled = scaled_to(profile, context_tokens)
        if (values["prompts"], values["mix"], values["budget"]) == ("lengths", scaled.prompts, scaled.budget):
            return scaled
    return None


def settings_of_profile(profile: WorkloadProfile, context_tokens: int | None) -> dict[str, Any]:
    """Every setting of WORKLOAD: the profile's lengths, else the default."""
    scaled = scaled_to(profile, context_tokens)
    own = {"prompts": "lengths", "mix": scaled.prompts, "budget": scaled.budget, "requests": REQUESTS}
    return {name: own.get(name, FIELDS[name].default) for name in WORKLOAD}


def _take(profile: WorkloadProfile) -> None:
    put(settings_of_profile(profile, _context_tokens(_model())))


def _model() -> str:
    return str(setting("model") or FIELDS["model"].default)


def _context_tokens(model: str) -> int | None:
    """The model's context by its published configuration; None where unknown."""
    try:
        return model_shape(model.strip()).max_positions
    except ValueError:
        return None

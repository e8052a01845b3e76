"""The settings of the Bench page, in groups, with the upload of a prompt file.

Each problem appears under its field, in a place kept for it, so that nothing moves while a user types.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from engine.core.format import plural
from engine.core.presets import PRESETS
from engine.workload.prompt_file import prompt_lines
from pages.parts.bench.memory import draw_memory, memory_text
from pages.parts.bench.settings import BenchSettings, read_settings
from pages.parts.bench.workload_text import arrival_text, drawn_text, form_text, mix_text
from pages.parts.shared.fields import FIELDS
from pages.parts.shared.markdown import plain
from pages.parts.shared.page_state import page_key
from pages.parts.shared.run_settings import draw_advanced, draw_model
from pages.parts.shared.widgets import choice, group, number, text
from pages.parts.shared.workloads import budget_text

STEP_BUDGET = "Chunked only. Each decoding row takes one token; the rest of the step's budget goes to prompt chunks."
COMPARED = ("engine", "first", "second")  # the settings that name engines
KEPT_PROMPTS = "lab.prompt_lines"  # of the visit


def draw_controls(values: dict[str, Any]) -> BenchSettings:
    """Draw all settings but those that are in `values` already, add theirs, and read all."""
    notes: dict[str, Any] = {}
    left, right = st.columns(2, gap="medium")
    with left:
        _draw_engine(values, notes)
        if "hardware" in values:
            values["repeats"] = 1  # a simulation has no spread
        else:
            _draw_repeats(values)
            _draw_model(values, notes)
        _draw_sampling(values)
    with right:
        lines = _draw_workload(values, notes)
        draw_memory(values, notes)
        _draw_static(values, notes)
    draw_advanced(values, FIELDS)
    settings = read_settings(values, lines)
    _fill_notes(notes, values, settings)
    return settings


def _draw_engine(values: dict[str, Any], notes: dict[str, Any]) -> None:
    with group("Single run", "One engine alone: its scheduling policy and KV layout."):
        values["engine"] = choice("engine")
        st.caption(f"Shows: {PRESETS[values['engine']].shows}.")
        is_serial = all(PRESETS[values[name]].slots == 1 for name in COMPARED)
        values["slots"] = number("slots", disabled=is_serial)
        if is_serial:
            st.caption("Off: serial has one slot.")
        values["max_num_batched_tokens"] = number("max_num_batched_tokens")
        notes["max_num_batched_tokens"] = st.empty()


def _draw_repeats(values: dict[str, Any]) -> None:
    with group("Repeats", "How often each engine runs. It applies to every run button."):
        values["repeats"] = number("repeats")
        if values["repeats"] > 1:
            st.caption("Engines are interleaved so that drift affects all equally. The Repeats page shows the spread.")
        else:
            st.caption("One run shows no spread. With 2 or more, engines are interleaved.")


def _draw_model(values: dict[str, Any], notes: dict[str, Any]) -> None:
    with group("Model and device", "The model, the device it runs on, and its dtype."):
        draw_model(values, notes, FIELDS)


def _draw_workload(values: dict[str, Any], notes: dict[str, Any]) -> tuple[str, ...]:
    with group("Workload", "The requests. The same seed gives every engine the same requests."):
        lines: tuple[str, ...] = ()
        values["mix"] = FIELDS["mix"].default
        if values["prompts"] == "lengths":
            values["mix"] = text("mix")
            notes["mix"] = st.empty()
        elif values["prompts"] == "file":
            lines = _draw_prompt_file()
            notes["file"] = st.empty()
        else:
            st.caption("Forty built-in questions in an order drawn from the seed.")
        requests, seed = st.columns(2)
        with requests:
            values["requests"] = number("requests")
        with seed:
            values["seed"] = number("seed")
        notes["requests"] = st.empty()
        values["budget"] = text("budget")
        notes["budget"] = st.empty()
        values["arrival"] = text("arrival")
        notes["arrival"] = st.empty()
        values["rescale_arrivals"] = choice("rescale_arrivals")
    return lines


def _draw_prompt_file() -> tuple[str, ...]:
    """Draw the uploader and return the lines of the last valid file; empty before the first."""
    upload = st.file_uploader("Prompts, one a line", type=["txt", "md", "text"], key=page_key("prompt_file"))
    if upload is not None:
        try:
            st.session_state[KEPT_PROMPTS] = (upload.name, prompt_lines(upload.getvalue(), upload.name))
        except ValueError as error:
            st.markdown(f":red[:material/error: {plain(str(error))}]")
    name, lines = st.session_state.get(KEPT_PROMPTS, ("", ()))
    if lines:
        st.caption(f"Using {plural(len(lines), 'prompt')} from {plain(name)}. Links to this page do not include them.")
    return tuple(lines)


def _draw_static(values: dict[str, Any], notes: dict[str, Any]) -> None:
    off = not any(PRESETS[values[name]].forms_batches for name in COMPARED)
    with group("Static batches", "When the static engine starts a batch, and when it returns answers."):
        values["form"] = choice("form", disabled=off)
        values["timeout"] = number("timeout", disabled=off or values["form"] != "timeout", step=0.5)
        values["return"] = choice("return", disabled=off)
        if off:
            st.caption("Off: only the static engine forms batches.")
        else:
            st.caption("stream returns each token at once; whole returns all answers when the batch ends.")
            notes["form"] = st.empty()


def _draw_sampling(values: dict[str, Any]) -> None:
    with group("Sampling", "How the next token is drawn."):
        temperature, top_k, top_p = st.columns(3)
        with temperature:
            values["temperature"] = number("temperature", step=0.1)
        greedy = values["temperature"] == 0
        with top_k:
            values["top_k"] = number("top_k", disabled=greedy)
        with top_p:
            values["top_p"] = number("top_p", disabled=greedy, step=0.05)
        if greedy:
            st.caption("Temperature 0 is greedy; top-k and top-p have no effect.")
        else:
            st.caption("Top-k 0 and top-p 1 do not restrict the distribution.")


def _fill_notes(notes: dict[str, Any], values: dict[str, Any], settings: BenchSettings) -> None:
    """Under each field its problem, or what its value means."""
    meanings: dict[str, Callable[[], str]] = {
        "model": lambda: "",
        "mix": lambda: mix_text(values["mix"]),
        "budget": lambda: budget_text(values["budget"]),
        "arrival": lambda: " ".join(filter(None, (arrival_text(values["arrival"]), drawn_text(settings.workload)))),
        "form": lambda: "" if "arrival" in settings.problems else form_text(values["form"], values["arrival"]),
        "file": lambda: "",
        "requests": lambda: "",
        "max_num_batched_tokens": lambda: STEP_BUDGET,
        "memory": lambda: memory_text(values),
    }
    for name, place in notes.items():
        problem = settings.problems.get(name)
        if problem is not None:
            place.caption(f":red[:material/error: {plain(problem)}]")
        elif meaning := meanings[name]():
            place.caption(meaning)

"""The controls of the Bench page, in groups, each with a line that says what it does or why it is off.

`draw_controls` returns what they say. Messages appear under their field in a place that is always there, so that
nothing jumps while a person types. Where an option has a name that people know from other engines, its label has it.
"""

from __future__ import annotations

from typing import Any

import streamlit as st

from engine.core.format import exact, plural
from engine.core.presets import PRESETS
from engine.core.units import MIB, dtype_of
from engine.hardware.model_catalog import list_models
from pages.parts.bench.memory import draw_advanced, draw_memory, memory_text
from pages.parts.bench.settings import TWICE, Settings, read_settings
from pages.parts.bench.workload_text import arrival_text, form_text, mix_text
from pages.parts.shared.devices import available_devices, device_of
from pages.parts.shared.fields import FIELDS
from pages.parts.shared.markdown import plain
from pages.parts.shared.page_state import page_key
from pages.parts.shared.widgets import choice, group, model, number, text
from pages.parts.shared.workloads import budget_text

# The upload of a file of prompts: one a line, UTF-8, kept for the visit so that leaving the page loses nothing.

KEPT = "lab.prompt_lines"
MAX_BYTES = 20 * MIB


def read_prompts(content: bytes) -> tuple[str, ...]:
    """The lines that hold something, in order. ValueError for what is no text, and for a file with no prompt."""
    if len(content) > MAX_BYTES:
        raise ValueError(f"the file is larger than {exact(MAX_BYTES >> 20, 'MiB')}; use fewer or shorter prompts")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("the file is not UTF-8 text; save it as UTF-8, one prompt a line") from None
    lines = tuple(line.strip() for line in text.splitlines() if line.strip())
    if not lines:
        raise ValueError("the file holds no prompts; write one prompt a line")
    return lines


def draw_prompt_file() -> tuple[str, ...]:
    """The uploader and what is in hand. Empty when there is no usable file; a bad one says why and changes nothing."""
    upload = st.file_uploader("Prompts, one a line", type=["txt", "md", "text"], key=page_key("prompt_file"))
    if upload is not None:
        try:
            st.session_state[KEPT] = (upload.name, read_prompts(upload.getvalue()))
        except ValueError as error:
            st.markdown(f":red[:material/error: {plain(upload.name)}: {plain(str(error))}]")
    name, lines = st.session_state.get(KEPT, ("", ()))
    if lines:
        st.caption(
            f"In hand: {plural(len(lines), 'prompt')} of {plain(name)}. A link to this page does not carry them."
        )
    return tuple(lines)


BUDGET_WORDS = (
    "Read by chunked alone: decoding rows take a token each, and what is left of a step reads prompts in chunks."
)


def draw_controls() -> Settings:
    """Draw every group, and read the whole of it."""
    values: dict[str, Any] = {}
    notes: dict[str, Any] = {}
    left, right = st.columns(2, gap="medium")
    with left:
        _draw_engine(values, notes)
        _draw_side_by_side(values)
        _draw_repeats(values)
        _draw_model(values, notes)
        _draw_sampling(values)
    with right:
        prompt_lines = _draw_workload(values, notes)
        draw_memory(values, notes)
        _draw_static(values, notes)
    draw_advanced(values)
    settings = read_settings(values, prompt_lines)
    _fill_notes(notes, values, settings)
    return settings


def _draw_engine(values: dict[str, Any], notes: dict[str, Any]) -> None:
    with group("Engine", "Which rows run in a step, and where their keys and values live."):
        values["engine"] = choice("Engine", "engine")
        st.caption(f"What it shows: {PRESETS[values['engine']].shows}.")
        is_serial = values["engine"] == "serial"
        values["slots"] = number("Slots: rows that run at once (max-num-seqs)", "slots", disabled=is_serial)
        if is_serial:
            st.caption("Off: the serial engine has one slot. The other engines of a comparison still use this number.")
        else:
            st.caption("The size of a static batch, or the most requests that any other engine runs at once.")
        values["max_num_batched_tokens"] = number(
            "Tokens a step, at most (max-num-batched-tokens)", "max_num_batched_tokens"
        )
        notes["max_num_batched_tokens"] = st.empty()


def _draw_side_by_side(values: dict[str, Any]) -> None:
    with group("Side by side", "The two engines that Run the pair gives the same requests to, one after the other."):
        values["first"] = choice("First, the base of the comparison", "first")
        values["second"] = choice("Second", "second")
        if values["first"] == values["second"]:
            st.caption(f":red[:material/error: {TWICE.capitalize()}.]")


def _draw_repeats(values: dict[str, Any]) -> None:
    with group("Repeats", "How often each engine is run, whichever button is pressed."):
        values["repeats"] = number("Repeats", "repeats")
        if values["repeats"] > 1:
            st.caption("All engines once, then all again, so that drift hits all. Their own page shows the spread.")
        else:
            st.caption("From 2 on: all engines once, then all again, so that drift hits all. One shows no spread.")


def _draw_model(values: dict[str, Any], notes: dict[str, Any]) -> None:
    with group("Model and device", "What runs, on what, in which number format."):
        models = {row["name"]: row for row in list_models()}
        values["model"] = model(
            list(models),
            str(FIELDS["model"].default),
            "A name of the list, or type a folder with safetensors or GGUF, or a hub id as owner/model.",
        )
        notes["model"] = st.empty()
        values["device"] = choice("Device", "device", available_devices())
        values["dtype"] = choice("Number format", "dtype")
        used = device_of(values["device"])
        missing = "" if "cuda" in available_devices() else " No NVIDIA GPU shows itself here, so cuda is not offered."
        st.caption(f"This run: {dtype_of(values['dtype'], used)} on {used}.{missing}")


def _draw_workload(values: dict[str, Any], notes: dict[str, Any]) -> tuple[str, ...]:
    with group("Workload", "The requests. The same seed gives the same requests to every engine."):
        values["prompts"] = choice("Prompts", "prompts")
        prompt_lines: tuple[str, ...] = ()
        values["mix"] = FIELDS["mix"].default
        if values["prompts"] == "lengths":
            values["mix"] = text("Mix of lengths", "mix", "p16,p64 in equal shares; p16:3,p4096:1 with weights")
            notes["mix"] = st.empty()
        elif values["prompts"] == "file":
            prompt_lines = draw_prompt_file()
            notes["file"] = st.empty()
        else:
            st.caption("Forty questions of ours, in an order that the seed draws; the default model really answers.")
        requests, seed = st.columns(2)
        with requests:
            values["requests"] = number("Requests", "requests")
        with seed:
            values["seed"] = number("Seed", "seed")
        notes["requests"] = st.empty()
        values["budget"] = text(
            "Budget: new tokens a request", "budget", "64; 64-256; 8x32+8x256 (shuffled); eos; eos:200"
        )
        notes["budget"] = st.empty()
        values["arrival"] = text("Arrivals", "arrival", "closed; poisson:R, constant:R, gamma:R:CV with R a second")
        notes["arrival"] = st.empty()
    return prompt_lines


def _draw_static(values: dict[str, Any], notes: dict[str, Any]) -> None:
    off = values["engine"] != "static"
    with group("Static batches", "How a batch is formed and handed back."):
        values["form"] = choice("A batch is formed when", "form", disabled=off)
        no_timer = off or values["form"] != "timeout"
        values["timeout"] = number("Timeout, seconds", "timeout", disabled=no_timer, step=0.5)
        values["return"] = choice("Answers are handed over", "return", disabled=off)
        if off:
            st.caption("Off: only the static engine forms batches. A comparison with it uses these as they stand.")
        else:
            st.caption("stream hands over each token as it comes; whole keeps all answers until the batch has ended.")
            notes["form"] = st.empty()


def _draw_sampling(values: dict[str, Any]) -> None:
    with group("Sampling", "How the next token is picked. A request's draws are its own, whoever its neighbors are."):
        temperature, top_k, top_p = st.columns(3)
        with temperature:
            values["temperature"] = number("Temperature", "temperature", step=0.1)
        greedy = values["temperature"] == 0
        with top_k:
            values["top_k"] = number("Top-k", "top_k", disabled=greedy)
        with top_p:
            values["top_p"] = number("Top-p", "top_p", disabled=greedy, step=0.05)
        if greedy:
            st.caption("Temperature 0 is greedy: the likeliest token is taken, so top-k and top-p have nothing to cut.")
        else:
            st.caption("Top-k 0 and top-p 1 leave the distribution whole.")


def _fill_notes(notes: dict[str, Any], values: dict[str, Any], settings: Settings) -> None:
    """A problem where there is one, else what the field's text means."""
    words = {
        "model": lambda: _model_text(values["model"]),
        "mix": lambda: mix_text(values["mix"]),
        "budget": lambda: budget_text(values["budget"]),
        "arrival": lambda: arrival_text(values["arrival"]),
        "form": lambda: "" if "arrival" in settings.problems else form_text(values["form"], values["arrival"]),
        "file": lambda: "",
        "requests": lambda: "",
        "max_num_batched_tokens": lambda: BUDGET_WORDS,
        "memory": lambda: memory_text(values),
    }
    for name, place in notes.items():
        problem = settings.problems.get(name)
        if problem is not None:
            place.caption(f":red[:material/error: {plain(problem)}]")
        elif said := words[name]():
            place.caption(said)


def _model_text(name: str) -> str:
    row = next((row for row in list_models() if row["name"] == name), None)
    if row is None:
        return "A folder or a hub id: it is looked up when the run starts."
    why = "" if row["why"] is None else f" :orange[{plain(row['why'])}.]"
    return f"{plain(row['description'])}.{why}"

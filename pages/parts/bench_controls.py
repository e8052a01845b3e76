"""The controls of the Bench page, in groups, each with a line that says what it does or why it is off.

Every widget is bound to the query parameter of its name (bench_fields). `draw_controls` returns what they say.
Messages appear under their field in a place that is always there, so that nothing jumps while a person types.
"""

from __future__ import annotations

from typing import Any

import streamlit as st

from engine.core.model_catalogue import list_models
from engine.core.presets import PRESETS
from pages.parts.bench_fields import FIELDS, Choice, Number, unbounded
from pages.parts.bench_settings import Settings, read_settings
from pages.parts.bench_words import arrival_words, budget_words, form_words, mix_words
from pages.parts.devices import available_devices, device_of, dtype_of
from pages.parts.format import plain
from pages.parts.prompt_file import draw_prompt_file


def draw_controls() -> Settings:
    """Draw every group, and read the whole of it."""
    values: dict[str, Any] = {}
    notes: dict[str, Any] = {}
    left, right = st.columns(2, gap="medium")
    with left:
        _draw_engine(values)
        _draw_model(values, notes)
        _draw_sampling(values)
    with right:
        prompt_lines = _draw_workload(values, notes)
        _draw_static(values, notes)
    _draw_advanced(values)
    settings = read_settings(values, prompt_lines)
    _fill_notes(notes, values, settings)
    return settings


def _draw_engine(values: dict[str, Any]) -> None:
    with _group("Engine", "Which rows run in a step, and where their keys and values live."):
        values["engine"] = _choice("Engine", "engine")
        st.caption(f"What it shows: {PRESETS[values['engine']].shows}.")
        is_serial = values["engine"] == "serial"
        values["slots"] = _number("Slots: rows that run at once", "slots", disabled=is_serial)
        if is_serial:
            st.caption("Off: the serial engine has one slot. The pair still uses this number.")
        else:
            st.caption("The size of a static batch, or the rows of the continuous engine.")


def _draw_model(values: dict[str, Any], notes: dict[str, Any]) -> None:
    with _group("Model and device", "What runs, on what, in which number format."):
        models = {row["name"]: row for row in list_models()}
        values["model"] = st.selectbox(
            "Model",
            list(models),
            key="model",
            bind="query-params",
            accept_new_options=True,
            help="A name of the list, or type a folder with safetensors or GGUF, or a hub id as owner/model.",
        )
        notes["model"] = st.empty()
        values["device"] = _choice("Device", "device", available_devices())
        values["dtype"] = _choice("Number format", "dtype")
        used = device_of(values["device"])
        missing = "" if "cuda" in available_devices() else " No NVIDIA GPU shows itself here, so cuda is not offered."
        st.caption(f"This run: {dtype_of(values['dtype'], used)} on {used}.{missing}")


def _draw_workload(values: dict[str, Any], notes: dict[str, Any]) -> tuple[str, ...]:
    with _group("Workload", "The requests. The same seed gives the same requests to every engine."):
        values["prompts"] = _choice("Prompts", "prompts")
        prompt_lines: tuple[str, ...] = ()
        values["mix"] = st.session_state.get("mix", "p16,p64")
        if values["prompts"] == "lengths":
            values["mix"] = _text("Mix of lengths", "mix", "p16,p64 in equal shares; p16:3,p4096:1 with weights")
            notes["mix"] = st.empty()
        elif values["prompts"] == "file":
            prompt_lines = draw_prompt_file()
            notes["file"] = st.empty()
        else:
            st.caption("Forty questions of ours, in an order that the seed draws; the default model really answers.")
        requests, seed = st.columns(2)
        with requests:
            values["requests"] = _number("Requests", "requests")
        with seed:
            values["seed"] = _number("Seed", "seed")
        notes["requests"] = st.empty()
        values["budget"] = _text(
            "Budget: new tokens a request", "budget", "64; 64-256; 8x32+8x256 (shuffled); eos; eos:200"
        )
        notes["budget"] = st.empty()
        values["arrival"] = _text("Arrivals", "arrival", "closed; poisson:R, constant:R, gamma:R:CV with R a second")
        notes["arrival"] = st.empty()
    return prompt_lines


def _draw_static(values: dict[str, Any], notes: dict[str, Any]) -> None:
    off = values["engine"] != "static"
    with _group("Static batches", "How a batch is formed and handed back."):
        values["form"] = _choice("A batch is formed when", "form", disabled=off)
        no_timer = off or values["form"] != "timeout"
        values["timeout"] = _number("Timeout, seconds", "timeout", disabled=no_timer, step=0.5)
        values["return"] = _choice("Answers are handed over", "return", disabled=off)
        if off:
            st.caption("Off: only the static engine forms batches. The pair's static run uses these as they stand.")
        else:
            st.caption("stream hands over each token as it comes; whole keeps all answers until the batch has ended.")
            notes["form"] = st.empty()


def _draw_sampling(values: dict[str, Any]) -> None:
    with _group("Sampling", "How the next token is picked. A request's draws are its own, whoever its neighbours are."):
        temperature, top_k, top_p = st.columns(3)
        with temperature:
            values["temperature"] = _number("Temperature", "temperature", step=0.1)
        greedy = values["temperature"] == 0
        with top_k:
            values["top_k"] = _number("Top-k", "top_k", disabled=greedy)
        with top_p:
            values["top_p"] = _number("Top-p", "top_p", disabled=greedy, step=0.05)
        if greedy:
            st.caption("Temperature 0 is greedy: the likeliest token is taken, so top-k and top-p have nothing to cut.")
        else:
            st.caption("Top-k 0 and top-p 1 leave the distribution whole.")


def _draw_advanced(values: dict[str, Any]) -> None:
    on_cpu = device_of(values["device"]) == "cpu"
    with st.expander("Advanced: timing, warm-up, memory"):
        left, right = st.columns(2, gap="medium")
        with left:
            values["timing"] = _choice("Timing", "timing", disabled=on_cpu)
            st.caption(
                "Off: on a CPU a pass is over when its call returns, so both timings are the same."
                if on_cpu
                else "sync stops after each pass, as the sources did; async reads device events and never stops."
            )
            values["warmups"] = _number("Warm-up rounds before the clock starts", "warmups")
            st.caption("One round: a prefill of each prompt length and three decode steps.")
        with right:
            values["pool_gib"] = _number("KV pool, at most GiB", "pool_gib", step=0.5)
            values["capacity_gib"] = _number("All memory, at most GiB", "capacity_gib", step=0.5)
            st.caption("Empty: no cap. A cap that is too small ends the run as out of memory, which can be the point.")
            values["gpu_memory_utilization"] = _number(
                "Share of the GPU's memory", "gpu_memory_utilization", disabled=on_cpu, step=0.05
            )
            if on_cpu:
                st.caption("Off: this run is not on a GPU.")


def _fill_notes(notes: dict[str, Any], values: dict[str, Any], settings: Settings) -> None:
    """A problem where there is one, else what the field's text means."""
    words = {
        "model": lambda: _model_words(values["model"]),
        "mix": lambda: mix_words(values["mix"]),
        "budget": lambda: budget_words(values["budget"]),
        "arrival": lambda: arrival_words(values["arrival"]),
        "form": lambda: "" if "arrival" in settings.problems else form_words(values["form"], values["arrival"]),
        "file": lambda: "",
        "requests": lambda: "",
    }
    for name, place in notes.items():
        problem = settings.problems.get(name)
        if problem is not None:
            place.caption(f":red[:material/error: {plain(problem)}]")
        elif text := words[name]():
            place.caption(text)


def _model_words(name: str) -> str:
    row = next((row for row in list_models() if row["name"] == name), None)
    if row is None:
        return "A folder or a hub id: it is looked up when the run starts."
    why = "" if row["why"] is None else f" :orange[{plain(row['why'])}.]"
    return f"{plain(row['description'])}.{why}"


def _group(title: str, explanation: str) -> Any:
    box = st.container(border=True)
    box.markdown(f"**{title}**", help=explanation)
    return box


def _choice(label: str, name: str, options: tuple[str, ...] | None = None, *, disabled: bool = False) -> str:
    """The options are their own labels: the words of the address, the command line and the screen are the same."""
    field = FIELDS[name]
    assert isinstance(field, Choice)
    chosen = st.segmented_control(
        label,
        options or field.options,
        default=field.default,
        required=True,
        key=name,
        disabled=disabled,
        bind="query-params",
    )
    return str(chosen)


def _number(label: str, name: str, *, disabled: bool = False, step: float | None = None) -> Any:
    field = FIELDS[name]
    assert isinstance(field, Number)
    kind = int if field.whole else float
    low = kind(field.low) if not field.above else kind(0.01)
    high = None if field.high == float("inf") else kind(field.high)
    is_unbounded = name in unbounded(st.query_params.to_dict())  # the widget would fail on it before it could refuse
    return st.number_input(
        label,
        low,
        high,
        field.default,
        step=kind(step) if step else None,
        key=name,
        disabled=disabled,
        bind=None if is_unbounded else "query-params",
        placeholder="no cap" if field.default is None else None,
    )


def _text(label: str, name: str, examples: str) -> str:
    field = FIELDS[name]
    return str(
        st.text_input(label, str(field.default), key=name, help=f"Use {examples}.", bind="query-params") or ""
    ).strip()

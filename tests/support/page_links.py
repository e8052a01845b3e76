"""Links to the pages as they were always written, each with what the page's widgets then hold, by their names.

They stay as they are: a saved link opens with the same settings for as long as the lab lasts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamlit.testing.v1 import AppTest

Values = Mapping[str, Any]

LINKS: tuple[tuple[str, Values], ...] = (
    (
        "bench?engine=static&slots=7&budget=12&form=timeout&timeout=2.5&return=whole&prompts=lengths&mix=p32&seed=3",
        {
            "engine": "static",
            "slots": 7,
            "budget": "12",
            "form": "timeout",
            "timeout": 2.5,
            "return": "whole",
            "prompts": "lengths",
            "mix": "p32",
            "seed": 3,
        },
    ),
    (
        "?model=tiny-random&first=paged&second=chunked&max_num_batched_tokens=32&block_size=8&pool_gib=2&capacity_gib=4.5",
        {
            "model": "tiny-random",
            "first": "paged",
            "second": "chunked",
            "max_num_batched_tokens": 32,
            "block_size": "8",
            "pool_gib": 2.0,
            "capacity_gib": 4.5,
        },
    ),
    (
        "bench?temperature=0.7&top_k=40&top_p=0.95&repeats=3&warmups=0&requests=12&arrival=poisson%3A2&device=cpu"
        "&dtype=fp32&model=%2Fmodels%2Fmine",
        {
            "temperature": 0.7,
            "top_k": 40,
            "top_p": 0.95,
            "repeats": 3,
            "warmups": 0,
            "requests": 12,
            "arrival": "poisson:2",
            "device": "cpu",
            "dtype": "fp32",
            "model": "/models/mine",
        },
    ),
    (
        "bench?slots=-4&engine=jet&timeout=inf&temperature=1e999&top_p=0&mix=p32&pool_gib=&budget=",
        {
            "slots": 4,
            "engine": "continuous",
            "timeout": 1.0,
            "temperature": 0.0,
            "top_p": 1.0,
            "pool_gib": None,
            "budget": "",
        },
    ),
    (
        "sweep?engine=paged&model=tiny-random&prompts=p16,p64&batch_size=1,2&budget=8&mix=p16%3A3,p64%3A1&repeats=2",
        {
            "engine": "paged",
            "model": "tiny-random",
            "prompts": "p16,p64",
            "batch_size": "1,2",
            "budget": "8",
            "mix": "p16:3,p64:1",
            "repeats": 2,
        },
    ),
    (
        "sweep?experiment=sweep1&ttft_limit_s=0.25&tpot_limit_ms=50&dtype=bf16&pool_gib=0.05",
        {
            "ttft_limit_s": 0.25,
            "tpot_limit_ms": 0.05,  # seconds on the page
            "dtype": "bf16",
            "pool_gib": 0.05,
        },
    ),
    (
        "load?model=tiny-random&prompts=p4,p9&budget=8&engines=static,continuous&rates=4&requests=12&slots=2&law=constant",
        {
            "model": "tiny-random",
            "prompts": "p4,p9",
            "budget": "8",
            "engines": "static,continuous",
            "rates": "4",
            "requests": 12,
            "slots": 2,
            "law": "constant",
        },
    ),
    (
        "load?experiment=load1&at=all+at+once&ttft_within_s=0.5&tpot_within_s=0.05&confirm=no&ttft_limit_s=1",
        {
            "at": "all at once",
            "ttft_within_s": 0.5,
            "tpot_within_s": 0.05,
            "confirm": "no",
            "ttft_limit_s": 1.0,
        },
    ),
    ("repeats?experiment=rep1&metric=duration", {"metric": "duration"}),
    (
        "memory?model=llama-3.1-8b&dtype=fp32&card=rtx3060&largest=4096&prompt=2300&budget=1&engine=chunked&logits=all",
        {
            "model": "llama-3.1-8b",
            "dtype": "fp32",
            "card": "rtx3060",
            "largest": "4096",
            "prompt": 2300,
            "budget": 1,
            "engine": "chunked",
            "logits": "all",
        },
    ),
    (
        "memory?capacity_gib=8&pool_gib=0.5&weights=8&block_size=32&max_num_batched_tokens=64&largest=5",
        {
            "capacity_gib": 8.0,
            "pool_gib": 0.5,
            "weights": "8",
            "block_size": "32",
            "max_num_batched_tokens": 64,
            "largest": "1024",
        },
    ),
    (
        "what_if?model=qwen2.5-1.5b&card=rtx3060&sequence=16000&largest=8&memory=90&reading=300&weights=8&execution=eager",
        {
            "model": "qwen2.5-1.5b",
            "card": "rtx3060",
            "sequence": "16000",
            "largest": "8",
            "memory": 90,
            "reading": 300,
            "weights": "8",
            "execution": "eager",
        },
    ),
    (
        "what_if?q2_a=80&q6_budgets=4x8&q7_limit=0.01&q4_group=4&sequence=7&memory=5",
        {
            "q2_a": 80.0,
            "q6_budgets": "4x8",
            "q7_limit": 0.01,
            "q4_group": 4,
            "sequence": "2300",
            "memory": 100,
        },
    ),
    (
        "history?engine=static&engine=continuous&status=completed&text=tiny&pinned=true&badges=random+weights"
        "&since=2026-11-28&until=2026-11-30",
        {
            "engine": ["static", "continuous"],
            "status": ["completed"],
            "text": "tiny",
            "pinned": True,
            "badges": ["random weights"],
            "since": "2026-11-28",
            "until": "2026-11-30",
        },
    ),
    (
        "history?experiment=sweep1&model=gone&pinned=perhaps",
        {"experiment": "sweep1", "model": ["gone"], "pinned": False},
    ),
    (
        "run?run_id=r1&unit=seconds&ttft=admission&itl=mean&failures=infinite&percentile=nearest",
        {
            "unit": "seconds",
            "ttft": "admission",
            "itl": "mean",
            "failures": "infinite",
            "percentile": "nearest",
        },
    ),
    (
        "compare?runs=r1,r2&unit=seconds&ttft=admission",
        {"unit": "seconds", "ttft": "admission"},
    ),
    ("roofline?run=r1&card=h100", {"card": "h100"}),
    ("roofline?runs=r1,r2&card=none", {"card": "none"}),
    ("glossary?term=dead_fraction", {"term": "dead_fraction"}),
    ("predictions?show=open&page=1", {"show": "open"}),
    ("query?sql=SELECT+41+%2B+1+AS+answer", {"sql": "SELECT 41 + 1 AS answer"}),
)


def held(app: AppTest) -> dict[str, Any]:
    """What each widget of the page holds, by its name in the address."""
    kinds = (
        *(app.text_input, app.text_area, app.number_input, app.selectbox, app.multiselect, app.segmented_control),
        *(app.select_slider, app.slider, app.toggle, app.checkbox, app.radio, app.date_input),
    )
    return {
        str(element.key).partition(".")[2] or str(element.key): _plain(element.value)
        for kind in kinds
        for element in kind
        if element.key
    }


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)

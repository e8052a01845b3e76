"""The Memory page, and its estimates for runs, calculated by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.core.format import breakable, size
from engine.hardware.machine_memory import host_memory
from store import Store
from tests.support.page_app import figures, open_page, take_in, words
from tests.support.runs.memory_runs import MODEL, POSITION, write_memory_run

BARS = "Memory by batch size, term by term"
RUNS = "Estimated and measured memory"


def found(home: Path, **asked: Any) -> dict[str, Any]:
    take_in(home)
    with Store(home) as store:
        return {run.run_id: run for run in store.memory_runs.newest(**asked)}


def test_the_estimate_of_a_run_is_for_its_requests(lab_home: Path) -> None:
    write_memory_run(lab_home, "padded", ((3, 9), (30, 2), (30, 2)), slots=2)
    write_memory_run(lab_home, "slots", ((3, 9), (30, 2)), engine="continuous", slots=4)
    write_memory_run(
        lab_home, "cut", ((30, 3),) * 4, engine="paged", slots=4, info={"kv_blocks": 3, "kv_layout": "paged"}
    )
    runs = found(lab_home)
    padded, slots, cut = runs["padded"].predicted, runs["slots"].predicted, runs["cut"].predicted
    assert padded.weights_bytes == 4000
    assert padded.kv_bytes == 2 * (30 + 9) * POSITION
    assert padded.mlp_activation_bytes == 3 * 2 * 30 * 160 * 4
    assert (padded.logits_bytes, padded.logits_fp32_bytes) == (2 * 512 * 4, 0)
    assert slots.kv_bytes == 4 * 32 * POSITION
    assert slots.mlp_activation_bytes == 3 * 33 * 160 * 4
    assert cut.kv_bytes == 3 * 16 * POSITION
    assert (runs["padded"].uniform, runs["padded"].batch_size, runs["padded"].prompt_tokens) == (None, 2, (3, 30))
    assert runs["cut"].uniform is not None


def test_only_runs_comparable_with_an_estimate_are_found(lab_home: Path) -> None:
    write_memory_run(lab_home, "good", ((16, 4),))
    write_memory_run(lab_home, "ended", ((16, 4),), status="oom")
    write_memory_run(lab_home, "silent", ((16, 4),), peak_bytes=None)
    write_memory_run(lab_home, "captured", ((16, 4),), info={"execution": "graph"})
    write_memory_run(lab_home, "simulated", ((16, 4),), info={"simulated": True})
    write_memory_run(lab_home, "narrow", ((16, 4),), info={"model": MODEL | {"dtype": "float16"}})
    write_memory_run(lab_home, "shapeless", ((16, 4),), info={"model": {"name": "tiny-random", "dtype": "float32"}})
    write_memory_run(lab_home, "empty", ())
    assert set(found(lab_home)) == {"good", "narrow"}
    assert set(found(lab_home, models=["tiny-random"], dtype="fp32")) == {"good"}
    assert set(found(lab_home, models=["another"])) == set()


def test_several_gpus_share_the_model_and_a_size_that_cannot_be_is_refused(lab_home: Path) -> None:
    """16.06 GB of weights over four GPUs are 4.02 GB, 3.74 GiB."""
    app = open_page("memory", model="llama-3.1-8b", dtype="bf16", card="h100", tensor_parallel_size="4")
    assert "engine, on each of 4 GPUs." in words(app)
    assert "--tensor-parallel-size 4" in words(app)
    weights = figures(app)[BARS]["data"][0]
    assert weights["name"].strip() == "weights"
    refused = open_page("memory", model="llama-3.1-8b", tensor_parallel_size="3")
    assert "3 GPUs cannot share the 8 KV heads of llama-3.1-8b equally" in words(refused)


def test_the_page_opens_at_the_published_failures(lab_home: Path) -> None:
    app = open_page("memory")
    said = words(app)
    assert "222 requests of p1024 fit at once" in said
    assert (
        "128 rows need 13.9 GiB of 22.1 GiB; 256 rows fail at the MLP activation, asking for 4.38 GiB in one piece of "
        "three with 1.68 GiB free." in said
    )
    assert "from the term that fails (256 and 512: MLP activation; 1,024: KV cache). The bars of" in said
    assert "Published: 256 and 512 rows of p1024" in said
    assert "Memory runs out for p256, p1024 and p4096 at the MLP activation." in said
    assert (
        "The KV cache and the MLP activation grow with the prompt length; "
        "the weights, the logits and the fp32 copy of the logits do not." in said
    )
    assert "No completed run of qwen2.5-1.5b in fp16" in said
    assert list(figures(app)) == [BARS]
    table = next(line for line in said.splitlines() if "first that fails" in line).split()
    assert (
        " ".join(table)
        .removesuffix(" CSV")
        .endswith(
            "p16 2,152 none p64 1,522 none p256 701 1,024 MLP activation 4.38 GiB 829 MiB "
            "p1024 222 256 MLP activation 4.38 GiB 1.68 GiB p4096 59 64 MLP activation 4.38 GiB 3.00 GiB"
        )
    )


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("Logits of a large batch", "At batch size 1,024 the logits and their fp32 copy take 890 MiB in each step"),
        (
            "A pool of 2 GiB",
            "128 rows need 6.37 GiB of 22.1 GiB; 256 rows fail at the KV pool, asking for 3.50 GiB in one piece with "
            "2.00 GiB free.",
        ),
        ("8 B on 80 GB", "208 requests of p2300 fit at once"),
    ],
)
def test_a_button_sets_a_published_claim(lab_home: Path, label: str, expected: str) -> None:
    app = open_page("memory")
    next(button for button in app.button if button.label == label).click().run()
    said = words(app)
    assert expected in said
    assert "Published: " in said


def test_logits_of_all_positions_are_a_switch(lab_home: Path) -> None:
    address = {"model": "qwen2.5-1.5b", "dtype": "bf16", "prompt": "128", "budget": "128", "largest": "128"}
    said = words(open_page("memory", logits="all", **address))
    assert "Logits of only the last positions take 37.1 MiB instead of 4.64 GiB." in said
    assert "--batch-size 1,2,4,8,16,32,64,128 --engine static --logits all" in said
    assert "Published" not in said


def test_a_link_sets_everything_and_the_command_line_says_the_same(lab_home: Path) -> None:
    said = words(
        open_page(
            "memory", model="llama-3.1-8b", dtype="bf16", weights="8", capacity_gib="40", engine="chunked",
            prompt="512", budget="64", largest="16", logits="last", max_num_batched_tokens="256", pool_gib="3",
        )
    )  # fmt: skip
    assert (
        "python -m engine memory --model llama-3.1-8b --dtype bf16 --capacity-gib 40 --prompts p512 --budget 64 "
        "--batch-size 1,2,4,8,16 --engine chunked --pool-gib 3 --weight-bits 8 --block-size 16 "
        "--max-num-batched-tokens 256 --logits last" in said
    )
    assert "with a smaller pool, requests wait or are preempted" in said


def test_invalid_settings_are_reported(lab_home: Path) -> None:
    said = words(open_page("memory", prompt="-3", card="abacus", engine="jet", capacity_gib="inf", largest="5"))
    for name in ("prompt", "card", "engine", "capacity_gib", "largest"):
        assert f"{name} " in said
    assert "222 requests of p1024 fit at once" in said
    said = words(open_page("memory", model="/nowhere/config.json"))
    assert "Fix the settings below first." in said
    assert "model /nowhere/config.json" in said
    said = words(open_page("memory", model="x" * 3000))
    assert f"model {'x' * 80}…: use smollm2-135m" in said
    assert "x" * 81 not in said


def test_a_model_too_large_for_the_card_fits_not_even_once(lab_home: Path) -> None:
    app = open_page("memory", model="llama-3.1-8b", card="rtx3060", dtype="bf16")
    said = words(app)
    assert "Not even one request of p1024 fits" in said
    assert "1 row fails at the weights, asking for 15.0 GiB in one piece with 12.0 GiB free" in said


def test_this_machine_is_a_card_too(lab_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")  # no driver's tool
    machine = host_memory()
    assert machine is not None
    said = words(open_page("memory", card="this", engine="serial", dtype="fp32", model="smollm2-135m"))
    assert "main memory; no NVIDIA GPU found" in said
    assert "Every batch of p1024 fits" in said


def test_an_error_is_under_its_field(lab_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pages.parts.memory.controls.machine_memory", lambda: None)
    captions = [caption.value for caption in open_page("memory", card="this").caption]
    card = captions.index("The memory of this machine is unknown; set a capacity.")
    assert captions[card + 1] == ":red[:material/error: the memory of this machine is unknown; set a capacity]"
    captions = [caption.value for caption in open_page("memory", model="no/such").caption]
    (error,) = (place for place, text in enumerate(captions) if text.startswith(":red"))
    (card,) = (place for place, text in enumerate(captions) if text.startswith("NVIDIA A10"))
    assert error < card


def test_runs_are_shown_with_their_estimates_and_over_their_bars(lab_home: Path) -> None:
    estimate = 4 * (16 + 4) * POSITION + 4000 + 3 * 4 * 16 * 160 * 4 + 4 * 512 * 4
    write_memory_run(lab_home, "four", ((16, 4),) * 4, slots=4, peak_bytes=estimate + 2**20)
    write_memory_run(lab_home, "ragged", ((16, 4), (8, 4)), slots=2, peak_bytes=10**6)
    write_memory_run(lab_home, "card", ((16, 4),), slots=1, peak_bytes=10**5, device="cuda")
    take_in(lab_home)
    app = open_page("memory", model="tiny-random", dtype="fp32", prompt="16", budget="4", card="this", largest="16")
    charts = figures(app)
    assert list(charts) == [BARS, RUNS]
    diamonds = next(t for t in charts[BARS]["data"] if t.get("mode") == "markers")
    assert diamonds["hovertext"] == ["run card", "run four"] or diamonds["hovertext"] == ["run four", "run card"]
    said = words(app)
    row = next(line for line in said.splitlines() if "measured - estimated" in line and "four" in line)
    expected = breakable(f"four static p16 4 {size(estimate)} {size(estimate + 2**20)} 1.00 MiB")
    assert expected in " ".join(row.split())
    assert "On a GPU, the peak of one run was" in said
    assert "On a CPU, the peak of the whole process" in said
    assert "more than the smallest; estimated" in said


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (
            {"engine": "chunked", "budget": "1", "max_num_batched_tokens": "4096"},
            "The KV cache grows with the prompt length, the MLP activation up to 4,096 tokens per step; the weights, ",
        ),
        ({"engine": "chunked"}, "The KV cache grows with the prompt length; the weights, the MLP activation, "),
        ({"logits": "all"}, "The KV cache, the MLP activation and the logits grow with the prompt length; the "),
    ],
)
def test_which_terms_grow_with_the_prompt_length(lab_home: Path, settings: dict[str, str], expected: str) -> None:
    said = words(open_page("memory", capacity_gib="8", **settings))
    assert expected in said


def test_models_that_have_runs_are_offered(lab_home: Path) -> None:
    write_memory_run(lab_home, "one", ((16, 4),))
    take_in(lab_home)
    app = open_page("memory")
    labels = {button.label.replace("\\", ""): button for button in app.button}  # foreign text is escaped
    labels["tiny-random in fp32: 1 run"].click().run()
    assert list(figures(app)) == [BARS, RUNS]


def test_many_runs_stay_one_figure_and_a_short_table(lab_home: Path) -> None:
    for number in range(26):
        write_memory_run(lab_home, f"run{number:02}", ((16, 4),) * (number % 4 + 1), slots=number % 4 + 1)
    take_in(lab_home)
    app = open_page("memory", model="tiny-random", dtype="fp32", prompt="16", budget="4")
    (points,) = [t for t in figures(app)[RUNS]["data"] if t.get("mode") == "markers"]
    assert len(points["hovertext"]) == 26
    assert any(expander.label == "Table of 24 runs" for expander in app.expander)

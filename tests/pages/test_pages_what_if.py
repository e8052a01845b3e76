"""The What-if page, through app.py: the chapter's figures at its conditions, every slider by link, eight answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import streamlit as st

from engine.hardware.hardware_presets import HARDWARE
from engine.hardware.model_presets import PUBLIC_CONFIGS, model_shape
from engine.hardware.what_if import WhatIf, readable_until, reading_tokens_per_s, words_per_s
from pages.parts.shared.lab import lab
from pages.parts.what_if.source import chapter_claims
from tests.support.page_app import figures, open_page, words
from tests.support.runs.roofline_runs import calibrate

pytestmark = pytest.mark.usefixtures("home")


def chapter() -> WhatIf:
    shape, card = model_shape("llama-3.1-8b"), HARDWARE["h100"]
    return WhatIf(
        shape=shape,
        ceilings=card.ceilings(shape),
        sequence_tokens=2300,
        memory_bytes=card.memory_bytes,
        utilization=1.0,
    )


def test_the_defaults_are_the_chapters_conditions() -> None:
    text = words(open_page("what_if"))
    assert "From batch 1 to 128, throughput grows 38.3 times" in text
    assert "Free until about 53.3:" in text
    assert "Memory wall at 212 sequences:" in text
    assert "15 of 16 estimates are within 10 % of the chapter" in text
    table = " ".join(text.split())
    assert "8 18.5 7.70 130 1,040 2.41 bandwidth yes" in table
    assert "step time at batch 8 7.70 ms 7.8 ms -1.32 %" in table
    assert "Reset to the chapter's conditions" not in text
    assert "simulated" in text


def test_each_figure_of_the_chapter_is_estimated_within_12_percent() -> None:
    claims = {claim.label: claim for claim in chapter_claims(chapter())}
    # 16.06 GB + 8 x 2,300 x 131,072 bytes, at 2.40 TB/s
    assert claims["bytes per step at batch 8"].here == pytest.approx(16.06 + 2.412, abs=0.01)
    assert claims["step time at batch 8"].here == pytest.approx(18.472 / 2.40, abs=0.01)
    assert 53 <= claims["free until about"].here <= 60
    assert 186 <= claims["sequences that fit"].here <= 223
    assert all(abs(claim.differs) < 0.12 for claim in claims.values())


def test_every_slider_has_a_link() -> None:
    app = open_page(
        "what_if",
        model="qwen2.5-1.5b",
        card="a10",
        sequence="16000",
        weights="8",
        largest="32",
        memory="90",
        execution="eager",
        reading="300",
    )
    text = words(app)
    assert "From batch 1 to 32" in text
    # eager: 1,123 launches of 18.43 us take as long as 8.694 GB; less 1.544 GB of weights, over 0.4588 GB a request
    assert "Free until about 15.6:** up to there a step only waits for its launches" in text
    assert "a reading speed of 300 words per minute" in text
    assert "16-bit weights:" in text
    # 22.06 GiB x 0.9 = 21.3 GB, less 1.54 GB of weights, over 16,000 x 28,672 bytes
    assert "Memory wall at 43 sequences:" in text
    assert [button.label for button in app.button] == ["Reset to the chapter's conditions"]
    assert "The chapter's figures" not in text


def test_reset_sets_every_slider() -> None:
    app = open_page("what_if", sequence="16000", weights="8")
    app.button[0].click().run()
    assert "Memory wall at 212 sequences:" in words(app)


def test_longer_sequences_end_the_free_range_earlier() -> None:
    # 16.06 GB over 16,000 x 131,072 bytes
    assert "Free until about 7.66:" in words(open_page("what_if", sequence="16000"))


def test_invalid_parameters_are_reported_and_defaults_are_used() -> None:
    text = words(
        open_page("what_if", card="abacus", sequence="7", weights="3", memory="5", reading="fast", q1_batch="-1")
    )
    for name in ("card 'abacus'", "sequence '7'", "weights '3'", "memory '5'", "reading 'fast'", "q1_batch '-1'"):
        assert f"Invalid setting in the link: {name}" in text
    assert "Memory wall at 212 sequences:" in text


def test_an_unknown_model_is_one_line_under_its_field() -> None:
    text = words(open_page("what_if", model="no/such"))
    assert "model no/such: use smollm2-135m" in text
    assert "Fix the settings first." in text
    assert "Eight questions to check yourself" in text


def test_any_config_json_is_a_model(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(PUBLIC_CONFIGS["smollm2-135m"]))
    text = words(open_page("what_if", model=str(tmp_path), card="h200"))
    assert "0.269 GB of weights" in text


def test_batches_that_do_not_fit_are_marked() -> None:
    text = words(open_page("what_if", card="rtx3060"))
    assert "Memory wall:** not even one request fits; it needs 16.4 GB of 12.9 GB." in text
    assert "From batch 1 to 128 (which does not fit in memory), throughput" in text
    some = words(open_page("what_if", largest="1024"))
    assert "From batch 1 to 128 (the largest that fits), throughput" in some


def test_this_machine_can_be_chosen_once_it_is_calibrated(home: Path) -> None:
    assert "engine calibrate" in words(open_page("what_if"))
    assert "Invalid setting in the link: card 'this'" in words(open_page("what_if", card="this"))
    lab().close()
    st.cache_resource.clear()
    calibrate(home, read_bytes_per_s=16.362e9 * 2, matmul_flop_per_s={"bf16": 1e15}, launch_s=1e-6)
    text = words(open_page("what_if", card="this", largest="8"))
    assert "A test's CPU as calibrated. Measured on A test's CPU (cpu) on 2026-11-29 11:00 UTC." in text
    # 16.0605 GB + 2,300 x 131,072 bytes at twice that a second
    assert "1 16.4 500" in " ".join(text.split())


def test_an_error_of_the_gpu_is_under_its_field(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calibrate(home, read_bytes_per_s=1e10, matmul_flop_per_s={"bf16": 1e15}, launch_s=1e-6)
    monkeypatch.setattr("pages.parts.what_if.controls.calibrated_machine", lambda *_: None)
    captions = [caption.value for caption in open_page("what_if", card="this").caption]
    card = captions.index("By the newest calibration of this machine.")
    assert captions[card + 1] == ":red[:material/error: card this\\: this machine is not calibrated; choose another]"


def test_one_batch_size_draws() -> None:
    app = open_page("what_if", largest="8", card="h200")
    drawn = figures(app)["Total and per-request tokens/s by batch size"]
    assert drawn["data"]


def test_reading_speed_against_tokens() -> None:
    assert reading_tokens_per_s(240) == pytest.approx(5.333, abs=0.001)
    assert words_per_s(46) == pytest.approx(34.5)
    case = chapter()
    # at 5.333 tokens/s a step may take 187.5 ms: 450 GB, less 16.06, over 0.30147 a request
    assert readable_until(case, reading_tokens_per_s(240)) == 1439
    assert readable_until(case, 1e6) == 0


def test_the_eight_questions_answer_the_lessons_cases() -> None:
    text = words(open_page("what_if"))
    assert "64.0 FLOP/byte" in text
    assert "On B, 4.00 times as long" in text.replace("*", "")
    assert "uses **36.1 %** of bandwidth" in text
    assert "TTFT is **2.01 s** for all" in text
    assert "**4.64 GiB** in 16 bits" in text
    assert "2,600 of 32,000 slot-steps" in text
    assert "**91.9 % wasted**" in text
    assert "up to **50.0 times** as long" in text
    assert "about **31**, with 1,490 tokens/s" in text
    assert "2.73 µs more for each of 1,123 launches" in text


def test_questions_take_other_numbers_by_link() -> None:
    text = words(
        open_page("what_if", q2_a="80", q2_b="80", q6_budgets="4x8", q7_limit="0.01", q8_quiet="30", q4_group="4")
    )
    assert "On neither" in text
    assert "None: all 4 requests end together, after 8 steps." in text
    assert "No batch of the lesson's sweep has a TTFT within 10.0 ms." in text
    assert "It was not slower" in text
    assert "With 4 prompts per prefill" in text
    assert "use requests x tokens, for example 30x20+2x1000" in words(open_page("what_if", q6_budgets="eos"))


def test_a_small_model_is_free_while_launches_limit_it_and_says_so_once() -> None:
    """SmolLM2 eager on an H100: KV equals the weights at 5.08, but launches limit a step up to 540."""
    text = words(open_page("what_if", model="smollm2-135m", execution="eager"))
    assert "Free until about 540:** up to there a step only waits for its launches" in text
    assert "Free until about 5.08" not in text
    assert "Each doubling of the batch from 1 to 128 adds 100 % to throughput." in text
    assert "it adds 100 %" not in text

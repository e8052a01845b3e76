"""Pass times on a calibrated machine: curves by hand, missing measurements, and real passes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.core.config import RunConfig
from engine.core.errors import FieldError
from engine.core.passes import PassKind
from engine.hardware.calibration import Calibration, MeasuredPass
from engine.hardware.model_presets import model_shape
from engine.hardware.roofline import PassStats, decode_stats
from engine.hardware.step_cost import calibrated_cost, fit_curve
from tests.commands.test_calibrate import SAMPLE
from tests.support.runs.simulated import prefill_stats

CONFIG = RunConfig(engine="static", model="tiny-random", device="cpu")
SHAPE = model_shape("tiny-random", dtype="fp32")


def measured(kind: str, rows: int, width: int, seconds: float, *, masked: bool = False) -> MeasuredPass:
    """A pass of equal rows with `width` positions each; in a prefill, prompts of that length."""
    is_decode = kind == "decode"
    return MeasuredPass(
        kv_layout="padded",
        execution="eager",
        timing="sync",
        kind=kind,
        masked=masked,
        rows=rows,
        tokens=rows if is_decode else rows * width,
        prompt_tokens=0 if is_decode else rows * width,
        width=width,
        computed_positions=rows * width,
        padding_positions=0,
        squared_lengths=0 if is_decode else rows * width**2,
        seconds=seconds,
        samples=1,
    )


# Decode: 10 ms + 1 ms per row + 10 us per position. Prefill: 20 ms + 1 ms per token + 1 us per score.
DECODES = tuple(
    measured("decode", rows, width, 0.010 + 0.001 * rows + 1e-5 * rows * width)
    for rows in (1, 4, 16)
    for width in (10, 100, 1000)
)
PREFILLS = tuple(
    measured("prefill", rows, width, 0.020 + 0.001 * rows * width + 1e-6 * rows * (width * (width + 1)) / 2)
    for rows, width in ((1, 16), (4, 16), (1, 64), (16, 16), (4, 64), (1, 256))
)


def calibration(*passes: MeasuredPass) -> Calibration:
    return replace(SAMPLE, device="cpu", model="tiny-random", dtype="fp32", passes=passes)


def cost_of(*passes: MeasuredPass, engine: str = "static"):  # noqa: ANN201
    return calibrated_cost(calibration(*passes), SHAPE, replace(CONFIG, engine=engine))


def test_a_straight_line_is_recovered() -> None:
    curve = fit_curve([1, 2, 4, 1, 2, 4], [0, 0, 0, 10, 20, 40], [1.0, 2.0, 4.0, 2.0, 4.0, 8.0])
    assert curve.seconds == pytest.approx((1.0, 2.0, 4.0), rel=1e-3)
    assert curve.slope_s == pytest.approx(0.1, rel=1e-3)
    assert curve.at(3, 30) == pytest.approx(6.0, rel=1e-3)  # between two sizes
    assert curve.at(8, 0) == pytest.approx(8.0, rel=1e-3)  # beyond the largest the last slope continues


def test_a_curve_may_fall_only_between_measured_sizes() -> None:
    curve = fit_curve([1, 3, 4], [0, 0, 0], [1.0, 4.0, 2.0])
    assert curve.seconds == pytest.approx((1.0, 4.0, 2.0))
    assert curve.at(2, 0) == pytest.approx(2.5)
    assert curve.at(8, 0) == curve.at(4, 0) == pytest.approx(2.0)


def test_passes_of_one_size_are_averaged_by_relative_error() -> None:
    # With weights 1/s^2: (1/2 + 1/1) / (1/4 + 1).
    assert fit_curve([1, 1], [0, 0], [2.0, 1.0]).seconds == pytest.approx((1.2,))


def test_negative_slopes_become_zero() -> None:
    assert fit_curve([1, 1], [0, 100], [2.0, 1.0]).slope_s == 0.0


def test_measured_sizes_are_met_and_interpolated() -> None:
    cost = cost_of(*DECODES, *PREFILLS)
    assert cost.pass_s(decode_stats(16, 1000)) == pytest.approx(0.010 + 0.016 + 0.16, rel=0.01)
    assert cost.pass_s(decode_stats(8, 500)) == pytest.approx(0.010 + 0.008 + 0.04, rel=0.01)
    # 64 tokens: 20 + 64 ms, and 64 x 65 / 2 = 2,080 scores of 1 us each.
    assert cost.pass_s(prefill_stats(1, 64)) == pytest.approx(0.084 + 0.00208, rel=0.01)
    assert cost.host_s == 0.0


def test_a_masked_decode_costs_a_factor_and_a_share_of_the_padding() -> None:
    # Four rows of width 100, half of the positions are padding: a quarter of it counts, and the total is x 1.5.
    masked = replace(measured("decode", 4, 100, 1.5 * (0.010 + 0.004 + 1e-5 * 400), masked=True), padding_positions=0)
    cost = cost_of(*DECODES, *PREFILLS, masked)
    plain = decode_stats(16, 100)
    assert cost.pass_s(replace(plain, masked=True, own_pairs=1600)) == pytest.approx(1.5 * cost.pass_s(plain), rel=0.01)
    ragged = replace(
        measured("decode", 16, 1000, 0.010 + 0.016 + 1e-5 * (8000 + 2000), masked=True), padding_positions=8000
    )
    cost = cost_of(*DECODES, *PREFILLS, ragged)
    assert cost.padding_read_share == pytest.approx(0.25, abs=0.02)
    assert cost.masked_decode_factor == pytest.approx(1.0, abs=0.02)
    facts = replace(decode_stats(16, 1000), masked=True, own_pairs=8000)
    assert cost.pass_s(facts) == pytest.approx(0.126, rel=0.02)
    assert cost.pass_s(facts.longer()) == pytest.approx(0.126 + 16e-5, rel=0.02)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_padding_scores_count_with_a_share(share: float) -> None:
    # Two rows, 256 and 16 tokens long, padded to 256: 512 tokens. Their triangles hold 32,896 and 136 scores, and
    # 32,760 are beyond the shorter prompt's own.
    own, beyond = 32_896 + 136, 32_896 - 136
    seconds = 0.020 + 0.512 + 1e-6 * (own + share * beyond)
    ragged = replace(
        measured("prefill", 2, 256, seconds, masked=True), prompt_tokens=272, squared_lengths=256**2 + 16**2
    )
    cost = cost_of(*DECODES, *PREFILLS, measured("prefill", 2, 256, 0.020 + 0.512 + 1e-6 * 2 * 32_896), ragged)
    assert cost.padding_score_share == pytest.approx(share, abs=0.05)
    facts = replace(prefill_stats(2, 256), masked=True, attention_pairs=2 * 256**2, own_pairs=own)
    assert cost.pass_s(facts) == pytest.approx(seconds, rel=0.01)


def test_a_mixed_pass_is_a_prefill_plus_the_reads_of_its_decoding_rows() -> None:
    cost = cost_of(*DECODES, *PREFILLS)
    # 2 rows decode at 100 positions each, with a chunk of 14 tokens at the start of its prompt: 105 scores.
    facts = PassStats(
        kind=PassKind.MIXED,
        rows=3,
        decode_rows=2,
        segments=1,
        tokens=16,
        kv_positions=200 + 14,
        attention_pairs=200 + 105,
        width=100,
        masked=False,
        decode_positions=200,
    )
    assert cost.pass_s(facts) == pytest.approx(0.020 + 0.016 + 105e-6 + 200 * 1e-5, rel=0.02)
    seconds = {term.name: term.seconds for term in cost.terms(facts)}
    assert seconds == pytest.approx({"tokens": 0.036, "scores": 105e-6, "kv": 0.002}, rel=0.02)
    assert sum(seconds.values()) == pytest.approx(cost.pass_s(facts), rel=1e-12)


def test_the_terms_of_a_masked_decode_add_up() -> None:
    masked = replace(measured("decode", 4, 100, 1.5 * (0.010 + 0.004 + 1e-5 * 400), masked=True), padding_positions=0)
    cost = cost_of(*DECODES, *PREFILLS, masked)
    for facts in (decode_stats(16, 100), replace(decode_stats(16, 100), masked=True, own_pairs=1600)):
        seconds = [term.seconds for term in cost.terms(facts)]
        assert [term.name for term in cost.terms(facts)] == ["rows", "kv"]
        assert sum(seconds) == pytest.approx(cost.pass_s(facts), rel=1e-12)
    assert seconds == pytest.approx([1.5 * 0.026, 1.5 * 0.016], rel=0.01)


@pytest.mark.parametrize(
    ("passes", "config", "words"),
    [
        (DECODES + PREFILLS, replace(CONFIG, engine="paged"), "--engines paged"),
        (DECODES, CONFIG, "no measured passes of static"),
        ((), CONFIG, "no measured passes of static"),
        (DECODES + PREFILLS, replace(CONFIG, model="smollm2-135m"), "calibrate --model smollm2-135m"),
        (DECODES + PREFILLS, replace(CONFIG, dtype="bf16"), "calibrate --model tiny-random --dtype bf16"),
    ],
)
def test_missing_measurements_are_refused_with_the_command(
    passes: tuple[MeasuredPass, ...], config: RunConfig, words: str
) -> None:
    with pytest.raises(FieldError, match=r"^hardware this: ") as refusal:
        calibrated_cost(calibration(*passes), SHAPE, config)
    assert words in refusal.value.message
    assert (refusal.value.field, refusal.value.subject) == ("card", "hardware this")
    assert not refusal.value.message.startswith("hardware")
    assert "\n" not in str(refusal.value)


def test_rows_next_to_a_long_chunk_read_their_own_positions() -> None:
    from engine.core.presets import make_scheduler
    from engine.core.request import ExactPrompt, Request, RequestSpec
    from engine.hardware.roofline import pass_stats

    def request(number: int, tokens: int, budget: int) -> Request:
        prompt = ExactPrompt(tokens=tokens, passage=0)
        spec = RequestSpec(
            request_id=number, prompt=prompt, budget_tokens=budget, ignore_eos=True, arrival_s=0.0, sampling_seed=0
        )
        return Request(spec=spec, prompt_ids=[0] * tokens)

    config = RunConfig(engine="chunked", slots=2, max_num_batched_tokens=60)
    scheduler = make_scheduler(config, [request(0, 50, 30), request(1, 500, 2)])
    scheduler.submit_arrived(0.0)
    seen = []
    for _ in range(3):
        scheduler.admit(0.0)
        planned = scheduler.plan(PassKind.MIXED)
        assert planned is not None
        seen.append(pass_stats(planned))
        scheduler.complete(planned)
    # First 50 + 10 prompt tokens; then one row reads 51, later 52 positions next to 59 tokens of the long prompt.
    assert [(f.tokens, f.decode_rows, f.decode_positions) for f in seen] == [(60, 0, 0), (60, 1, 51), (60, 1, 52)]
    assert seen[2].attention_pairs - seen[2].decode_positions == sum(range(10 + 59 + 1, 10 + 59 + 59 + 1))


def test_a_newer_unfit_calibration_does_not_hide_a_fitting_one() -> None:
    from engine.simulator.machine import fitting_calibration

    both = calibration(*DECODES, *PREFILLS)
    ceilings_alone = replace(both, passes=(), measured_at="2026-12-01T00:00:00Z")
    of_random_weights = replace(both, model="qwen2.5-1.5b-random")
    assert fitting_calibration(CONFIG, [ceilings_alone, both]) is both
    assert fitting_calibration(replace(CONFIG, model="qwen2.5-1.5b"), [both, of_random_weights]) is of_random_weights
    assert fitting_calibration(replace(CONFIG, engine="paged"), [ceilings_alone, both]) is ceilings_alone

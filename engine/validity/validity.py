"""Every validity badge of the lab, defined once for the store, the pages and the warnings of Compare.

A run earns a badge by passing its check. Limits are conventions: a run that exceeds one has figures that may mislead.
"""

from __future__ import annotations

import numpy as np

from engine.core.format import plural
from engine.validity.check import Check, Evidence, Outcome, Verdict, counts, failed, judged, not_applicable, passed
from engine.validity.load_checks import LOAD_CHECKS
from engine.validity.machine_checks import MACHINE_CHECKS

__all__ = ["CHECKS", "VALIDITY_VERSION", "Check", "Evidence", "Outcome", "Verdict", "judge_run"]

VALIDITY_VERSION = 5  # of checks and findings; the store judges every run again when it changes


def judge_prompts(run: Evidence) -> Verdict:
    requested, got = (counts(run.record.requests, name) for name in ("asked_prompt_tokens", "prompt_tokens"))
    exact = requested >= 0
    if not exact.any():
        return not_applicable("No exact prompt length was requested.")
    off = exact & (requested != got)
    right = int(exact.sum() - off.sum())
    text = f"{right:,} of {int(exact.sum()):,} prompts have exactly the requested length"
    if off.any():
        place = int(np.argmax(off))
        request_id = int(run.record.requests["request_id"][place])
        text += f"; request {request_id} has {got[place]:,} tokens instead of {requested[place]:,}"
    return judged(not off.any(), f"{text}.", right / int(exact.sum()), 1.0)


def judge_preemption(run: Evidence) -> Verdict:
    times = np.maximum(0, counts(run.record.requests, "preemptions"))
    recomputed = int(np.maximum(0, counts(run.record.passes, "recomputed_tokens")).sum())
    if not times.any() and not recomputed:
        return passed("No request was preempted.", 0.0, 0.0)
    text = (
        f"{int((times > 0).sum()):,} of {plural(len(times), 'request')} were preempted, "
        f"{plural(int(times.sum()), 'time')} in total; recomputed: {plural(recomputed, 'token')}."
    )
    return failed(text, float(max(times.sum(), 1)), 0.0)


def judge_watched(run: Evidence) -> Verdict:
    if run.is_simulated:
        return not_applicable("A simulated run uses no machine.")
    if run.watched:
        return failed("A live page shared the machine with this run.")
    return passed("No live page was open during the run.")


def judge_measured(run: Evidence) -> Verdict:
    if run.is_simulated:
        return failed("Step times come from a hardware model on a virtual clock.")
    return passed("Times were measured on a real device.")


def judge_weights(run: Evidence) -> Verdict:
    random = run.part("model").get("random_weights")
    if not isinstance(random, bool):
        return not_applicable("The run log does not record where the weights come from.")
    if random:
        return failed("The weights are random: speed and memory are valid, the text is meaningless.")
    return passed("The weights are trained.")


CHECKS: tuple[Check, ...] = (
    LOAD_CHECKS[0],
    Check(
        name="exact_prompts",
        label="prompt lengths exact",
        fault="prompt lengths off",
        meaning="Prefill time and KV memory depend on the prompt's length. A prompt that is longer or shorter than "
        "requested is a different workload.",
        limit="Every prompt of an exact length has exactly that many tokens.",
        unit="share of the prompts",
        judge=judge_prompts,
    ),
    *MACHINE_CHECKS,
    *LOAD_CHECKS[1:],
    Check(
        name="no_preemption",
        label="KV memory sufficient",
        fault="requests preempted",
        meaning="When KV memory runs out, a running request is preempted and recomputed later. Such a run measures a "
        "pool that is too small as much as the engine.",
        limit="No request is preempted and no token recomputed.",
        unit="preemptions",
        judge=judge_preemption,
    ),
    Check(
        name="unwatched",
        label="live page closed",
        fault="watched live",
        meaning="A live page uses the machine that runs the model; with few cores that costs a few percent.",
        limit="No live page is open during the run.",
        unit="",
        judge=judge_watched,
    ),
    Check(
        name="measured",
        label="measured",
        fault="simulated",
        meaning="A simulated run has the same tables and figures as a measured one, but no model ran.",
        limit="A real model runs on a real device.",
        unit="",
        judge=judge_measured,
    ),
    Check(
        name="real_weights",
        label="real weights",
        fault="random weights",
        meaning="Random weights need as much time and memory as trained ones, but answers end at random places and "
        "have no meaning.",
        limit="The model's weights are trained.",
        unit="",
        judge=judge_weights,
    ),
)


def judge_run(run: Evidence) -> dict[str, Verdict]:
    """The run's verdict in every check, by name, in the order of CHECKS."""
    return {check.name: check.judge(run) for check in CHECKS}

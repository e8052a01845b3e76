"""Every validity badge of the lab, defined once: what the store keeps of a run, the pages show and Compare warns of.

A run earns a badge by a check that it passes. Thresholds are conventions, chosen so that what a run loses a badge for
would change what a reader takes from its figures.
"""

from __future__ import annotations

import numpy as np

from engine.validity.check import Check, Evidence, Outcome, Verdict, counts, failed, judged, not_applicable, passed
from engine.validity.load_checks import LOAD_CHECKS
from engine.validity.machine_checks import MACHINE_CHECKS

__all__ = ["CHECKS", "VALIDITY_VERSION", "Check", "Evidence", "Outcome", "Verdict", "judge_run"]

VALIDITY_VERSION = 4  # of how runs are judged: another number, and every run is judged anew


def judge_prompts(run: Evidence) -> Verdict:
    asked, got = (counts(run.record.requests, name) for name in ("asked_prompt_tokens", "prompt_tokens"))
    exact = asked >= 0
    if not exact.any():
        return not_applicable("No exact prompt length was asked for.")
    off = exact & (asked != got)
    right = int(exact.sum() - off.sum())
    text = f"{right:,} of {int(exact.sum()):,} prompts have exactly the length that was asked for"
    if off.any():
        place = int(np.argmax(off))
        request_id = int(run.record.requests["request_id"][place])
        text += f"; that of request {request_id} has {got[place]:,} tokens instead of {asked[place]:,}"
    return judged(not off.any(), f"{text}.", right / int(exact.sum()), 1.0)


def judge_preemption(run: Evidence) -> Verdict:
    times = np.maximum(0, counts(run.record.requests, "preemptions"))
    recomputed = int(np.maximum(0, counts(run.record.passes, "recomputed_tokens")).sum())
    if not times.any() and not recomputed:
        return passed("No running request lost its KV memory.", 0.0, 0.0)
    text = (
        f"{int((times > 0).sum()):,} of {len(times):,} requests lost their KV memory, {int(times.sum()):,} times in "
        f"all; {recomputed:,} tokens were computed again."
    )
    return failed(text, float(max(times.sum(), 1)), 0.0)


def judge_watched(run: Evidence) -> Verdict:
    if run.is_simulated:
        return not_applicable("A simulated run has no machine to share.")
    if run.watched:
        return failed("A live page shared the machine with this run.")
    return passed("No page followed the run while it was measured.")


def judge_measured(run: Evidence) -> Verdict:
    if run.is_simulated:
        return failed("Its times come from a model of the hardware, on a virtual clock.")
    return passed("Its times were taken on a real device.")


def judge_weights(run: Evidence) -> Verdict:
    random = run.part("model").get("random_weights")
    if not isinstance(random, bool):
        return not_applicable("The run log does not tell where the weights came from.")
    if random:
        return failed("The weights are random numbers: speed and memory mean something, the words do not.")
    return passed("The weights are a trained model's.")


CHECKS: tuple[Check, ...] = (
    LOAD_CHECKS[0],
    Check(
        name="exact_prompts",
        label="prompt lengths exact",
        fault="prompt lengths off",
        meaning="Prefill time and KV memory follow the prompt's length. A prompt that came out a token longer or "
        "shorter than asked makes another load of the same name.",
        limit="Every prompt of a stated length has exactly that many tokens.",
        unit="share of the prompts",
        judge=judge_prompts,
    ),
    *MACHINE_CHECKS,
    *LOAD_CHECKS[1:],
    Check(
        name="no_preemption",
        label="KV memory sufficed",
        fault="requests preempted",
        meaning="When KV memory runs out, a running request loses its own and is computed again later. Such a run "
        "shows a pool that was too small as much as it shows the engine.",
        limit="No request was preempted and no token recomputed.",
        unit="preemptions",
        judge=judge_preemption,
    ),
    Check(
        name="unwatched",
        label="live page closed",
        fault="watched live",
        meaning="A live page draws on the machine that runs the model; on a few cores that costs a few percent.",
        limit="No live page was open while the run was measured.",
        unit="",
        judge=judge_watched,
    ),
    Check(
        name="measured",
        label="measured",
        fault="simulated",
        meaning="A simulated run has the same tables and figures as a measured one, but nothing ran.",
        limit="A real model ran on a real device.",
        unit="",
        judge=judge_measured,
    ),
    Check(
        name="real_weights",
        label="real weights",
        fault="random weights",
        meaning="Random weights cost as much time and memory as trained ones, but they end their answers elsewhere and "
        "say nothing.",
        limit="The model's weights are trained.",
        unit="",
        judge=judge_weights,
    ),
)


def judge_run(run: Evidence) -> dict[str, Verdict]:
    """How the run did in every check, by the check's name, in the order of CHECKS."""
    return {check.name: check.judge(run) for check in CHECKS}

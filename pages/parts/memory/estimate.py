"""Text of a memory estimate: findings, captions, table rows, and the equivalent command. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from engine.core.format import change, count, percent, plural, size
from engine.core.presets import PRESETS
from engine.core.units import GIB
from engine.memory.memory_model import TERM_LABELS, TERMS
from engine.memory.memory_plan import MemoryPoint, Wall, memory_point
from pages.parts.memory.controls import MemorySettings
from pages.parts.shared.markdown import listed
from store.queries.memory_runs import MeasuredRun

TERMS_HEADER = ("batch size", "weights", "KV cache", "MLP activation", "logits", "fp32 copy", "total", "fits")
WALLS_HEADER = ("prompt", "largest batch", "first that fails", "fails at", "asked for in one piece", "free")
RUNS_HEADER = ("run", "engine", "prompts", "rows", "estimated", "measured", "measured - estimated")


def headline(settings: MemorySettings, wall: Wall) -> str:
    """The largest batch that fits."""
    prompts = f"p{settings.prompt_tokens}"
    if wall.largest is None:
        return f"Every batch of {prompts} fits"
    if wall.largest == 0:
        return f"Not even one request of {prompts} fits"
    return f"{plural(wall.largest, 'request')} of {prompts} fit at once"


def finding(settings: MemorySettings, wall: Wall, points: Sequence[MemoryPoint]) -> str:
    """The caption of the figure: the largest batch that fits, the first that does not, and the term that fails."""
    fitting = [point for point in points if point.fits]
    capacity = size(settings.grid.capacity_bytes)
    fits = [f"{count(p.batch_size)} rows need {size(p.need.total_bytes)} of {capacity}" for p in fitting[-1:]]
    failing = wall.first_failing
    if failing is None:
        return f"{fits[0]}; every batch size in the figure fits."
    return "; ".join([*fits, f"{plural(failing.batch_size, 'row')} {failure_sentence(failing)}"]) + "."


def cut_text(sizes: Sequence[int]) -> str:
    """The bars that are cut off at the top of the figure; empty if none are."""
    if not sizes:
        return ""
    bars, are, their = ("bar", "is", "its") if len(sizes) == 1 else ("bars", "are", "their")
    return (
        f"The {bars} of {listed([count(size) for size in sizes])} {are} cut off at the zig-zag; the number on top is "
        f"{their} full height."
    )


def hatched_text(points: Sequence[MemoryPoint]) -> str:
    """What hatching means, and the term at which each hatched bar fails; empty if every bar fits."""
    ends: dict[str, list[str]] = {}
    for point in points:
        if point.shortage is not None:
            ends.setdefault(TERM_LABELS[point.shortage.term], []).append(count(point.batch_size))
    if not ends:
        return ""
    where = "; ".join(f"{listed(sizes)}: {term}" for term, sizes in ends.items())
    return f"Hatched: does not fit, from the term that fails ({where})."


def failure_sentence(point: MemoryPoint) -> str:
    """Where a batch fails: `fail at the KV pool, asking for 3.50 GiB in one piece with 2.00 GiB free`."""
    ended = point.shortage
    assert ended is not None
    pieces = " of three" if ended.term == "mlp_activation" else ""
    fail = "fails" if point.batch_size == 1 else "fail"
    return (
        f"{fail} at the {TERM_LABELS[ended.term]}, asking for {size(ended.asked_bytes)} in one piece{pieces} with "
        f"{size(ended.free_bytes)} free"
    )


def notes(settings: MemorySettings, points: Sequence[MemoryPoint]) -> list[str]:
    """Notes on the figure, a sentence each."""
    shape, last, model = settings.grid.shape, points[-1].need, settings.model
    sentences = []
    if model.experts:
        sentences.append(
            f"A mixture of experts: all {count(model.experts)} experts of a layer are held; the MLP activation counts "
            f"the {count(model.experts_per_token)} that a token uses."
        )
    if PRESETS[shape.engine].has_blocks:
        sentences.append(
            f"The {shape.engine} engine also runs larger batches: with a smaller pool, requests wait or are preempted. "
            "The estimate is how many run at once without either."
        )
    if PRESETS[shape.engine].slots == 1:
        sentences.append(f"The {shape.engine} engine runs one request at a time, so the batch size has no effect.")
    logits = last.logits_bytes + last.logits_fp32_bytes
    copy = " and their fp32 copy" if shape.sampled_in_fp32 else ""
    sentences.append(
        f"At batch size {count(points[-1].batch_size)} the logits{copy} take {size(logits)} in each step, "
        f"the KV cache {size(last.kv_bytes)}."
    )
    if shape.logits_of_all:
        only = shape.rows(points[-1].batch_size) * settings.model.vocab * settings.model.value_bytes
        sentences.append(f"Logits of only the last positions take {size(only)} instead of {size(last.logits_bytes)}.")
    return sentences


def term_rows(points: Sequence[MemoryPoint]) -> list[list[str]]:
    """A row per batch size: every term, and whether it fits or which term fails."""
    rows = []
    for point in points:
        verdict = "yes" if point.shortage is None else f"no: {TERM_LABELS[point.shortage.term]}"
        terms = [size(value) for value in point.need.by_term.values()]
        rows.append([count(point.batch_size), *terms, size(point.need.total_bytes), verdict])
    return rows


def wall_rows(found: Sequence[Wall]) -> list[list[str]]:
    """A row per prompt length: the largest batch, the first that fails, and the term that fails."""
    rows = []
    for wall in found:
        fits = "any" if wall.largest is None else count(wall.largest)
        failing = wall.first_failing
        row = ["none", "", "", ""]
        if failing is not None and failing.shortage is not None:
            ended = failing.shortage
            row = [
                count(failing.batch_size),
                TERM_LABELS[ended.term],
                size(ended.asked_bytes),
                size(ended.free_bytes),
            ]
        rows.append([f"p{wall.prompt_tokens}", fits, *row])
    return rows


def wall_finding(settings: MemorySettings, found: Sequence[Wall]) -> str:
    """Which term limits which prompt lengths, and which terms grow with the prompt. `found` is in order of length."""
    ends: dict[str, list[str]] = {}
    for wall in found:
        if wall.first_failing is not None and wall.first_failing.shortage is not None:
            ends.setdefault(wall.first_failing.shortage.term, []).append(f"p{wall.prompt_tokens}")
    if not ends:
        return "Every prompt length fits at every batch size."
    limits = [f"{listed(prompts)} at the {TERM_LABELS[term]}" for term, prompts in ends.items()]
    sentence = f"Memory runs out for {listed(limits)}."
    return sentence if set(ends) == {"weights"} or len(found) < 2 else f"{sentence} {_growth_text(settings, found)}"


def _growth_text(settings: MemorySettings, found: Sequence[Wall]) -> str:
    """Which terms grow with the prompt length, at the smallest batch that does not fit for some length."""
    rows = min(wall.first_failing.batch_size for wall in found if wall.first_failing is not None)
    needs = [memory_point(settings.model, settings.grid, wall.prompt_tokens, rows).need.by_term for wall in found]
    first, before, last = needs[0], needs[-2], needs[-1]
    growing = [term for term in TERMS if last[term] > before[term]]
    capped = [term for term in TERMS if last[term] == before[term] > first[term]]
    fixed = [term for term in TERMS if last[term] == first[term] > 0]
    growth = [f"{_terms(growing)} {'grow' if len(growing) > 1 else 'grows'} with the prompt length"]
    if capped:
        growth.append(f"{_terms(capped)} up to {plural(settings.grid.shape.max_num_batched_tokens, 'token')} per step")
    sentence = ", ".join(growth)
    return f"{sentence[0].upper()}{sentence[1:]}; {_terms(fixed)} do not."


def _terms(terms: Sequence[str]) -> str:
    return listed([f"the {TERM_LABELS[term]}" for term in terms])


def run_rows(runs: Sequence[MeasuredRun]) -> list[list[str]]:
    """A row per run: the estimate for its requests, its measured peak, and their difference."""
    return [
        [
            run.run_id,
            run.engine,
            prompts_text(run),
            count(run.batch_size),
            size(run.predicted.total_bytes),
            size(run.measured_bytes),
            f"{size(run.measured_bytes - run.predicted.total_bytes)} "
            f"({change(run.measured_bytes / run.predicted.total_bytes - 1)})",
        ]
        for run in runs
    ]


def prompts_text(run: MeasuredRun) -> str:
    """`p16`, or the shortest and longest prompt: `p16 to p4096`."""
    low, high = run.prompt_tokens
    return f"p{low}" if low == high else f"p{low} to p{high}"


def runs_finding(runs: Sequence[MeasuredRun]) -> str:
    """How far peaks differ from estimates, separately for GPUs and CPUs, which measure different peaks."""
    on_gpu, on_cpu = ([run for run in runs if (run.device == "cpu") is is_cpu] for is_cpu in (False, True))
    return " ".join(text(found) for text, found in ((_gpu_text, on_gpu), (_cpu_text, on_cpu)) if found)


def _gpu_text(runs: Sequence[MeasuredRun]) -> str:
    shares = [run.measured_bytes / run.predicted.total_bytes for run in runs]
    if len(shares) == 1:
        return f"On a GPU, the peak of one run was {percent(shares[0])} of its estimate."
    return (
        f"On a GPU, the peak was {percent(median(shares))} of the estimate at the median of "
        f"{plural(len(runs), 'run')} ({percent(min(shares))} to {percent(max(shares))})."
    )


def _cpu_text(runs: Sequence[MeasuredRun]) -> str:
    """All runs, and the difference between the largest and the smallest, which leaves out the process itself."""
    beyond = [size(value) for value in sorted(run.measured_bytes - run.predicted.total_bytes for run in runs)]
    text = f"On a CPU, the peak of the whole process, with Python and torch, was {_range(beyond)} above the estimate."
    small, *_, large = sorted([*runs, *runs[:1]], key=lambda run: run.predicted.total_bytes)
    predicted = large.predicted.total_bytes - small.predicted.total_bytes
    if not predicted:
        return text
    measured = large.measured_bytes - small.measured_bytes
    return f"{text} The largest run took {size(measured)} more than the smallest; estimated {size(predicted)}."


def _range(texts: Sequence[str]) -> str:
    return texts[0] if len(set(texts)) == 1 else f"{texts[0]} to {texts[-1]}"


def command(settings: MemorySettings) -> str:
    """The command that makes the same estimate."""
    grid, shape = settings.grid, settings.grid.shape
    options = [
        f"--model {settings.model.name} --dtype {settings.dtype}",
        f"--capacity-gib {grid.capacity_bytes / GIB:.6g}",
        f"--prompts p{settings.prompt_tokens} --budget {grid.budget_tokens}",
        f"--batch-size {','.join(map(str, grid.batch_sizes))}",
        f"--engine {shape.engine}",
    ]
    if grid.pool_bytes is not None:
        options.append(f"--pool-gib {grid.pool_bytes / GIB:.6g}")
    if settings.model.weight_bits != 8 * settings.model.value_bytes:
        options.append(f"--weight-bits {settings.model.weight_bits}")
    if settings.gpus > 1:
        options.append(f"--tensor-parallel-size {settings.gpus}")
    if PRESETS[shape.engine].has_blocks:
        options.append(f"--block-size {shape.block_size}")
    if PRESETS[shape.engine].is_chunked:
        options.append(f"--max-num-batched-tokens {shape.max_num_batched_tokens}")
    if shape.logits_of_all or not shape.sampled_in_fp32:
        options.append(f"--logits {'all' if shape.logits_of_all else 'last'}")
    return " ".join([".venv/bin/python -m engine memory", *options])

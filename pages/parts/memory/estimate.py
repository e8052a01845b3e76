"""What the Memory page says: the finding of each figure, the rows of its tables, and the command that says the same."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from engine.core.format import change, count, number, percent, plural, size
from engine.core.presets import PRESETS
from engine.core.units import GIB
from engine.memory.memory_model import TERM_LABELS, TERMS
from engine.memory.memory_plan import MemoryPoint, Wall, memory_point
from pages.parts.memory.controls import Asked
from pages.parts.shared.markdown import listed
from store.queries.memory_runs import MeasuredRun

TERMS_HEADER = ("batch size", "weights", "KV cache", "MLP activation", "logits", "fp32 copy", "in all", "fits")
WALLS_HEADER = ("prompt", "fits up to", "first to fail", "by", "asked in one piece", "left for it")
RUNS_HEADER = ("run", "engine", "prompts", "rows", "estimated", "measured", "beyond the estimate")


def headline(asked: Asked, wall: Wall) -> str:
    """How far it goes: the largest batch that fits."""
    prompts = f"p{asked.prompt_tokens}"
    if wall.largest is None:
        return f"Every batch of {prompts} fits"
    if wall.largest == 0:
        return f"Not even one request of {prompts} fits"
    return f"{plural(wall.largest, 'request')} of {prompts} fit at once"


def finding(asked: Asked, wall: Wall, points: Sequence[MemoryPoint]) -> str:
    """The figure's caption: the last batch that fits, the first that does not, and what fails."""
    fitting = [point for point in points if point.fits]
    said = [f"{count(p.batch_size)} at once need {size(p.need.total_bytes)}" for p in fitting[-1:]]
    there = f"of the {size(asked.grid.capacity_bytes)} that there are"
    failing = wall.first_failing
    if failing is None:
        return f"{said[0]} {there}: every batch size drawn here fits."
    if said:
        said = [f"{said[0]} {there}"]
    return "; ".join([*said, f"{count(failing.batch_size)} {failure_sentence(failing)}"]) + "."


def cut_text(sizes: Sequence[int]) -> str:
    """Which bars of the figure are drawn shorter than they are; empty where none is."""
    if not sizes:
        return ""
    bars, go, their = ("bar", "goes", "its") if len(sizes) == 1 else ("bars", "go", "their")
    return (
        f"The {bars} of {listed([count(size) for size in sizes])} {go} on above the picture, where a zig-zag breaks "
        f"{'it' if len(sizes) == 1 else 'them'}: the number on top is {their} whole."
    )


def hatched_text(points: Sequence[MemoryPoint]) -> str:
    """What hatching means, and at which term each hatched bar begins; empty where every bar fits."""
    ends: dict[str, list[str]] = {}
    for point in points:
        if point.shortage is not None:
            ends.setdefault(TERM_LABELS[point.shortage.term], []).append(count(point.batch_size))
    if not ends:
        return ""
    where = "; ".join(f"{listed(sizes)}: {term}" for term, sizes in ends.items())
    return f"Hatched: does not fit; begins with the term that fails ({where})."


def failure_sentence(point: MemoryPoint) -> str:
    """Where a batch ends: `fail at the KV pool: 3.50 GiB are asked for in one piece where 2.00 GiB are left`."""
    ended = point.shortage
    assert ended is not None
    pieces = " of three" if ended.term == "mlp_activation" else ""
    fail = "fails" if point.batch_size == 1 else "fail"
    return (
        f"{fail} at the {TERM_LABELS[ended.term]}: {size(ended.asked_bytes)} are asked for in one piece{pieces} "
        f"where {size(ended.free_bytes)} are left"
    )


def notes(asked: Asked, points: Sequence[MemoryPoint]) -> list[str]:
    """What has to be known beside the picture, each a sentence."""
    shape, last = asked.grid.shape, points[-1].need
    said = []
    if PRESETS[shape.engine].has_blocks:
        said.append(
            f"The {shape.engine} engine does not end there: its pool becomes smaller, and requests wait or are "
            "preempted. What fits is how many run at once without either."
        )
    if shape.engine == "serial":
        said.append("The serial engine runs one request at a time, so that the batch size changes nothing.")
    logits = last.logits_bytes + last.logits_fp32_bytes
    copy = " and their fp32 copy" if shape.sampled_in_fp32 else ""
    said.append(
        f"At {count(points[-1].batch_size)} the logits{copy} take {number(logits / 1e6)} MB of a step "
        f"({size(logits)}), the KV cache {size(last.kv_bytes)}."
    )
    if shape.logits_of_all:
        only = shape.rows(points[-1].batch_size) * asked.model.vocab * asked.model.value_bytes
        said.append(f"Of the last positions alone they would be {size(only)} instead of {size(last.logits_bytes)}.")
    return said


def term_rows(points: Sequence[MemoryPoint]) -> list[list[str]]:
    """A row a batch size: every term, and whether it fits or what fails."""
    rows = []
    for point in points:
        verdict = "yes" if point.shortage is None else f"no: {TERM_LABELS[point.shortage.term]}"
        terms = [size(value) for value in point.need.by_term.values()]
        rows.append([count(point.batch_size), *terms, size(point.need.total_bytes), verdict])
    return rows


def wall_rows(found: Sequence[Wall]) -> list[list[str]]:
    """A row a prompt length: where memory ends, and by which term."""
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


def wall_finding(asked: Asked, found: Sequence[Wall]) -> str:
    """Which term ends which prompts, and which terms a longer prompt makes larger, in two sentences. `found` are in
    order of their lengths."""
    ends: dict[str, list[str]] = {}
    for wall in found:
        if wall.first_failing is not None and wall.first_failing.shortage is not None:
            ends.setdefault(wall.first_failing.shortage.term, []).append(f"p{wall.prompt_tokens}")
    if not ends:
        return "No prompt length here runs out of memory at any batch size of the figure."
    parts = [f"{listed(prompts)} at the {TERM_LABELS[term]}" for term, prompts in ends.items()]
    said = f"Memory ends for {listed(parts)}."
    return said if set(ends) == {"weights"} else f"{said} {_growth_text(asked, found)}"


def _growth_text(asked: Asked, found: Sequence[Wall]) -> str:
    """From the terms themselves, at the smallest batch that does not fit somewhere."""
    rows = min(wall.first_failing.batch_size for wall in found if wall.first_failing is not None)
    needs = [memory_point(asked.model, asked.grid, wall.prompt_tokens, rows).need.by_term for wall in found]
    first, before, last = needs[0], needs[-2], needs[-1]
    growing = [term for term in TERMS if last[term] > before[term]]
    capped = [term for term in TERMS if last[term] == before[term] > first[term]]
    fixed = [term for term in TERMS if last[term] == first[term] > 0]
    parts = [f"{_terms(growing)} {'grow' if len(growing) > 1 else 'grows'} with it"]
    if capped:
        parts.append(f"{_terms(capped)} up to {plural(asked.grid.shape.max_num_batched_tokens, 'token')} a step")
    return f"A longer prompt brings the end nearer: {', '.join(parts)}; {_terms(fixed)} do not."


def _terms(terms: Sequence[str]) -> str:
    return listed([f"the {TERM_LABELS[term]}" for term in terms])


def run_rows(runs: Sequence[MeasuredRun]) -> list[list[str]]:
    """A row a run: the estimate for its own requests beside its measured peak."""
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
    """`p16`, or the shortest and the longest of those that decide: `p16 to p4096`."""
    low, high = run.prompt_tokens
    return f"p{low}" if low == high else f"p{low} to p{high}"


def runs_finding(runs: Sequence[MeasuredRun]) -> str:
    """How far off the estimate is, on GPUs and on CPUs apart, since a peak is another thing on each."""
    on_gpu, on_cpu = ([run for run in runs if (run.device == "cpu") is is_cpu] for is_cpu in (False, True))
    return " ".join([*([_gpu_text(on_gpu)] if on_gpu else []), *([_cpu_text(on_cpu)] if on_cpu else [])])


def _gpu_text(runs: Sequence[MeasuredRun]) -> str:
    shares = [run.measured_bytes / run.predicted.total_bytes for run in runs]
    if len(shares) == 1:
        return f"On a GPU one run held {percent(shares[0])} of its estimate at most."
    return (
        f"On a GPU runs held {percent(median(shares))} of their estimate at most, at the median of "
        f"{plural(len(runs), 'run')} ({percent(min(shares))} to {percent(max(shares))})."
    )


def _cpu_text(runs: Sequence[MeasuredRun]) -> str:
    """All runs, and how much more the largest took than the smallest: without what the process itself takes."""
    beyond = [size(value) for value in sorted(run.measured_bytes - run.predicted.total_bytes for run in runs)]
    said = f"On a CPU the whole process is measured: {_range(beyond)} beyond the estimate, Python and torch among it."
    small, *_, large = sorted([*runs, *runs[:1]], key=lambda run: run.predicted.total_bytes)
    predicted = large.predicted.total_bytes - small.predicted.total_bytes
    if not predicted:
        return said
    measured = large.measured_bytes - small.measured_bytes
    return f"{said} The largest was to take {size(predicted)} more than the smallest, and took {size(measured)} more."


def _range(texts: Sequence[str]) -> str:
    return texts[0] if len(set(texts)) == 1 else f"{texts[0]} to {texts[-1]}"


def command(asked: Asked) -> str:
    """The same question on the command line."""
    grid, shape = asked.grid, asked.grid.shape
    parts = [
        f"--model {asked.model.name} --dtype {asked.dtype}",
        f"--capacity-gib {grid.capacity_bytes / GIB:.6g}",
        f"--prompts p{asked.prompt_tokens} --budget {grid.budget_tokens}",
        f"--batch-size {','.join(map(str, grid.batch_sizes))}",
    ]
    if shape.engine != "static":
        parts.append(f"--engine {shape.engine}")
    if grid.pool_bytes is not None:
        parts.append(f"--pool-gib {grid.pool_bytes / GIB:.6g}")
    if asked.model.weight_bits != 8 * asked.model.value_bytes:
        parts.append(f"--weight-bits {asked.model.weight_bits}")
    if PRESETS[shape.engine].has_blocks:
        parts.append(f"--block-size {shape.block_size}")
    if shape.engine == "chunked":
        parts.append(f"--max-num-batched-tokens {shape.max_num_batched_tokens}")
    if shape.logits_of_all or not shape.sampled_in_fp32:
        parts.append(f"--logits {'all' if shape.logits_of_all else 'last'}")
    return " ".join([".venv/bin/python -m engine memory", *parts])

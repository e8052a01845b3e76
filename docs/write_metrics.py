"""Writes docs/metrics.md from the one definition of each metric in engine/metrics/metrics.py: `make docs`.

A test holds the page to what this writes, so that the two cannot drift apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from engine.metrics.definitions import CHOICES, Choice
from engine.metrics.metric import Metric
from engine.metrics.metrics import RUN_METRICS, SAMPLE_METRICS
from engine.metrics.throughput import COUNT_METRICS, RATE_METRICS, TIME_METRICS
from engine.metrics.waste import KV_METRICS, POSITION_METRICS, PREEMPTION_METRICS, SLOT_STEP_METRICS

PAGE = Path(__file__).with_name("metrics.md")

INTRODUCTION = """# Metrics

Written by `make docs` from `engine/metrics/metrics.py`, where each metric is defined once: the store's views, the pages,
`python -m engine run --json` and the glossary use the same names. Names in formulas are metrics, or columns of the run
log (`engine/runlog/schema.py`).

- Seconds are on the run's clock, which starts after the warm-up. Only axes show milliseconds.
- Latencies count from the *intended* arrival, so waiting in the queue is never left out.
- A token counts when it was *delivered*: after the copy to the host; for a static batch that is returned whole, when
  the batch was handed over. Token times are never interpolated.
- What was not measured is empty (NULL, `null`, NaN) and never 0.
- Percentiles interpolate linearly between samples. Their number of samples stands beside them (`_n`), and below 100
  samples there is no 99th.
- A slot-step is one row in one pass that yields a token, the prefill's included. A position is one column of one row of
  a pass.
- Seconds of padding and of dead rows are an attribution: a pass takes its time as a whole, and each kind of waste is
  charged its share of the positions that the pass computed.
- A mixed pass, which reads pieces of prompts beside rows that decode, is neither a prefill nor a decode pass: it has
  its own count and its own seconds.
"""

COUNTING = """## Other ways to count

The same words mean different sums in different tools. On Run and on Compare, *Latency definitions* switches the definitions of
`engine/metrics/definitions.py`; tiles, figures, tables and the CSV files follow, and the page says how far each figure
moves from the lab's own definitions, which all the tables above are by. The store's SQL
(`store/queries/latency_definitions.py`) is tested equal to `engine/metrics/latency.py`. The choices stand in the address,
so that a link carries them.

- A request that did not finish, counted as infinite, waits for ever for what it did not get: its slot, its first token,
  one more token (a gap that never ended, beside the gaps it has), its end. What it did get keeps its measured value.
- Answers that are returned whole have no gaps, infinite ones neither, and no time per token without the first.
- A percentile that falls on an infinite sample, or between it and another, has no bound: `∞` on the page, `inf` in the
  CSV files, where an empty cell is a value that the run does not have. CSV columns in seconds end in `_s`; `counted_by`
  in each row names the choices that are not the lab's own; `itl_mean_s` is the mean of a request's gaps.
- Of tools is told what their published code or documentation says; versions differ.
"""


def sections() -> dict[str, tuple[Metric, ...]]:
    """Every metric under one heading, in the order of the glossary."""
    named = {
        "Of a request, a gap, a pass": SAMPLE_METRICS,
        "Of a run: counts": COUNT_METRICS,
        "Of a run: rates": RATE_METRICS,
        "Of a run: slot-steps": SLOT_STEP_METRICS,
        "Of a run: positions, and the seconds charged to them": POSITION_METRICS,
        "Of a run: preemptions": PREEMPTION_METRICS,
        "Of a run: times": TIME_METRICS,
        "Of a run: memory held": KV_METRICS,
    }
    placed = {metric.name for metrics in named.values() for metric in metrics}
    latencies = tuple(metric for metric in RUN_METRICS if metric.name not in placed)
    return {**named, "Of a run: percentiles of the latencies, and the worst stall": latencies}


def render() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    for heading, metrics in sections().items():
        parts.append(f"## {heading}\n\n{_table(metrics)}")
    parts.append(COUNTING + "\n" + _choices(CHOICES))
    return "\n".join(parts)


def _choices(choices: Iterable[Choice]) -> str:
    lines = ["| in the address | what | formula | what it means, and who counts so |", "|---|---|---|---|"]
    for choice in choices:
        for option in choice.options:
            own = "**The lab's own.** " if option is choice.options[0] else ""
            told = " ".join((own + option.meaning, *option.used_by))
            cells = (f"`{choice.name}={option.name}`", f"{choice.label}: {option.label}", option.formula, told)
            lines.append(f"| {' | '.join(_cell(cell) for cell in cells)} |")
    return "\n".join(lines) + "\n"


def _table(metrics: Iterable[Metric]) -> str:
    lines = ["| name | unit | formula | what it tells | better |", "|---|---|---|---|---|"]
    lines += [_row(metric) for metric in metrics]
    return "\n".join(lines) + "\n"


def _row(metric: Metric) -> str:
    told = f"**{_cell(metric.label)}.** {_cell(metric.meaning)}"
    return f"| `{metric.name}` | {_cell(metric.unit)} | {_cell(metric.formula)} | {told} | {metric.better or ''} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    PAGE.write_text(render())
    print(f"{PAGE.name}: {sum(len(metrics) for metrics in sections().values())} metrics")

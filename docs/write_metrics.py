"""Writes docs/metrics.md from the metrics defined in engine/metrics/metrics.py (`make docs`).

A test compares the page with what this writes.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from engine.metrics.definitions import CHOICES, DefinitionChoice
from engine.metrics.metric import Metric
from engine.metrics.metrics import RUN_METRICS, SAMPLE_METRICS
from engine.metrics.throughput import COUNT_METRICS, RATE_METRICS, TIME_METRICS
from engine.metrics.waste import KV_METRICS, POSITION_METRICS, PREEMPTION_METRICS, SLOT_STEP_METRICS

PAGE = Path(__file__).with_name("metrics.md")

INTRODUCTION = """# Metrics

Written by `make docs` from `engine/metrics/metrics.py`, where each metric is defined once. The store's views, the
pages, `python -m engine run --json` and the glossary use the same names. Names in formulas are metrics or columns of
the run log (`engine/runlog/schema.py`).

- Seconds are on the run's clock, which starts after the warm-up. Only axes show milliseconds.
- Latencies count from the *intended* arrival, so queueing is always included.
- A token counts when it is *delivered*: after the copy to the host, or in full response mode when its batch ends. Token
  times are never interpolated.
- A missing value is empty (NULL, `null`, NaN), never 0.
- Percentiles interpolate linearly between samples. `_n` is their number of samples; with fewer than 100 there is no
  99th percentile.
- A slot-step is one row in one pass that yields a token, including the prefill's. A position is one column of one row
  of a pass.
- Seconds of padding and of dead rows are attributed: each kind of waste is charged its share of the positions that a
  pass computed.
- A mixed pass (prompt chunks together with decode rows) is neither a prefill nor a decode pass. It has its own count
  and seconds.
"""

COUNTING = """## Other definitions

Tools define the same latency differently. On Run and Compare, *Latency definitions* selects the definitions of
`engine/metrics/definitions.py`. Tiles, figures, tables and CSV files follow, and the page shows how much each figure
changes from the lab's default definitions, which the tables above use. The store's SQL
(`store/queries/latency_definitions.py`) is tested equal to `engine/metrics/latency.py`. The address contains the
choices, so a link keeps them.

- Counted as infinite, an unfinished request waits forever for whatever it did not receive: its slot, its first token,
  its next token (an infinite gap in addition to its measured ones), its end. What it received keeps its measured value.
- Answers returned in full have no gaps, not even infinite ones, and no time per token without the first.
- A percentile that falls on an infinite sample, or between it and another, is infinite: `∞` on the page, `inf` in the
  CSV files, where an empty cell is a missing value. CSV columns in seconds end in `_s`; `counted_by` in each row names
  the choices that differ from the default; `itl_mean_s` is the mean of a request's gaps.
- Statements about tools follow their published code or documentation; versions differ.
"""


def sections() -> dict[str, tuple[Metric, ...]]:
    """Every metric by heading, in the order of the glossary."""
    named = {
        "Per request, gap or pass": SAMPLE_METRICS,
        "Per run: counts": COUNT_METRICS,
        "Per run: rates": RATE_METRICS,
        "Per run: slot-steps": SLOT_STEP_METRICS,
        "Per run: positions and the seconds charged to them": POSITION_METRICS,
        "Per run: preemptions": PREEMPTION_METRICS,
        "Per run: times": TIME_METRICS,
        "Per run: KV memory": KV_METRICS,
    }
    placed = {metric.name for metrics in named.values() for metric in metrics}
    latencies = tuple(metric for metric in RUN_METRICS if metric.name not in placed)
    return {**named, "Per run: percentiles of latencies, worst stall": latencies}


def render() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    for heading, metrics in sections().items():
        parts.append(f"## {heading}\n\n{_table(metrics)}")
    parts.append(COUNTING + "\n" + _choices(CHOICES))
    return "\n".join(parts)


def _choices(choices: Iterable[DefinitionChoice]) -> str:
    lines = ["| in the address | definition | formula | meaning and tools that use it |", "|---|---|---|---|"]
    for choice in choices:
        for option in choice.options:
            default = "**Default.** " if option is choice.options[0] else ""
            text = " ".join((default + option.meaning, *option.used_by))
            cells = (f"`{choice.name}={option.name}`", f"{choice.label}: {option.label}", option.formula, text)
            lines.append(f"| {' | '.join(_cell(cell) for cell in cells)} |")
    return "\n".join(lines) + "\n"


def _table(metrics: Iterable[Metric]) -> str:
    lines = ["| name | unit | formula | meaning | better |", "|---|---|---|---|---|"]
    lines += [_row(metric) for metric in metrics]
    return "\n".join(lines) + "\n"


def _row(metric: Metric) -> str:
    text = f"**{_cell(metric.label)}.** {_cell(metric.meaning)}"
    return f"| `{metric.name}` | {_cell(metric.unit)} | {_cell(metric.formula)} | {text} | {metric.better or ''} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    PAGE.write_text(render())
    print(f"{PAGE.name}: {sum(len(metrics) for metrics in sections().values())} metrics")

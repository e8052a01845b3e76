"""The glossary's entries: every metric, badge, latency definition and term; and the search over them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from engine.metrics.definitions import CHOICES, DefinitionChoice, DefinitionOption
from engine.metrics.glossary import CEILINGS, MACHINE, MEASURING, WORK
from engine.metrics.metric import Metric
from engine.metrics.metrics import METRICS
from engine.metrics.throughput import COUNT_METRICS, RATE_METRICS, TIME_METRICS
from engine.metrics.waste import KV_METRICS, POSITION_METRICS, PREEMPTION_METRICS, SLOT_STEP_METRICS
from engine.validity.check import Check
from engine.validity.validity import CHECKS
from pages.parts.glossary.screen_terms import FIGURES, OPTIONS
from pages.parts.shared.links import WHO_COUNTS_SO

DEFINITION = "latency definition"
ALIASES = {"who counts so": WHO_COUNTS_SO}  # of older links
UNITS = {"s": "seconds", "share": "share, 0 to 1", "bytes": "bytes"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A metric, a badge, a latency definition or a term. `name` is what a link searches for; a term has no unit and no
    formula."""

    name: str
    title: str
    meaning: str
    unit: str = ""
    formula: str = ""
    better: str = ""

    def holds(self, text: str) -> bool:
        """Whether the entry contains every word of a search, in any case."""
        here = " ".join((self.name, self.title, self.meaning, self.unit, self.formula)).casefold()
        return all(word in here for word in text.casefold().split())


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryGroup:
    """Entries under one heading. `is_table`: many of a kind, drawn as one line each."""

    title: str
    entries: tuple[Entry, ...]
    is_table: bool = False

    @property
    def anchor(self) -> str:
        """The anchor of the group's heading, for links: `waste-in-slot-steps`."""
        return re.sub(r"[^a-z]+", "-", self.title.casefold())


def all_groups() -> tuple[EntryGroup, ...]:
    """Every metric, badge, latency definition and term once."""
    named = (
        ("Latency and speed per request", tuple(metric for metric in METRICS if metric.level != "run")),
        ("Throughput", RATE_METRICS),
        ("Counts", COUNT_METRICS),
        ("Waste in slot-steps", SLOT_STEP_METRICS),
        ("Waste in token positions", POSITION_METRICS),
        ("Preemption", PREEMPTION_METRICS),
        ("Time by use", TIME_METRICS),
        ("Memory", KV_METRICS),
    )
    grouped = {metric.name for _, metrics in named for metric in metrics}
    rest = tuple(metric for metric in METRICS if metric.name not in grouped)
    return (
        *(_metrics(title, metrics) for title, metrics in named),
        _metrics("Latencies of a run", rest, is_table=True),
        EntryGroup(title="Badges of validity", entries=tuple(_badge(check) for check in CHECKS)),
        EntryGroup(
            title="Latency definitions", entries=tuple(_option(c, option) for c in CHOICES for option in c.options)
        ),
        *(
            EntryGroup(
                title=title,
                entries=tuple(Entry(name=term.word, title=term.word, meaning=term.meaning) for term in terms),
            )
            for title, terms in (
                ("Terms: requests", WORK),
                ("Terms: engines and memory", MACHINE),
                ("Terms: measuring", MEASURING),
                ("Terms: hardware limits", CEILINGS),
                ("Terms: in figures", FIGURES),
                ("Terms: options of other engines", OPTIONS),
            )
        ),
    )


def search(groups: Sequence[EntryGroup], text: str) -> tuple[EntryGroup, ...]:
    """The entries that match a search. A metric's exact name finds only that metric; a term's group comes first."""
    text = ALIASES.get(text.strip().casefold(), text.strip())
    named = [e for group in groups for e in group.entries if text and e.name.casefold() == text.casefold()]
    metric = [entry for entry in named if entry.formula]
    kept = [
        EntryGroup(
            title=group.title,
            entries=tuple(e for e in group.entries if (e in metric if metric else e.holds(text))),
            is_table=group.is_table and not metric,
        )
        for group in groups
    ]
    found = [group for group in kept if group.entries]
    return tuple(sorted(found, key=lambda group: not any(entry in named for entry in group.entries)))


def _badge(check: Check) -> Entry:
    meaning = f"{check.meaning} {check.limit} A run that lost it: {check.fault}."
    return Entry(name=check.name, title=check.label, meaning=meaning, unit=check.unit)


def _metrics(title: str, metrics: Sequence[Metric], *, is_table: bool = False) -> EntryGroup:
    return EntryGroup(title=title, entries=tuple(_metric(metric) for metric in metrics), is_table=is_table)


def _option(choice: DefinitionChoice, option: DefinitionOption) -> Entry:
    """A latency definition and the tools that use it by default; its name is as in an address."""
    default = "The default. " if option is choice.options[0] else ""
    used_by = " ".join(option.used_by) or "none of the tools checked, by default."
    return Entry(
        name=f"{choice.name}={option.name}",
        title=f"{choice.label}: {option.label}",
        meaning=f"{default}{option.meaning} {WHO_COUNTS_SO}: {used_by}",
        unit=DEFINITION,
        formula=option.formula,
    )


def _metric(metric: Metric) -> Entry:
    return Entry(
        name=metric.name,
        title=metric.label,
        meaning=metric.meaning,
        unit=UNITS.get(metric.unit, metric.unit),
        formula=metric.formula,
        better=f"{metric.better} is better" if metric.better else "",
    )

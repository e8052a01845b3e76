"""The time of a forward pass in seconds, as named terms: by the roofline, or by measured passes.

Roofline: the maximum of three resources. `bandwidth` reads weights and cached keys and values, `compute` does the FLOP,
`launches` is the host that issues the kernels. Under tensor parallelism each GPU reads and computes its share, and the
all-reduces over the `link` add up with the slowest of the three.

Calibrated: curves through the passes that `engine calibrate` measured; all terms add up.

    decode:   seconds = a(rows)   + c x cached positions read
    prefill:  seconds = b(tokens) + d x scores (a query against a position, each prompt's own triangle)

a and b are linear between the measured sizes and extrapolated beyond the largest; c and d are slopes, fitted together
with the curves to minimize relative errors. Padding counts with a share: 1 if padded positions cost as much as others,
0 if a kernel skips them. A masked decode pass also has a constant factor. A mixed pass is a prefill of all its tokens,
plus c for its decoding rows. Each KV layout, execution and timing has its own curves, valid for one model in one dtype
on one device.
"""

from __future__ import annotations

import statistics
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from engine.core.config import RunConfig
from engine.core.errors import FieldError
from engine.core.passes import PassKind
from engine.core.presets import PRESETS
from engine.core.units import dtype_of
from engine.hardware.calibration import Calibration, MeasuredPass
from engine.hardware.roofline import Ceilings, ModelShape, PassStats, causal_pairs, kv_bytes, pass_bytes, pass_flop
from engine.hardware.tensor_parallel import ALL_REDUCES_PER_LAYER, Link, transferred_bytes

Resource = Literal["bandwidth", "compute", "launches"]

THIS_MACHINE = "hardware this"  # of errors about a calibration
GRAPH_LAUNCHES = 1  # a captured pass is one launch
_ROUNDS = 50  # alternating fits of curve and slope; they converge much earlier


class CostModel(Protocol):
    """Seconds of a pass on some machine. `host_s` as in `Ceilings`; 0 if it is part of `pass_s` or unknown."""

    @property
    def host_s(self) -> float: ...

    def pass_s(self, stats: PassStats) -> float: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CostTerm:
    """A named part of a pass's time. Terms of one resource add up; resources work in parallel, except the `link`, which
    the others wait for."""

    name: str
    resource: Resource | Literal["link", "measured"]
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RooflineCost:
    """The time of a pass by the roofline. `launches` is 1 for a captured pass, else the number of eager kernels.

    `ceilings` are those of one of `gpus` GPUs that share the model and are connected by `link`.
    """

    shape: ModelShape
    ceilings: Ceilings
    launches: int
    gpus: int = 1
    link: Link | None = None

    @property
    def host_s(self) -> float:
        return self.ceilings.host_s

    @property
    def issue_s(self) -> float:
        """The host's time to issue one pass."""
        return self.launches * self.ceilings.launch_s

    def by_resource(self, stats: PassStats) -> dict[Resource, float]:
        """Seconds of each resource on one GPU; among equal ones the first is the bound."""
        ceilings = self.ceilings
        read_bytes = pass_bytes(self.shape, stats, masked_kv_reads=ceilings.masked_kv_reads)
        return {
            "launches": self.issue_s,
            "bandwidth": read_bytes / self.gpus / ceilings.read_bytes_per_s,
            "compute": pass_flop(self.shape, stats) / self.gpus / ceilings.flop_per_s,
        }

    @property
    def all_reduces(self) -> int:
        """All-reduces of a pass; 0 on one GPU."""
        return 0 if self.gpus == 1 else ALL_REDUCES_PER_LAYER * self.shape.layers

    def all_reduce_bytes(self, stats: PassStats) -> int:
        """Bytes of one all-reduce: a hidden vector for every token, padding included."""
        return stats.tokens * self.shape.hidden * self.shape.value_bytes

    def all_reduce_s(self, stats: PassStats) -> float:
        """Seconds of all all-reduces of the pass."""
        if self.link is None:
            return 0.0
        return self.all_reduces * self.link.all_reduce_s(self.all_reduce_bytes(stats), self.gpus)

    def pass_s(self, stats: PassStats) -> float:
        return max(self.by_resource(stats).values()) + self.all_reduce_s(stats)

    def bound(self, stats: PassStats) -> Resource:
        """The resource that limits the pass."""
        seconds = self.by_resource(stats)
        return max(seconds, key=seconds.__getitem__)

    def terms(self, stats: PassStats) -> tuple[CostTerm, ...]:
        """All terms: `pass_s` is the largest sum over one resource, plus the terms of the link."""
        ceilings, seconds = self.ceilings, self.by_resource(stats)
        cached_bytes = kv_bytes(self.shape, stats, masked_kv_reads=ceilings.masked_kv_reads)
        read = ("weights", self.shape.weight_bytes_read(stats.tokens)), ("kv", cached_bytes)
        return (
            *(
                CostTerm(name=n, resource="bandwidth", seconds=b / self.gpus / ceilings.read_bytes_per_s)
                for n, b in read
            ),
            CostTerm(name="flop", resource="compute", seconds=seconds["compute"]),
            CostTerm(name="launches", resource="launches", seconds=seconds["launches"]),
            *self._link_terms(stats),
        )

    def _link_terms(self, stats: PassStats) -> tuple[CostTerm, ...]:
        """The latency and the transfer of all all-reduces; none on one GPU."""
        if self.link is None or self.gpus == 1:
            return ()
        transfer_s = transferred_bytes(self.all_reduce_bytes(stats), self.gpus) / self.link.bytes_per_s
        return (
            CostTerm(name="all_reduce_latency", resource="link", seconds=self.all_reduces * self.link.latency_s),
            CostTerm(name="all_reduce_transfer", resource="link", seconds=self.all_reduces * transfer_s),
        )


def roofline_cost(
    shape: ModelShape, ceilings: Ceilings, execution: str, *, gpus: int = 1, link: Link | None = None
) -> RooflineCost:
    """The cost of `eager` or `graph` execution on `gpus` GPUs that share the model over `link`."""
    assert gpus == 1 or link is not None, "several GPUs need a link"
    cost = RooflineCost(shape=shape, ceilings=ceilings, launches=GRAPH_LAUNCHES, gpus=gpus, link=link)
    if execution == "graph":
        return cost
    return replace(cost, launches=ceilings.kernels_per_pass + cost.all_reduces)


@dataclass(frozen=True, slots=True, kw_only=True)
class PassCurve:
    """`seconds[i]` at `sizes[i]` (rows or tokens), linear in between, plus `slope_s` per unit of work."""

    sizes: tuple[int, ...]
    seconds: tuple[float, ...]
    slope_s: float

    def at(self, size: int, work: float) -> float:
        """Seconds of a pass of that size and work.

        Below the smallest measured size the curve is constant; beyond the largest it continues with the last slope,
        or stays constant if that slope is negative.
        """
        sizes, seconds = self.sizes, self.seconds
        i = bisect_right(sizes, size)
        if i == 0 or len(sizes) == 1:
            return seconds[0] + self.slope_s * work
        beyond = i == len(sizes)
        i = min(i, len(sizes) - 1)
        rise_s = (seconds[i] - seconds[i - 1]) / (sizes[i] - sizes[i - 1])
        if beyond:
            return seconds[i] + max(0.0, rise_s) * (size - sizes[i]) + self.slope_s * work
        return seconds[i - 1] + rise_s * (size - sizes[i - 1]) + self.slope_s * work


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibratedCost:
    """The time of a pass by the curves of one KV layout, execution and timing, with the loop's own work included."""

    decode: PassCurve
    prefill: PassCurve
    masked_decode_factor: float = 1.0
    padding_read_share: float = 1.0
    padding_score_share: float = 1.0

    @property
    def host_s(self) -> float:
        """0: each pass was measured from the end of the previous one."""
        return 0.0

    def pass_s(self, stats: PassStats) -> float:
        if stats.kind is PassKind.DECODE:
            seconds = self.decode.at(stats.rows, self._positions_read(stats))
            return seconds if stats.own_pairs is None else self.masked_decode_factor * seconds
        return self.prefill.at(stats.tokens, self._scores(stats)) + self.decode.slope_s * stats.decode_positions

    def terms(self, stats: PassStats) -> tuple[CostTerm, ...]:
        """The part of the curve and the part of each slope; `pass_s` is their sum."""
        if stats.kind is PassKind.DECODE:
            factor = 1.0 if stats.own_pairs is None else self.masked_decode_factor
            kv_s = self.decode.slope_s * self._positions_read(stats)
            seconds = {"rows": factor * self.decode.at(stats.rows, 0), "kv": factor * kv_s}
        else:
            seconds = {
                "tokens": self.prefill.at(stats.tokens, 0),
                "scores": self.prefill.slope_s * self._scores(stats),
                "kv": self.decode.slope_s * stats.decode_positions,
            }
        return tuple(CostTerm(name=name, resource="measured", seconds=value) for name, value in seconds.items())

    def _positions_read(self, stats: PassStats) -> float:
        """Positions a decode pass reads; padding counts with its share."""
        if stats.own_pairs is None:
            return stats.kv_positions
        return stats.own_pairs + self.padding_read_share * (stats.kv_positions - stats.own_pairs)

    def _scores(self, stats: PassStats) -> float:
        """Scores of a prefill; padding counts with its share. Those of a mixed pass's decoding rows are left out."""
        if stats.own_pairs is None:
            return stats.attention_pairs - stats.decode_positions
        return stats.own_pairs + self.padding_score_share * _beyond(stats.rows, stats.width, stats.own_pairs)


def calibrated_cost(calibration: Calibration, shape: ModelShape, config: RunConfig) -> CalibratedCost:
    """The cost model of `config`'s engine on the calibrated machine. ValueError names the missing calibration."""
    if not _is_of_model(calibration, config):
        raise FieldError(
            "card",
            f"calibrated with {calibration.model} in {calibration.dtype}, not with {config.model} in "
            f"{_dtype(calibration, config)}; run `{_command(config)}`",
            THIS_MACHINE,
        )
    mine = _passes_for(calibration, config)
    if not _are_enough(mine):
        engine = PRESETS[config.engine].calibrate_with
        raise FieldError(
            "card",
            f"no measured passes of {config.engine} with {config.execution} execution and {config.timing} timing; run "
            f"`{_command(config)} --engines {engine}`",
            THIS_MACHINE,
        )
    decodes = [p for p in mine if p.kind == "decode"]
    prefills = [p for p in mine if p.kind == "prefill"]
    decode = _curve([p for p in decodes if not p.masked] or decodes)
    prefill = _curve([p for p in prefills if not p.masked] or prefills)
    read_share = _padding_share(decode, [p for p in decodes if p.masked])
    return CalibratedCost(
        decode=decode,
        prefill=prefill,
        masked_decode_factor=_masked_factor(decode, read_share, [p for p in decodes if p.masked]),
        padding_read_share=read_share,
        padding_score_share=_padding_share(prefill, [p for p in prefills if p.masked]),
    )


def is_measured(calibration: Calibration, config: RunConfig) -> bool:
    """Whether the calibration has the passes that `calibrated_cost` needs for that configuration."""
    return _is_of_model(calibration, config) and _are_enough(_passes_for(calibration, config))


def _passes_for(calibration: Calibration, config: RunConfig) -> list[MeasuredPass]:
    """The passes of the engine's layout, execution and timing; on a CPU both timings are the same."""
    wanted = PRESETS[config.engine].kv_layout, config.execution
    any_timing = calibration.device == "cpu"
    return [
        p
        for p in calibration.passes
        if (p.kv_layout, p.execution) == wanted and (any_timing or p.timing == config.timing)
    ]


def _are_enough(passes: Sequence[MeasuredPass]) -> bool:
    return {"decode", "prefill"} <= {p.kind for p in passes}


def fit_curve(sizes: Sequence[int], work: Sequence[float], seconds: Sequence[float]) -> PassCurve:
    """The curve over `sizes` and the slope over `work` that fit `seconds` with the least squared relative error.

    Curve and slope are fitted in turn. The curve may fall: on a CPU with kernels for four rows, three rows take longer
    than four.
    """
    assert len(sizes) == len(work) == len(seconds) > 0
    weights = [1 / s**2 for s in seconds]
    slope_s = 0.0
    knots: tuple[int, ...] = tuple(sorted(set(sizes)))
    curve = PassCurve(sizes=knots, seconds=(0.0,) * len(knots), slope_s=0.0)
    for _ in range(_ROUNDS):
        rest = [s - slope_s * w for s, w in zip(seconds, work, strict=True)]
        curve = PassCurve(sizes=knots, seconds=_means(knots, sizes, rest, weights), slope_s=0.0)
        left = [s - curve.at(n, 0) for s, n in zip(seconds, sizes, strict=True)]
        squares = sum(q * w * w for q, w in zip(weights, work, strict=True))
        product = sum(q * w * r for q, w, r in zip(weights, work, left, strict=True))
        slope_s = max(0.0, product / squares) if squares else 0.0
    return PassCurve(sizes=curve.sizes, seconds=curve.seconds, slope_s=slope_s)


def _means(
    knots: Sequence[int], sizes: Sequence[int], values: Sequence[float], weights: Sequence[float]
) -> tuple[float, ...]:
    """The weighted mean of the values at each knot, none below zero."""
    means = []
    for knot in knots:
        mine = [(w, v) for size, v, w in zip(sizes, values, weights, strict=True) if size == knot]
        means.append(max(0.0, sum(w * v for w, v in mine) / sum(w for w, _ in mine)))
    return tuple(means)


def _curve(passes: Sequence[MeasuredPass]) -> PassCurve:
    return fit_curve([_size(p) for p in passes], [_work(p) for p in passes], [p.seconds for p in passes])


def _size(measured: MeasuredPass) -> int:
    return measured.rows if measured.kind == "decode" else measured.tokens


def _work(measured: MeasuredPass) -> int:
    """Positions that a decode pass reads, or scores of a prefill, without padding."""
    if measured.kind == "decode":
        return measured.computed_positions - measured.padding_positions
    return (measured.squared_lengths + measured.prompt_tokens) // 2


def _padding_work(measured: MeasuredPass) -> int:
    """The additional positions or scores when each row is as long as the longest."""
    if measured.kind == "decode":
        return measured.padding_positions
    return _beyond(measured.rows, measured.width, _work(measured))


def _beyond(rows: int, width: int, own_pairs: int) -> int:
    """The scores of a padded prefill beyond its prompts' own."""
    return rows * causal_pairs(width) - own_pairs


def _padding_share(curve: PassCurve, masked: Sequence[MeasuredPass]) -> float:
    """The share (0 to 1) that fits the masked passes with the least squared relative error; 1 without any."""
    squares = product = 0.0
    for p in masked:
        whole_s = curve.slope_s * _padding_work(p)
        left_s = p.seconds - curve.at(_size(p), _work(p))
        squares += (whole_s / p.seconds) ** 2
        product += whole_s * left_s / p.seconds**2
    return min(1.0, max(0.0, product / squares)) if squares else 1.0


def _masked_factor(decode: PassCurve, read_share: float, masked: Sequence[MeasuredPass]) -> float:
    """The median ratio of masked decode passes to the curve with that share; 1 without any."""
    ratios = [p.seconds / decode.at(_size(p), _work(p) + read_share * _padding_work(p)) for p in masked]
    return statistics.median(ratios) if ratios else 1.0


def _is_of_model(calibration: Calibration, config: RunConfig) -> bool:
    """Whether model and dtype match; random weights of the same shape count as the same model."""
    names = {name.removesuffix("-random") for name in (calibration.model, config.model)}
    return len(names) == 1 and calibration.dtype == _dtype(calibration, config)


def _dtype(calibration: Calibration, config: RunConfig) -> str:
    return dtype_of(config.dtype, calibration.device.partition(":")[0])


def _command(config: RunConfig) -> str:
    extra = "" if config.dtype == "auto" else f" --dtype {config.dtype}"
    extra += "" if config.execution == "eager" else f" --execution {config.execution}"
    extra += "" if config.timing == "sync" else f" --timing {config.timing}"
    return f"python -m engine calibrate --model {config.model}{extra}"

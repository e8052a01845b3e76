"""What a forward pass costs in seconds, as named terms: by the roofline, or by the passes that were measured.

Roofline: the largest of three resources, nothing added up between them. `bandwidth` reads weights and cached keys and
values, `compute` does the FLOP, `launches` is the host that issues the kernels.

Calibrated: curves through the passes that `engine calibrate` measured; all terms add up.

    decode:   seconds = a(rows)   + c x cached positions read
    prefill:  seconds = b(tokens) + d x scores (a query against a position, each prompt's own triangle)

a and b are straight between the measured sizes and go on beyond the largest; c and d are slopes, fitted to the relative
errors together with the curves. Of padding's positions and scores a share counts: 1 where they cost what others cost, 0
where a kernel leaves them out. Beside that a decode pass that needs a mask costs a factor more or less, the same for
all sizes. A mixed pass is a prefill of all its tokens, with c for the rows that decode. Each KV layout, execution and
timing has its own. It knows nothing that was not measured: one model in one dtype on one device.
"""

from __future__ import annotations

import statistics
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from engine.core.config import RunConfig
from engine.core.passes import PassKind
from engine.core.presets import PRESETS
from engine.core.units import dtype_of
from engine.hardware.hardware import Calibration, MeasuredPass
from engine.hardware.roofline import Ceilings, ModelShape, PassStats, causal_pairs, kv_bytes, pass_bytes, pass_flop

Resource = Literal["bandwidth", "compute", "launches"]

GRAPH_LAUNCHES = 1  # a captured pass is one launch, however many kernels it holds
_ROUNDS = 50  # of fitting the curve and the slope in turn: they have settled long before


class CostModel(Protocol):
    """Seconds of a pass on some machine. `host_s` as in `Ceilings`; 0 where it is part of `pass_s` or unknown."""

    @property
    def host_s(self) -> float: ...

    def pass_s(self, facts: PassStats) -> float: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CostTerm:
    """A named part of a pass's seconds. Terms of one resource add up; resources work at the same time."""

    name: str
    resource: Resource | Literal["measured"]
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RooflineCost:
    """Seconds of a pass of `shape` under `ceilings`. `launches` is 1 for a captured pass, else the eager kernels."""

    shape: ModelShape
    ceilings: Ceilings
    launches: int

    @property
    def host_s(self) -> float:
        return self.ceilings.host_s

    @property
    def issue_s(self) -> float:
        """The host's time to issue one pass."""
        return self.launches * self.ceilings.launch_s

    def by_resource(self, facts: PassStats) -> dict[Resource, float]:
        """Seconds of each resource, the one that hides the others' equal seconds first."""
        ceilings = self.ceilings
        read_bytes = pass_bytes(self.shape, facts, masked_kv_reads=ceilings.masked_kv_reads)
        return {
            "launches": self.issue_s,
            "bandwidth": read_bytes / ceilings.read_bytes_per_s,
            "compute": pass_flop(self.shape, facts) / ceilings.flop_per_s,
        }

    def pass_s(self, facts: PassStats) -> float:
        return max(self.by_resource(facts).values())

    def bound(self, facts: PassStats) -> Resource:
        """The resource that the pass waits for."""
        seconds = self.by_resource(facts)
        return max(seconds, key=seconds.__getitem__)

    def terms(self, facts: PassStats) -> tuple[CostTerm, ...]:
        """What each resource does: `pass_s` is the largest sum of one resource's terms."""
        ceilings, seconds = self.ceilings, self.by_resource(facts)
        cached_bytes = kv_bytes(self.shape, facts, masked_kv_reads=ceilings.masked_kv_reads)
        read = ("weights", self.shape.weight_bytes), ("kv", cached_bytes)
        return (
            *(CostTerm(name=n, resource="bandwidth", seconds=b / ceilings.read_bytes_per_s) for n, b in read),
            CostTerm(name="flop", resource="compute", seconds=seconds["compute"]),
            CostTerm(name="launches", resource="launches", seconds=seconds["launches"]),
        )


def roofline_cost(shape: ModelShape, ceilings: Ceilings, execution: str) -> RooflineCost:
    """The cost of `eager` or `graph` execution."""
    launches = GRAPH_LAUNCHES if execution == "graph" else ceilings.kernels_per_pass
    return RooflineCost(shape=shape, ceilings=ceilings, launches=launches)


@dataclass(frozen=True, slots=True, kw_only=True)
class PassCurve:
    """`seconds[i]` at `sizes[i]` (rows, or tokens), straight between them, plus `slope_s` for each unit of work."""

    sizes: tuple[int, ...]
    seconds: tuple[float, ...]
    slope_s: float

    def at(self, size: int, work: float) -> float:
        """Seconds of a pass of that size and work. Below the smallest size measured it is that one's.

        Beyond the largest it rises as it did before, or stays.
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
    """Seconds of a pass from the curves of one KV layout, execution and timing. The loop's own work is in them."""

    decode: PassCurve
    prefill: PassCurve
    masked_decode_factor: float = 1.0
    padding_read_share: float = 1.0
    padding_score_share: float = 1.0

    @property
    def host_s(self) -> float:
        """Nothing beside the passes: each was measured from the end of the one before."""
        return 0.0

    def pass_s(self, facts: PassStats) -> float:
        if facts.kind is PassKind.DECODE:
            seconds = self.decode.at(facts.rows, self._positions_read(facts))
            return seconds if facts.own_pairs is None else self.masked_decode_factor * seconds
        return self.prefill.at(facts.tokens, self._scores(facts)) + self.decode.slope_s * facts.decode_positions

    def terms(self, facts: PassStats) -> tuple[CostTerm, ...]:
        """The size's part on the curve, and each slope's: `pass_s` is their sum."""
        if facts.kind is PassKind.DECODE:
            factor = 1.0 if facts.own_pairs is None else self.masked_decode_factor
            kv_s = self.decode.slope_s * self._positions_read(facts)
            seconds = {"rows": factor * self.decode.at(facts.rows, 0), "kv": factor * kv_s}
        else:
            seconds = {
                "tokens": self.prefill.at(facts.tokens, 0),
                "scores": self.prefill.slope_s * self._scores(facts),
                "kv": self.decode.slope_s * facts.decode_positions,
            }
        return tuple(CostTerm(name=name, resource="measured", seconds=value) for name, value in seconds.items())

    def _positions_read(self, facts: PassStats) -> float:
        """Of a decode pass, padding's by its share."""
        if facts.own_pairs is None:
            return facts.kv_positions
        return facts.own_pairs + self.padding_read_share * (facts.kv_positions - facts.own_pairs)

    def _scores(self, facts: PassStats) -> float:
        """Of a prefill, padding's by their share. A mixed pass's decoding rows score each position they read, once."""
        if facts.own_pairs is None:
            return facts.attention_pairs - facts.decode_positions
        return facts.own_pairs + self.padding_score_share * _beyond(facts.rows, facts.width, facts.own_pairs)


def calibrated_cost(calibration: Calibration, shape: ModelShape, config: RunConfig) -> CalibratedCost:
    """The cost model of `config`'s engine on the calibrated machine. ValueError says what has to be measured first."""
    if not _is_of_model(calibration, config):
        raise ValueError(
            f"hardware this: it was calibrated with {calibration.model} in {calibration.dtype}, not with "
            f"{config.model} in {_dtype(calibration, config)}; run `{_command(config)}`"
        )
    mine = _passes_for(calibration, config)
    if not _are_enough(mine):
        layout = PRESETS[config.engine].kv_layout
        engine = next(name for name, preset in PRESETS.items() if preset.kv_layout == layout and name != "serial")
        raise ValueError(
            f"hardware this: no passes of {config.engine} in {config.execution} execution, {config.timing} timing, "
            f"were measured; run `{_command(config)} --engines {engine}`"
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
    """Whether the calibration has what `calibrated_cost` of that configuration needs."""
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

    Both are least-squares fits by themselves, taken in turn. The curve may fall: products of three rows take longer
    than those of four on a CPU whose kernels work by fours.
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
    """Positions that a decode pass reads, scores of a prefill; padding's are left out: each row's and prompt's own."""
    if measured.kind == "decode":
        return measured.computed_positions - measured.padding_positions
    return (measured.squared_lengths + measured.prompt_tokens) // 2


def _paddings_work(measured: MeasuredPass) -> int:
    """What there is beyond that where each row is as long as the longest."""
    if measured.kind == "decode":
        return measured.padding_positions
    return _beyond(measured.rows, measured.width, _work(measured))


def _beyond(rows: int, width: int, own_pairs: int) -> int:
    """The scores of a padded prefill whose rows all are as long as the longest, beyond its prompts' own."""
    return rows * causal_pairs(width) - own_pairs


def _padding_share(curve: PassCurve, masked: Sequence[MeasuredPass]) -> float:
    """The share, from 0 to 1, that fits the masked passes with the least squared relative error; 1 without any."""
    squares = product = 0.0
    for p in masked:
        whole_s = curve.slope_s * _paddings_work(p)
        left_s = p.seconds - curve.at(_size(p), _work(p))
        squares += (whole_s / p.seconds) ** 2
        product += whole_s * left_s / p.seconds**2
    return min(1.0, max(0.0, product / squares)) if squares else 1.0


def _masked_factor(decode: PassCurve, read_share: float, masked: Sequence[MeasuredPass]) -> float:
    """How much longer masked decode passes take than the curve says with that share; 1 without any."""
    ratios = [p.seconds / decode.at(_size(p), _work(p) + read_share * _paddings_work(p)) for p in masked]
    return statistics.median(ratios) if ratios else 1.0


def _is_of_model(calibration: Calibration, config: RunConfig) -> bool:
    """Random weights in a model's shape take the same time as its own."""
    names = {name.removesuffix("-random") for name in (calibration.model, config.model)}
    return len(names) == 1 and calibration.dtype == _dtype(calibration, config)


def _dtype(calibration: Calibration, config: RunConfig) -> str:
    return dtype_of(config.dtype, calibration.device.partition(":")[0])


def _command(config: RunConfig) -> str:
    extra = "" if config.dtype == "auto" else f" --dtype {config.dtype}"
    extra += "" if config.execution == "eager" else f" --execution {config.execution}"
    extra += "" if config.timing == "sync" else f" --timing {config.timing}"
    return f"python -m engine calibrate --model {config.model}{extra}"

"""The roofline of a forward pass: bytes read, FLOP, and the machine's ceilings for both.

    seconds of a pass >= bytes / read rate, FLOP / FLOP rate, kernels x launch time      (Williams et al., 2009)

A multiply-add counts 2 FLOP; each weight and each cached position counts once in bytes. Of a mixture's E experts a pass
over T tokens reads E x (1 - (1 - k/E)^T) in each layer: routing is assumed to be uniform. Not counted: activations,
logits, written keys and values (a token's own position counts as read), norms and softmax. An untied embedding table
counts as read although a pass looks up only a few rows; it adds no FLOP.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from engine.core.errors import FieldError
from engine.core.option import Choices, Option
from engine.core.passes import PassKind, PlannedPass
from engine.core.units import DTYPE_BYTES, short_dtype
from engine.memory.memory_model import ModelDimensions

KERNELS_PER_LAYER = 40  # of an eager decode pass: 1,123 kernels were counted for the 28 layers of Qwen2.5-1.5B
KERNELS_BESIDE = 3  # embedding, final norm, logits
WEIGHT_BITS = (8, 16, 32)
SHAPE_NUMBERS = ("parameters", "layers", "hidden", "heads", "kv_heads", "head_dim", "intermediate", "vocab")
EXPERT_NUMBERS = ("experts", "experts_per_token", "expert_parameters")
WEIGHT_WIDTH = Option(
    default=None,
    label="Bits per weight",
    help="bits per weight (default: those of the dtype)",
    flags=("--weight-bits",),
    parameter="weights",
    takes=Choices(WEIGHT_BITS),
    group="machine",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape(ModelDimensions):
    """A decoder as numbers. `parameters` counts a tied embedding once; `max_positions` is None if unknown.

    `value_bytes` is the width of a cached value and of an activation, `weight_bits` the width of a weight. `window` is
    the attention window of some layers, None without one. A mixture has `experts` experts in a layer, of which a token
    uses `experts_per_token`; `expert_parameters` counts one of them in all layers. A dense model has 0 of each.
    """

    name: str
    hidden: int
    heads: int
    tied_embeddings: bool
    max_positions: int | None = None
    weight_bits: int = 16
    window: int | None = None
    experts: int = 0
    experts_per_token: int = 0
    expert_parameters: int = 0

    def __post_init__(self) -> None:
        WEIGHT_WIDTH.check(self.weight_bits)

    @property
    def weight_bytes(self) -> int:
        return self.parameters * self.weight_bits // 8

    @property
    def embedding_parameters(self) -> int:
        """Parameters of one embedding table, or of the output projection."""
        return self.vocab * self.hidden

    @property
    def body_parameters(self) -> int:
        """Parameters of the layers that a token is multiplied with; without embedding and output projection."""
        unused = (self.experts - self.experts_per_token) * self.expert_parameters
        return self.parameters - unused - self.embedding_parameters * (1 if self.tied_embeddings else 2)

    def experts_hit(self, tokens: float) -> float:
        """The experts of a layer that a pass over `tokens` tokens is expected to use, if each is equally likely."""
        if not self.experts:
            return 0.0
        missed = math.pow(1 - self.experts_per_token / self.experts, tokens)
        return self.experts * (1 - missed)

    def weight_bytes_read(self, tokens: float) -> float:
        """Bytes of weights that a pass over `tokens` tokens reads: all, but of the experts only those hit."""
        if not self.experts:
            return self.weight_bytes
        missed = self.experts - self.experts_hit(tokens)
        return self.weight_bytes - missed * self.expert_parameters * self.weight_bits / 8

    @property
    def attention_flop_per_pair(self) -> int:
        """FLOP of one query against one cached position in all layers: score and weighted sum, over the query heads."""
        return 4 * self.attention_layers * self.heads * self.head_dim

    @property
    def kernels_per_pass(self) -> int:
        """Estimated kernels of an eager decode pass."""
        return KERNELS_PER_LAYER * self.layers + KERNELS_BESIDE

    def with_weight_bits(self, bits: int) -> Self:
        """The same model with another weight width; cached values keep theirs."""
        return replace(self, weight_bits=bits)


def require_window(shape: ModelShape, tokens: int, field: str) -> None:
    """FieldError about `field` if sequences of `tokens` tokens are longer than the model's attention window."""
    if shape.window is not None and tokens > shape.window:
        raise FieldError(
            field,
            f"model {shape.name} attends over a window of {shape.window:,} positions, and a sequence has {tokens:,}; "
            "estimates count whole sequences: use at most the window",
        )


def shape_of_run(model: Mapping[str, Any]) -> ModelShape:
    """The shape of a run's model, from the `model` entry of its run.json. ValueError if a number is missing."""
    missing = [name for name in SHAPE_NUMBERS if not isinstance(model.get(name), int) or model[name] < 1]
    value_bytes = DTYPE_BYTES.get(short_dtype(str(model.get("dtype"))))
    if missing or value_bytes is None:
        lacking = ", ".join(missing) or "dtype"
        raise ValueError(f"run.json lacks the model's {lacking}, so bytes and FLOP cannot be counted")
    numbers = {name: int(model[name]) for name in SHAPE_NUMBERS}
    return ModelShape(
        **numbers,
        name=str(model.get("name")),
        value_bytes=value_bytes,
        weight_bits=_weight_bits(model, value_bytes),
        tied_embeddings=_tied(model, numbers),
        **{name: int(model.get(name) or 0) for name in EXPERT_NUMBERS},
        kv_layers=_kv_layers(model, numbers, value_bytes),
        max_positions=model.get("max_positions"),
    )


def _tied(model: Mapping[str, Any], numbers: Mapping[str, int]) -> bool:
    """As recorded; runs of earlier versions recorded no tie, but their parameters tell."""
    recorded = model.get("tied_embeddings")
    return recorded if isinstance(recorded, bool) else _is_tied(**numbers)


def _kv_layers(model: Mapping[str, Any], numbers: Mapping[str, int], value_bytes: int) -> int | None:
    """The layers with a KV cache, by the recorded bytes of a position; None if all have one, or it is not recorded."""
    position_bytes = model.get("kv_position_bytes")
    layer_bytes = 2 * numbers["kv_heads"] * numbers["head_dim"] * value_bytes
    if not isinstance(position_bytes, int) or position_bytes % layer_bytes or position_bytes < layer_bytes:
        return None
    layers = position_bytes // layer_bytes
    return layers if layers < numbers["layers"] else None


def _weight_bits(model: Mapping[str, Any], value_bytes: int) -> int:
    """The recorded weight bits (of a simulated run with narrower weights), else the dtype's width."""
    bits = model.get("weight_bits")
    return bits if isinstance(bits, int) and not isinstance(bits, bool) else 8 * value_bytes


def _is_tied(
    *,
    parameters: int,
    layers: int,
    hidden: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    intermediate: int,
    vocab: int,
) -> bool:
    """Whether embedding and output projection share a table: one table, not two, beyond the layers' parameters."""
    layer = hidden * (2 * heads + 2 * kv_heads) * head_dim + 3 * hidden * intermediate
    return parameters - layers * layer < 1.5 * vocab * hidden


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceilings:
    """A machine's limits for one model, measured or assumed: bytes/s, FLOP/s, seconds per launch.

    `masked_kv_reads` is how often each cached position crosses memory in a masked pass: 1 for kernels that read it
    once, more if keys and values are first copied for each query head. `host_s` is the host's work between two passes:
    sync timing adds it, running ahead hides it.
    """

    read_bytes_per_s: float
    flop_per_s: float
    launch_s: float
    kernels_per_pass: int
    masked_kv_reads: float = 1.0
    host_s: float = 0.0

    def times(self, factor: float) -> Self:
        """The rates of so many machines that read and compute together."""
        return replace(self, read_bytes_per_s=factor * self.read_bytes_per_s, flop_per_s=factor * self.flop_per_s)

    @property
    def balance_flop_per_byte(self) -> float:
        """The intensity at which computing and reading take equal time."""
        return self.flop_per_s / self.read_bytes_per_s

    @property
    def eager_issue_s(self) -> float:
        """The host's time to issue one eager pass."""
        return self.kernels_per_pass * self.launch_s


@dataclass(frozen=True, slots=True, kw_only=True)
class PassStats:
    """The numbers that determine a pass's time.

    `rows` yield one token each (their logits are computed); the first `decode_rows` of them decode. `segments` is the
    number of prompts or chunks in the pass. `tokens` go through the layers, padding included. `kv_positions` are the
    cached positions read: rows x width in a padded layout, true lengths in a paged one. `attention_pairs` is the number
    of scores, a query against a position each. `own_pairs` of a masked pass leaves out padding: each prompt's own
    triangle, each decoding row's own length. `decode_positions` of a mixed pass are read by its decoding rows.
    """

    kind: PassKind
    rows: int
    decode_rows: int
    segments: int
    tokens: int
    kv_positions: int
    attention_pairs: int
    width: int
    masked: bool
    own_pairs: int | None = None
    decode_positions: int = 0

    def longer(self) -> PassStats:
        """The next decode pass: every row attends over one more position."""
        return PassStats(
            kind=self.kind,
            rows=self.rows,
            decode_rows=self.decode_rows,
            segments=0,
            tokens=self.tokens,
            kv_positions=self.kv_positions + self.rows,
            attention_pairs=self.attention_pairs + self.rows,
            width=self.width + 1,
            masked=self.masked,
            own_pairs=None if self.own_pairs is None else self.own_pairs + self.rows,
        )


def pass_stats(planned: PlannedPass) -> PassStats:
    """The stats of a planned pass, before the scheduler completes it."""
    shape, rows = planned.shape, len(planned.rows)
    decoding = 0
    if planned.kind is PassKind.DECODE:
        tokens = segments = 0
        positions = pairs = shape.computed_positions
    elif planned.chunks:
        tokens, segments = sum(c.tokens for c in planned.chunks), len(planned.chunks)
        decoding = shape.computed_positions - tokens
        positions = decoding + sum(c.start + c.tokens for c in planned.chunks)
        pairs = decoding + sum(causal_pairs(c.tokens, c.start) for c in planned.chunks)
    else:
        tokens = positions = shape.computed_positions
        segments = rows
        lengths = (r.num_prompt_tokens for r in planned.rows)
        # With a mask each row computes a full square of scores; without one a triangle of its own length.
        pairs = rows * shape.width**2 if shape.masked else sum(map(causal_pairs, lengths))
    decode_rows = planned.num_decode_rows
    return PassStats(
        kind=planned.kind,
        rows=rows,
        decode_rows=decode_rows,
        segments=segments,
        tokens=decode_rows + tokens,
        kv_positions=positions,
        attention_pairs=pairs,
        width=shape.width,
        masked=shape.masked,
        own_pairs=_own_pairs(planned) if shape.masked else None,
        decode_positions=decoding,
    )


def _own_pairs(planned: PlannedPass) -> int:
    if planned.kind is PassKind.PREFILL:
        return sum(causal_pairs(r.num_prompt_tokens) for r in planned.rows)
    return planned.shape.computed_positions - planned.shape.padding_positions


def causal_pairs(tokens: int, start: int = 0) -> int:
    """Scores of `tokens` causal queries after `start` cached positions."""
    return tokens * start + tokens * (tokens + 1) // 2


def decode_stats(rows: int, width: int) -> PassStats:
    """A decode pass of `rows` equal rows that attend over `width` positions each, the new token included."""
    return PassStats(
        kind=PassKind.DECODE,
        rows=rows,
        decode_rows=rows,
        segments=0,
        tokens=rows,
        kv_positions=rows * width,
        attention_pairs=rows * width,
        width=width,
        masked=False,
    )


def pass_bytes(shape: ModelShape, stats: PassStats, *, masked_kv_reads: float = 1.0) -> float:
    """Bytes the pass reads: weights once (of experts those hit), and the cached positions by KV heads."""
    return shape.weight_bytes_read(stats.tokens) + kv_bytes(shape, stats, masked_kv_reads=masked_kv_reads)


def kv_bytes(shape: ModelShape, stats: PassStats, *, masked_kv_reads: float = 1.0) -> float:
    """Bytes of cached positions the pass reads; `masked_kv_reads` as in `Ceilings`."""
    read_bytes = stats.kv_positions * shape.kv_position_bytes
    return read_bytes * masked_kv_reads if stats.masked else read_bytes


def pass_flop(shape: ModelShape, stats: PassStats) -> int:
    """FLOP of the pass: layers for each token, logits for each row, attention for each pair."""
    return (
        2 * shape.body_parameters * stats.tokens
        + 2 * shape.embedding_parameters * stats.rows
        + shape.attention_flop_per_pair * stats.attention_pairs
    )


def intensity_flop_per_byte(shape: ModelShape, stats: PassStats) -> float:
    """FLOP per byte read."""
    return pass_flop(shape, stats) / pass_bytes(shape, stats)


def bandwidth_fraction(shape: ModelShape, stats: PassStats, seconds: float, ceilings: Ceilings) -> float:
    """The share of the read ceiling that a pass of that duration used (MBU)."""
    return pass_bytes(shape, stats) / seconds / ceilings.read_bytes_per_s


def compute_fraction(shape: ModelShape, stats: PassStats, seconds: float, ceilings: Ceilings) -> float:
    """The share of the FLOP ceiling that a pass of that duration used (MFU)."""
    return pass_flop(shape, stats) / seconds / ceilings.flop_per_s

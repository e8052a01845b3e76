"""The roofline of a forward pass: the bytes it moves, the arithmetic it does, and the ceilings that these run into.

    seconds of a pass >= bytes / read rate, FLOP / arithmetic rate, kernels x launch cost      (Williams et al., 2009)

FLOP count 2 a multiply-add, bytes count each weight and each cached position once. Left out: activations, logits,
written keys and values (a token's own position counts as read), norms and softmax. An embedding table that is not tied
counts as read, though a pass looks up a few rows of it; it does no arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from engine.core.errors import FieldError
from engine.core.option import Choices, Option
from engine.core.passes import PassKind, PlannedPass
from engine.core.units import DTYPE_BYTES, short_dtype
from engine.memory.memory_model import ModelDimensions

KERNELS_PER_LAYER = 40  # of an eager decode pass: 28 layers of the shape of Qwen2.5-1.5B were counted at 1,123 kernels
KERNELS_BESIDE = 3  # embedding, final norm, logits
WEIGHT_BITS = (8, 16, 32)
WEIGHT_WIDTH = Option(
    default=None,
    label="Bits a weight",
    help="width of a weight (default: the dtype's)",
    flags=("--weight-bits",),
    parameter="weights",
    takes=Choices(WEIGHT_BITS),
    group="machine",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape(ModelDimensions):
    """A dense decoder as numbers. `parameters` counts a tied embedding once; `value_bytes` is the width of a cached
    value and of an activation, `weight_bits` that of a weight. `max_positions` is None where nobody stated it."""

    name: str
    hidden: int
    heads: int
    tied_embeddings: bool
    max_positions: int | None = None
    weight_bits: int = 16

    def __post_init__(self) -> None:
        if self.weight_bits not in WEIGHT_BITS:
            raise FieldError("weights", f"weight-bits {self.weight_bits}: use {', '.join(map(str, WEIGHT_BITS))}")

    @property
    def weight_bytes(self) -> int:
        return self.parameters * self.weight_bits // 8

    @property
    def embedding_parameters(self) -> int:
        """Of one embedding table, or of the logits' projection."""
        return self.vocab * self.hidden

    @property
    def body_parameters(self) -> int:
        """What every token is multiplied with: all layers, without embedding and logits."""
        return self.parameters - self.embedding_parameters * (1 if self.tied_embeddings else 2)

    @property
    def attention_flop_per_pair(self) -> int:
        """Of one query against one cached position, in all layers: score and weighted sum, over the query heads."""
        return 4 * self.layers * self.heads * self.head_dim

    @property
    def kernels_per_pass(self) -> int:
        """Kernels of an eager decode pass, by the rule above."""
        return KERNELS_PER_LAYER * self.layers + KERNELS_BESIDE

    def with_weight_bits(self, bits: int) -> Self:
        """The same model with weights of that many bits; what is cached keeps its width."""
        return replace(self, weight_bits=bits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceilings:
    """What a machine can do at best for one model, as measured or assumed: bytes and FLOP a second, seconds a launch.

    `masked_kv_reads` is how many times each cached position crosses memory where a pass needs a mask: 1 for kernels
    that read it once, more where keys and values are copied for each query head first. `host_s` is the host's own work
    between two passes, which stopping after each one adds and running ahead hides.
    """

    read_bytes_per_s: float
    flop_per_s: float
    launch_s: float
    kernels_per_pass: int
    masked_kv_reads: float = 1.0
    host_s: float = 0.0

    @property
    def balance_flop_per_byte(self) -> float:
        """The intensity at which a pass takes as long to compute as to read."""
        return self.flop_per_s / self.read_bytes_per_s

    @property
    def eager_issue_s(self) -> float:
        """The host's time to issue one eager pass, whatever is in it."""
        return self.kernels_per_pass * self.launch_s


@dataclass(frozen=True, slots=True, kw_only=True)
class PassStats:
    """What a pass's time depends on.

    `rows` yield a token each (their logits are computed); the first `decode_rows` of them decode, `segments` prompts or
    chunks are read. `tokens` go through the layers, padding among them. `kv_positions` are cached positions read, each
    row's own: rows x width where rows are as wide as the widest, true lengths where paged. `attention_pairs` are
    queries times the positions that each computes a score for. `own_pairs` of a masked pass are those of them that are
    not padding's: each prompt's own triangle, each decoding row's own length. `decode_positions` of a mixed pass are
    the positions that its decoding rows read.
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
        """Of a decode pass, the next one: every row attends over one position more."""
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
    """The facts of a planned pass, before it is counted as done."""
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
        # A mask is a full square of scores; without one each row is causal in its own length.
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
    """Scores of `tokens` queries after `start` cached positions, each seeing all before it and itself."""
    return tokens * start + tokens * (tokens + 1) // 2


def decode_stats(rows: int, width: int) -> PassStats:
    """A decode pass of `rows` equal rows that attend over `width` positions each, their own new token included."""
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


def pass_bytes(shape: ModelShape, facts: PassStats, *, masked_kv_reads: float = 1.0) -> float:
    """Bytes that the pass reads: every weight once, and the cached positions (of the KV heads, not the query heads)."""
    return shape.weight_bytes + kv_bytes(shape, facts, masked_kv_reads=masked_kv_reads)


def kv_bytes(shape: ModelShape, facts: PassStats, *, masked_kv_reads: float = 1.0) -> float:
    """Bytes of cached positions that the pass reads; `masked_kv_reads` as in `Ceilings`."""
    read_bytes = facts.kv_positions * shape.kv_position_bytes
    return read_bytes * masked_kv_reads if facts.masked else read_bytes


def pass_flop(shape: ModelShape, facts: PassStats) -> int:
    """FLOP of the pass: the layers for each token, the logits for each row that yields a token, attention's scores."""
    return (
        2 * shape.body_parameters * facts.tokens
        + 2 * shape.embedding_parameters * facts.rows
        + shape.attention_flop_per_pair * facts.attention_pairs
    )


def intensity_flop_per_byte(shape: ModelShape, facts: PassStats) -> float:
    """FLOP for each byte read."""
    return pass_flop(shape, facts) / pass_bytes(shape, facts)


def bandwidth_fraction(shape: ModelShape, facts: PassStats, seconds: float, ceilings: Ceilings) -> float:
    """The share of the read ceiling that a pass of that many seconds used (MBU)."""
    return pass_bytes(shape, facts) / seconds / ceilings.read_bytes_per_s


def compute_fraction(shape: ModelShape, facts: PassStats, seconds: float, ceilings: Ceilings) -> float:
    """The share of the arithmetic ceiling that a pass of that many seconds used (MFU)."""
    return pass_flop(shape, facts) / seconds / ceilings.flop_per_s


# The shape of the model that a run has used, from what its run.json says of it.

NUMBERS = ("parameters", "layers", "hidden", "heads", "kv_heads", "head_dim", "intermediate", "vocab")


def shape_of_run(model: Mapping[str, Any]) -> ModelShape:
    """`model` is run.json's. ValueError where it lacks a number, as that of a run from elsewhere may."""
    missing = [name for name in NUMBERS if not isinstance(model.get(name), int) or model[name] < 1]
    value_bytes = DTYPE_BYTES.get(short_dtype(str(model.get("dtype"))))
    if missing or value_bytes is None:
        lacking = ", ".join(missing) or "dtype"
        raise ValueError(f"the run does not say its model's {lacking}: neither bytes nor FLOP can be counted")
    numbers = {name: int(model[name]) for name in NUMBERS}
    return ModelShape(
        **numbers,
        name=str(model.get("name")),
        value_bytes=value_bytes,
        weight_bits=_weight_bits(model, value_bytes),
        tied_embeddings=_is_tied(**numbers),
        max_positions=model.get("max_positions"),
    )


def _weight_bits(model: Mapping[str, Any], value_bytes: int) -> int:
    """As the run says, a simulated one with weights narrower than its dtype; else the dtype's own."""
    said = model.get("weight_bits")
    return said if isinstance(said, int) and not isinstance(said, bool) else 8 * value_bytes


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
    """Whether one table is both embedding and logits: the parameters beyond the layers are about one table, not two."""
    layer = hidden * (2 * heads + 2 * kv_heads) * head_dim + 3 * hidden * intermediate
    return parameters - layers * layer < 1.5 * vocab * hidden

"""The kernels of engine.runtime.kernels on a GPU, one by one, at sizes of Qwen2.5-1.5B, with variants of their tiles.

    python -m benchmarks.kernels [--json] [--only decode,prefill,small] [--peak 4.39]

Each kernel runs LAUNCHES times back to back inside one CUDA graph; a time is the median replay divided by its launches,
so it includes the gap between two kernels. Inputs are random numbers in randomly ordered blocks. A case's calls do the
same work on different inputs, which together exceed the L2 cache even if one call's inputs do not. Needs only torch,
Triton and numpy. With --tiny and TRITON_INTERPRET=1 the script runs without a GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

from engine.runtime.kernels import argmax, norm, rotary, silu_mul
from engine.runtime.kernels.paged_decode import DECODE_16_BIT, DecodeTuning, paged_decode
from engine.runtime.kernels.paged_prefill import PREFILL_16_BIT, PrefillTuning, paged_prefill
from engine.runtime.kernels.tiles import make_tiles

LAUNCHES = 20
REPLAYS = 15
MOST_COPIES = 20
COLD_BYTES = 240e6  # inputs rotate over this many bytes, four times an H200's L2
DTYPE = torch.bfloat16
DECODE_TUNINGS = [
    DecodeTuning(columns=columns, warps=warps, stages=stages)
    for columns, warps, stages in [
        (32, 2, 3), (32, 2, 4), (32, 4, 3), (32, 4, 4), (64, 2, 2), (64, 2, 3), (64, 4, 2), (64, 4, 3), (128, 4, 2),
    ]
]  # fmt: skip
PREFILL_TUNINGS = [
    PrefillTuning(queries=queries, columns=columns, warps=warps, stages=stages)
    for queries, columns, warps, stages in [
        (128, 64, 8, 3), (128, 64, 8, 2), (64, 64, 4, 2), (64, 64, 4, 3), (128, 128, 8, 2), (64, 32, 4, 3),
    ]
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The model's sizes, the batches, and the device."""

    heads: int = 12
    kv_heads: int = 2
    head_dim: int = 128
    hidden: int = 1536
    mlp: int = 8960
    vocabulary: int = 151_936
    block_size: int = 16
    batches: tuple[int, ...] = (1, 8, 32, 128, 256, 512)
    length: int = 324
    long: int = 4096
    tokens: tuple[int, ...] = (1, 32, 256, 512, 4096)
    device: str = "cuda"


TINY = Shape(
    heads=4, head_dim=64, hidden=48, mlp=40, vocabulary=70, batches=(1, 2), length=20, long=150, tokens=(1, 3),
    device="cuda" if torch.cuda.is_available() else "cpu",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One kernel at one size. `calls` do the same work on different inputs."""

    kernel: str
    size: str
    variant: str
    calls: list[Callable[[], object]]
    num_bytes: float
    flop: float = 0.0


def copies(num_bytes: float) -> int:
    return int(min(MOST_COPIES, max(1, -(-COLD_BYTES // num_bytes))))


def normal(shape: Shape, *size: int) -> Tensor:
    return torch.randn(*size, dtype=torch.float32, device=shape.device).to(DTYPE)


def ints(shape: Shape, values: Iterable[int]) -> Tensor:
    return torch.tensor(list(values), dtype=torch.int32, device=shape.device)


def paged(shape: Shape, lengths: list[int]) -> tuple[Tensor, int]:
    """Tables (R, N) of randomly ordered blocks, and the positions of a pool that holds them."""
    counts = [-(-length // shape.block_size) for length in lengths]
    dealt = np.random.default_rng(0).permutation(sum(counts))
    table = np.zeros((len(lengths), max(counts)), dtype=np.int32)
    for row, (count, end) in enumerate(zip(counts, np.cumsum(counts), strict=True)):
        table[row, :count] = dealt[end - count : end]
    return torch.from_numpy(table).to(shape.device), sum(counts) * shape.block_size


def step(tuning: DecodeTuning | PrefillTuning) -> str:
    return f"columns {tuning.columns} warps {tuning.warps} stages {tuning.stages}"


Variants = list[tuple[DecodeTuning, int]]  # and the splits


def decode_case(shape: Shape, size: str, lengths: list[int], variants: Variants) -> Iterator[Case]:
    rows = len(lengths)
    position_bytes = 2 * shape.kv_heads * shape.head_dim * DTYPE.itemsize
    num_bytes = sum(lengths) * position_bytes + 2 * rows * shape.heads * shape.head_dim * DTYPE.itemsize
    tables, positions = paged(shape, lengths)
    pools = [normal(shape, 2, positions, shape.kv_heads, shape.head_dim) for _ in range(copies(num_bytes))]
    query = normal(shape, rows, shape.heads, shape.head_dim)
    ends, starts, order = ints(shape, lengths), ints(shape, [0] * rows), ints(shape, range(rows))
    for tuning, splits in variants:

        def call(pool: Tensor, tuning: DecodeTuning = tuning, splits: int = splits) -> Tensor:
            inputs = (tables, order, starts, ends, ends, shape.block_size, 0.09, splits)
            return paged_decode(query, pool[0], pool[1], *inputs, tuning=tuning)

        mark = " (set)" if tuning == DECODE_16_BIT else ""
        variant = f"{step(tuning)}{mark} splits {splits}"
        calls: list[Callable[[], object]] = [lambda p=pool, c=call: c(p) for pool in pools]
        yield Case(kernel="paged_decode", size=size, variant=variant, calls=calls, num_bytes=num_bytes)


def decode_cases(shape: Shape) -> Iterator[Case]:
    tuned = [DECODE_16_BIT, *(t for t in DECODE_TUNINGS if t != DECODE_16_BIT)]
    for rows in shape.batches:
        splits = [s for s in (1, 2, 4, 8) if s == 1 or s * rows <= 128]
        variants = [(t, 1) for t in tuned] if rows >= 256 else []
        variants += [(t, s) for t in tuned[:1] + tuned[4:6] for s in splits if (t, s) not in variants]
        variants += [(tuned[0], 2)] * (rows == 256)
        yield from decode_case(shape, f"B={rows} at {shape.length}", [shape.length] * rows, variants)
    long = [(tuned[0], splits) for splits in (1, 8, 16, 32)]
    yield from decode_case(shape, f"B=1 at {shape.long}", [shape.long], long)
    rng = np.random.default_rng(1)
    prompts = rng.choice([16, 64, 256, 1024, shape.long], size=min(256, max(shape.batches)))
    mixed = [int(p + output) for p, output in zip(prompts, rng.integers(1, 256, size=len(prompts)), strict=True)]
    variants = [(t, 1) for t in tuned] + [(t, 4) for t in tuned[:5]]
    yield from decode_case(shape, f"B={len(mixed)} mixed", mixed, variants)


def prefill_case(shape: Shape, size: str, segments: list[tuple[int, int]]) -> Iterator[Case]:
    """`segments`: the queries of each, and the columns before them."""
    pairs = sum(q * context + q * (q + 1) // 2 for q, context in segments)
    columns = [q + context for q, context in segments]
    tables, positions = paged(shape, columns)
    pool = normal(shape, 2, positions, shape.kv_heads, shape.head_dim)
    total = sum(q for q, _ in segments)
    query = normal(shape, total, shape.heads, shape.head_dim)
    table, begin = [], 0
    for row, (queries, context) in enumerate(segments):
        table.append((row, begin, queries, context, 0))
        begin += queries
    rows = torch.tensor(table, dtype=torch.int32, device=shape.device)
    tiles = torch.from_numpy(make_tiles([q for q, _ in segments])).to(shape.device)
    output = torch.empty_like(query)
    num_bytes = (sum(columns) * 2 * shape.kv_heads + 2 * total * shape.heads) * shape.head_dim * DTYPE.itemsize
    for tuning in PREFILL_TUNINGS:

        def call(tuning: PrefillTuning = tuning) -> Tensor:
            return paged_prefill(
                query, pool[0], pool[1], tables, rows, tiles, shape.block_size, 0.09, output=output, tuning=tuning
            )

        mark = " (set)" if tuning == PREFILL_16_BIT else ""
        yield Case(
            kernel="paged_prefill",
            size=size,
            variant=f"queries {tuning.queries} {step(tuning)}{mark}",
            calls=[call],
            num_bytes=num_bytes,
            flop=4.0 * pairs * shape.heads * shape.head_dim,
        )


def prefill_cases(shape: Shape) -> Iterator[Case]:
    most, eighth = max(shape.tokens), max(1, max(shape.tokens) // 8)
    yield from prefill_case(shape, f"one of {most}", [(most, 0)])
    yield from prefill_case(shape, f"8 of {eighth}", [(eighth, 0)] * 8)
    yield from prefill_case(shape, f"{eighth} after {shape.long}", [(eighth, shape.long)])
    chunk, quarter = max(1, most // 16), shape.long // 4
    chunks = [(chunk, quarter * i) for i in range(4)]
    yield from prefill_case(shape, f"{chunk} after 0 … {3 * quarter}", chunks)


def constant(module: object, name: str, value: int, call: Callable[[], object]) -> Callable[[], object]:
    def patched() -> object:
        with patch.object(module, name, value):
            return call()

    return patched


def small_cases(shape: Shape) -> Iterator[Case]:
    heads = shape.heads + 2 * shape.kv_heads
    weight = normal(shape, shape.hidden)
    angles = torch.rand(max(shape.tokens) + 1, shape.head_dim // 2, device=shape.device)
    for tokens in shape.tokens:
        for kernel, width, per_row in [
            ("rms_norm", shape.hidden, 2 * shape.hidden),
            ("add_rms_norm", shape.hidden, 4 * shape.hidden),
            ("rotate_and_store", heads * shape.head_dim, 2 * heads * shape.head_dim),
            ("silu_mul", 2 * shape.mlp, 3 * shape.mlp),
            ("argmax", shape.vocabulary, shape.vocabulary),
        ]:
            if kernel == "argmax" and tokens > 512:
                continue
            num_bytes = tokens * per_row * DTYPE.itemsize
            inputs = [normal(shape, tokens, width) for _ in range(copies(num_bytes))]
            for variant, make in small_variants(shape, kernel, weight, angles, tokens):
                calls = [make(x) for x in inputs]
                yield Case(kernel=kernel, size=f"T={tokens}", variant=variant, calls=calls, num_bytes=num_bytes)


def small_variants(
    shape: Shape, kernel: str, weight: Tensor, angles: Tensor, tokens: int
) -> Iterator[tuple[str, Callable[[Tensor], Callable[[], object]]]]:
    places = torch.arange(tokens, device=shape.device)
    positions = places.to(torch.int32)
    pool = normal(shape, 2, tokens, shape.kv_heads, shape.head_dim)
    residual = normal(shape, tokens, shape.hidden)
    calls = {
        "rms_norm": (norm, "WARPS", (4, 2, 8), lambda x: norm.rms_norm(x, weight, 1e-6)),
        "add_rms_norm": (norm, "WARPS", (4, 2, 8), lambda x: norm.add_rms_norm(x, residual, weight, 1e-6)),
        "silu_mul": (silu_mul, "COLUMNS", (1024, 512, 2048), lambda x: silu_mul.silu_mul(x)),
        "argmax": (argmax, "PIECE", (4096, 2048, 8192), lambda x: argmax.argmax(x)),
        "rotate_and_store": (
            rotary,
            "WARPS",
            (4, 2, 8),
            lambda x: rotary.rotate_and_store(x, angles, angles, positions, places, pool[0], pool[1], shape.heads),
        ),
    }
    module, name, values, call = calls[kernel]
    for value in values:
        yield f"{name} {value}", lambda x, value=value: constant(module, name, value, lambda: call(x))


def seconds(calls: list[Callable[[], object]]) -> float:
    """Seconds of one launch: the median replay of a graph of LAUNCHES, divided by LAUNCHES."""
    for call in calls:
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for launch in range(LAUNCHES):
            calls[launch % len(calls)]()
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(REPLAYS + 3)]
    for mark in marks:
        mark.record()
        graph.replay()
    torch.cuda.synchronize()
    gaps = [a.elapsed_time(b) for a, b in zip(marks[2:], marks[3:], strict=False)]
    return statistics.median(gaps) / 1e3 / LAUNCHES


def measured(case: Case, peak_bytes_per_s: float) -> dict[str, str | float | None]:
    row: dict[str, str | float | None] = {"kernel": case.kernel, "size": case.size, "variant": case.variant}
    if not torch.cuda.is_available():
        case.calls[0]()
        return row | {"seconds": None}
    try:
        took = seconds(case.calls)
    except Exception as error:  # a tile that is too large for the GPU is a valid result
        return row | {"seconds": None, "error": type(error).__name__ + ": " + str(error).splitlines()[0]}
    share = case.num_bytes / took / peak_bytes_per_s
    tflop = case.flop / took / 1e12 if case.flop else None
    return row | {"seconds": took, "bytes_per_s": case.num_bytes / took, "share": share, "tflop_per_s": tflop}


def line(row: dict[str, str | float | None]) -> str:
    label = f"{row['kernel']:17} {row['size']:20} {row['variant']:44}"
    if not isinstance(row["seconds"], float):
        return f"{label} {row.get('error', 'ran')}"
    rate = f"{row['bytes_per_s'] / 1e9:7.0f} GB/s {row['share']:5.0%}"
    tflop = "" if row["tflop_per_s"] is None else f" {row['tflop_per_s']:6.0f} TFLOP/s"
    return f"{label} {row['seconds'] * 1e6:8.2f} us {rate}{tflop}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    parser.add_argument("--only", default="decode,prefill,small", help="any of decode, prefill, small")
    parser.add_argument("--peak", type=float, default=4.39, help="the GPU's read rate in TB/s, for the shares")
    parser.add_argument("--tiny", action="store_true", help="toy sizes, to try the script itself")
    args = parser.parse_args()
    groups = {"decode": decode_cases, "prefill": prefill_cases, "small": small_cases}
    wanted = args.only.split(",")
    if unknown := set(wanted) - set(groups):
        parser.error(f"--only takes {', '.join(groups)}, not {', '.join(sorted(unknown))}")
    if not torch.cuda.is_available() and not (args.tiny and os.environ.get("TRITON_INTERPRET") == "1"):
        sys.exit("benchmarks.kernels needs a CUDA GPU; --tiny with TRITON_INTERPRET=1 tries it without one")
    torch.manual_seed(0)
    for name in wanted:
        for case in groups[name](TINY if args.tiny else Shape()):
            row = measured(case, args.peak * 1e12)
            print(json.dumps(row) if args.json else line(row), flush=True)


if __name__ == "__main__":
    main()

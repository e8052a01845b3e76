"""Tensor parallelism: every layer of a model divided over N GPUs of one host, as in Megatron-LM and vLLM.

Each GPU has 1/N of every weight matrix, embedding and output projection included, and the KV cache of 1/N of the KV
heads. A layer ends its attention and its MLP with an all-reduce: two a layer, of one hidden vector a token.

Not modeled: overlap of communication and computation, more KV heads than there are (a GPU count that does not divide
them is refused), the all-reduce of the embedding and the gathering of the logits (one each a pass), slower kernels for
narrower matrices, and the growth of the latency with the number of GPUs.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.errors import FieldError
from engine.core.option import Bounds, check_options, option
from engine.memory.memory_model import ModelDimensions

MAX_GPUS = 8  # of one host
ALL_REDUCES_PER_LAYER = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorParallel:
    """How many GPUs share a copy of the model. ValueError for another number than 1 to MAX_GPUS."""

    tensor_parallel_size: int = option(
        1,
        label="Tensor parallel size",
        help="GPUs that share a copy of the model; must divide its KV heads",
        flags=("--tensor-parallel-size",),
        takes=Bounds(low=1, high=MAX_GPUS, unit="GPUs"),
        metavar="N",
        group="machine",
    )

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """The connection of a GPU to the others. Bytes/s are of one direction; `latency_s` is the least time of one
    all-reduce."""

    name: str
    nominal_bytes_per_s: float
    bytes_per_s: float
    latency_s: float

    def all_reduce_s(self, size_bytes: float, gpus: int) -> float:
        """Seconds of a ring all-reduce of `size_bytes` on each of `gpus` GPUs; 0 for one GPU."""
        if gpus == 1:
            return 0.0
        return self.latency_s + transferred_bytes(size_bytes, gpus) / self.bytes_per_s


def transferred_bytes(size_bytes: float, gpus: int) -> float:
    """Bytes that each GPU sends, and receives, in a ring all-reduce: N - 1 parts of N, twice."""
    return 2 * (gpus - 1) / gpus * size_bytes


def possible_sizes(kv_heads: int) -> tuple[int, ...]:
    """The numbers of GPUs that can share a model with so many KV heads."""
    return tuple(size for size in range(1, MAX_GPUS + 1) if kv_heads % size == 0)


def require_divisible(model: ModelDimensions, name: str, size: int) -> None:
    """FieldError if `size` GPUs cannot share the KV heads of the model `name`."""
    TensorParallel(tensor_parallel_size=size)
    sizes = possible_sizes(model.kv_heads)
    if size not in sizes:
        heads = f"{model.kv_heads} KV head{'' if model.kv_heads == 1 else 's'}"
        known = " or ".join(filter(None, (", ".join(map(str, sizes[:-1])), str(sizes[-1]))))
        raise FieldError(
            "tensor_parallel_size",
            f"tensor-parallel-size {size}: {size} GPUs cannot share the {heads} of {name} equally; use {known}",
        )

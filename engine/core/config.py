"""What a person sets: the engine, the model, the workload, the sampling. Checked once, here, with one clear line each.

Every configuration is a frozen value that survives a round trip through JSON (`to_dict`, `from_dict`): the page, the
command line, the worker and the run log all speak this one form.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, Self

from engine.core.dtypes import DTYPE_BYTES

ENGINES = ("serial", "static", "continuous", "paged", "chunked")
DEVICES = ("auto", "cpu", "cuda")
DTYPES = ("auto", *DTYPE_BYTES)
EXECUTIONS = ("eager", "graph")
TIMINGS = ("sync", "async")
RETURNS = ("stream", "whole")

MAX_REQUESTS = 100_000
MAX_SLOTS = 4096
BLOCK_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)  # token positions; powers of two, so that a kernel can shift
MAX_BATCHED_TOKENS = 1_000_000
MAX_GIB = 1_000_000
MIN_TEMPERATURE = 0.01  # logits over less overflow; it is greedy long before


@dataclass(frozen=True, slots=True, kw_only=True)
class FormRule:
    """When a static batch is formed: from what has `arrived`, when `full`, or when full or after `timeout:S`."""

    rule: Literal["arrived", "full", "timeout"] = "arrived"
    timeout_s: float | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """`arrived`, `full` or `timeout:S` with S in seconds. ValueError says what is accepted."""
        if text == "arrived":
            return cls(rule="arrived")
        if text == "full":
            return cls(rule="full")
        name, _, seconds = text.partition(":")
        try:
            timeout_s = float(seconds)
        except ValueError:
            timeout_s = math.nan
        if name != "timeout" or not (math.isfinite(timeout_s) and timeout_s > 0):
            raise ValueError(f"form {text!r}: use arrived, full or timeout:S with S in seconds above 0, as timeout:2")
        return cls(rule="timeout", timeout_s=timeout_s)

    def __str__(self) -> str:
        # repr, since every digit has to survive the round trip.
        return f"timeout:{self.timeout_s!r}".removesuffix(".0") if self.rule == "timeout" else self.rule


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingConfig:
    """How the next token is picked: temperature 0 is greedy. top_k 0 and top_p 1 leave the distribution whole."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0

    def __post_init__(self) -> None:
        _require(
            self.temperature == 0 or MIN_TEMPERATURE <= self.temperature <= 10,
            f"temperature {self.temperature}: use 0 (greedy), or {MIN_TEMPERATURE} to 10",
        )
        _require(self.top_k >= 0, f"top-k {self.top_k}: use 0 (off) or a count of tokens")
        _require(0 < self.top_p <= 1, f"top-p {self.top_p}: use a share above 0, up to 1 (off)")

    @property
    def is_greedy(self) -> bool:
        return self.temperature == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadConfig:
    """The requests to make: prompts, how many, budgets, arrivals. The same seed gives the same requests to any engine.

    `prompts` is `chat`, exact lengths (`p16,p64`; `p16:3,p4096:1` with weights) or `file`, whose text is then in
    `prompt_lines`, so that a workload never depends on a file that may change.
    """

    prompts: str = "chat"
    prompt_lines: tuple[str, ...] = ()
    requests: int = 8
    budget: str = "8-48"
    arrival: str = "closed"
    seed: int = 0

    def __post_init__(self) -> None:
        _require(0 <= self.requests <= MAX_REQUESTS, f"requests {self.requests}: use 0 to {MAX_REQUESTS:,}")
        _require(0 <= self.seed < 2**32, f"seed {self.seed}: use a whole number from 0 to 4294967295")
        if self.prompts == "file":
            _require(bool(self.prompt_lines), "prompt file: it holds no prompts; write one prompt a line")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """One run: an engine over a workload. Memory sizes are in GiB (2^30 bytes).

    `block_size` (token positions) is read by the paged layouts alone, `max_num_batched_tokens` (tokens a step) by
    chunked alone.
    """

    engine: str = "continuous"
    model: str = "smollm2-135m"
    device: str = "auto"
    dtype: str = "auto"
    execution: str = "eager"
    timing: str = "sync"
    slots: int = 4
    block_size: int = 16
    max_num_batched_tokens: int = 512
    form: FormRule = field(default_factory=FormRule)
    returns: str = "stream"
    workload: WorkloadConfig = field(default_factory=WorkloadConfig)
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    warmups: int = 1
    pool_gib: float | None = None
    capacity_gib: float | None = None
    gpu_memory_utilization: float = 0.9

    def __post_init__(self) -> None:
        _require_choice("engine", self.engine, ENGINES)
        _require_choice("device", self.device, DEVICES)
        _require_choice("dtype", self.dtype, DTYPES)
        _require_choice("execution", self.execution, EXECUTIONS)
        _require_choice("timing", self.timing, TIMINGS)
        _require_choice("return", self.returns, RETURNS)
        _require(bool(self.model.strip()), "model: name one, or a folder or hub id; `models` lists the names")
        _require(1 <= self.slots <= MAX_SLOTS, f"slots {self.slots}: use 1 to {MAX_SLOTS:,}")
        _require(
            self.block_size in BLOCK_SIZES,
            f"block-size {self.block_size}: use one of {', '.join(map(str, BLOCK_SIZES))} token positions",
        )
        _require(
            1 <= self.max_num_batched_tokens <= MAX_BATCHED_TOKENS,
            f"max-num-batched-tokens {self.max_num_batched_tokens}: use 1 to {MAX_BATCHED_TOKENS:,} tokens a step",
        )
        _require(
            self.engine != "chunked" or self.max_num_batched_tokens >= self.slots,
            f"max-num-batched-tokens {self.max_num_batched_tokens}: every row decodes one token a step, so that "
            f"{self.slots} slots need at least {self.slots}; raise it or use fewer slots",
        )
        _require(0 <= self.warmups <= 100, f"warmups {self.warmups}: use 0 to 100")
        for name, gib in (("pool-gib", self.pool_gib), ("capacity-gib", self.capacity_gib)):
            _require(gib is None or 0 < gib <= MAX_GIB, f"{name} {gib}: use a size in GiB above 0, up to {MAX_GIB:,}")
        _require(
            0 < self.gpu_memory_utilization <= 1,
            f"gpu-memory-utilization {self.gpu_memory_utilization}: use a share above 0, up to 1",
        )
        _require(
            self.engine == "static" or self.returns == "stream", "return whole: only the static engine holds results"
        )
        _require(
            self.engine == "static" or self.form.rule == "arrived",
            f"form {self.form}: only the static engine forms batches",
        )

    @property
    def num_slots(self) -> int:
        """Rows at once: `slots`, or 1 for the serial engine."""
        return 1 if self.engine == "serial" else self.slots

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, nested as the fields are."""
        data = asdict(self)
        data["form"] = str(self.form)
        data["workload"]["prompt_lines"] = list(self.workload.prompt_lines)
        return data

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """The inverse of `to_dict`. ValueError for a name that is not a setting, or a value that is out of range."""
        values = _settings(cls, data)
        if "form" in values:
            values["form"] = FormRule.parse(values["form"])
        if "workload" in values:
            workload = _settings(WorkloadConfig, values["workload"], "workload.")
            if "prompt_lines" in workload:
                lines = workload["prompt_lines"] = tuple(workload["prompt_lines"])
                _require(all(isinstance(line, str) for line in lines), "workload.prompt_lines: use a list of texts")
            values["workload"] = WorkloadConfig(**workload)
        if "sampling" in values:
            values["sampling"] = SamplingConfig(**_settings(SamplingConfig, values["sampling"], "sampling."))
        return cls(**values)


_NUMBER = (int, float)
_JSON_TYPES: dict[str, tuple[tuple[type, ...], str]] = {
    "str": ((str,), "text"),
    "int": ((int,), "a whole number"),
    "float": (_NUMBER, "a number"),
    "float | None": ((*_NUMBER, type(None)), "a number or null"),
    "tuple[str, ...]": ((list, tuple), "a list of texts"),
    "FormRule": ((str,), "text"),
    "WorkloadConfig": ((dict,), "an object"),
    "SamplingConfig": ((dict,), "an object"),
}


def _settings(kind: type, data: dict[str, Any], inside: str = "") -> dict[str, Any]:
    """A copy of `data` whose names are fields of `kind` and whose values have their JSON type; else ValueError."""
    types = {f.name: str(f.type) for f in fields(kind)}
    unknown = sorted(set(data) - set(types))
    _require(not unknown, f"unknown setting {', '.join(inside + name for name in unknown)}")
    for name, value in data.items():
        accepted, words = _JSON_TYPES[types[name]]
        fits = isinstance(value, accepted) and not isinstance(value, bool)
        _require(fits, f"{inside}{name} {value!r}: use {words}")
    return dict(data)


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise ValueError(message)


def _require_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    _require(value in choices, f"{name} {value!r}: use one of {', '.join(choices)}")

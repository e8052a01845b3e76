"""The settings of a run: engine, model, workload, sampling. They are checked here, once, with one clear line each.

Every configuration is a frozen value with an exact JSON form (`to_dict`, `from_dict`). Pages, command line, worker and
run log all use it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self

from engine.core.errors import FieldError
from engine.core.form_rule import FormRule
from engine.core.option import Bounds, Choices, Lines, Option, Switch, Text, check_options, option, options_of
from engine.core.presets import ENGINES, PRESETS
from engine.core.units import DTYPE_BYTES

DEVICES = ("auto", "cpu", "cuda")
DTYPES = ("auto", *DTYPE_BYTES)
EXECUTIONS = ("eager", "graph")
TIMINGS = ("sync", "async")
RETURNS = ("stream", "whole")

MAX_REQUESTS = 100_000
MAX_SLOTS = 4096
BLOCK_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)  # token positions; powers of two, so a kernel can shift
MAX_BATCHED_TOKENS = 1_000_000
MAX_GIB = 1_000_000
MIN_TEMPERATURE = 0.01  # logits divided by less overflow; sampling is greedy long before
_GIB = Bounds(low=0, high=MAX_GIB, whole=False, above=True, noun="a size in GiB")


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingConfig:
    """How the next token is drawn. Temperature 0 is greedy; top_k 0 and top_p 1 cut nothing off the distribution."""

    temperature: float = option(
        0.0,
        label="Temperature",
        help="0 is greedy: the most likely token",
        flags=("--temperature",),
        takes=Bounds(
            low=MIN_TEMPERATURE, high=10, whole=False, also=0, says=f"use 0 (greedy), or {MIN_TEMPERATURE} to 10"
        ),
        group="sampling",
    )
    top_k: int = option(
        0,
        label="Top-k",
        help="draw from the K most likely tokens; 0 is off",
        flags=("--top-k",),
        takes=Bounds(low=0, says="use 0 (off) or a count of tokens"),
        metavar="K",
        group="sampling",
    )
    top_p: float = option(
        1.0,
        label="Top-p",
        help="draw from the most likely tokens whose probabilities add up to P; 1 is off",
        flags=("--top-p",),
        takes=Bounds(low=0, high=1, whole=False, above=True, says="use a share above 0, up to 1 (off)"),
        metavar="P",
        group="sampling",
    )

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def is_greedy(self) -> bool:
        return self.temperature == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadConfig:
    """The requests of a run: prompts, count, budgets, arrivals. The same seed gives every engine the same requests.

    `prompts` is `chat`, exact lengths (`p16,p64`; `p16:3,p4096:1` with weights) or `file`. A file's text is kept in
    `prompt_lines`, so the workload does not change with the file.
    """

    prompts: str = option(
        "chat",
        label="Prompts",
        help="exact lengths in tokens, in equal shares; chat: a fixed set of questions",
        flags=("--prompts",),
        takes=Text(examples="chat; p16,p64; p16:3,p4096:1"),
        metavar="P16,P64",
        group="prompts",
    )
    prompt_lines: tuple[str, ...] = option(
        (),
        label="Prompt file",
        help="a text file, one prompt per line",
        flags=("--prompt-file",),
        takes=Lines(),
        metavar="FILE",
        group="prompts",
    )
    requests: int = option(
        8,
        label="Requests",
        help="number of requests",
        flags=("--requests",),
        takes=Bounds(low=0, high=MAX_REQUESTS),
        metavar="N",
        group="workload",
    )
    budget: str = option(
        "8-48",
        label="Output tokens (budget)",
        help="output tokens per request: 64, 64-256, 8x32+8x256, eos, eos:200",
        flags=("--budget",),
        takes=Text(examples="64; 64-256; 8x32+8x256 (shuffled); eos; eos:200"),
        group="workload",
    )
    arrival: str = option(
        "closed",
        label="Arrivals",
        help="closed (all at once), poisson:R, constant:R, gamma:R:CV; R requests per second",
        flags=("--arrival",),
        takes=Text(examples="closed; poisson:R, constant:R, gamma:R:CV with R per second"),
        group="workload",
    )
    rescale_arrivals: bool = option(
        False,
        label="Rescale arrivals to the rate",
        help="stretch the drawn arrival times so that their rate is exactly the requested one",
        flags=("--rescale-arrivals",),
        takes=Switch(),
        group="workload",
    )
    seed: int = option(
        0,
        label="Seed",
        help="seed of prompts, budgets, arrivals and sampling",
        flags=("--seed",),
        takes=Bounds(low=0, high=2**32 - 1, says="use a whole number from 0 to 4294967295"),
        metavar="N",
        group="workload",
    )

    def __post_init__(self) -> None:
        check_options(self)
        if self.prompts == "file" and not self.prompt_lines:
            raise FieldError("prompt_file", "prompt file: it holds no prompts; write one prompt per line")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """One run: an engine, a model and a workload. Memory sizes are in GiB (2^30 bytes).

    Only the paged layouts use `block_size` (token positions); only chunked uses `max_num_batched_tokens` (tokens
    per step).
    """

    engine: str = option(
        "continuous",
        label="Engine",
        help="scheduling policy and KV layout: which rows run in a step, how their KV is stored",
        flags=("--engine",),
        takes=Choices(ENGINES),
        group="engine",
    )
    model: str = option(
        "smollm2-135m",
        label="Model",
        help="a name (`models` lists them), a folder or a hub id",
        flags=("--model",),
        takes=Text(
            examples="a name, a folder or a hub id",
            required="name one, or a folder or hub id; `models` lists the names",
        ),
        group="model",
    )
    device: str = option(
        "auto",
        label="Device",
        help="auto: CUDA if available, else CPU",
        flags=("--device",),
        takes=Choices(DEVICES),
        group="model",
    )
    dtype: str = option(
        "auto",
        label="Dtype",
        help="dtype of weights and KV; auto: fp32 on a CPU, bf16 on CUDA",
        flags=("--dtype",),
        takes=Choices(DTYPES),
        group="model",
    )
    execution: str = option(
        "eager",
        label="Execution",
        help="how a pass is issued: kernel by kernel, or as a CUDA graph (GPU only)",
        flags=("--execution",),
        takes=Choices(EXECUTIONS),
        group="passes",
    )
    timing: str = option(
        "sync",
        label="Timing",
        help="sync waits for the device after each pass; async does not",
        flags=("--timing",),
        takes=Choices(TIMINGS),
        group="engine",
    )
    slots: int = option(
        4,
        label="Slots: rows that run at once (max-num-seqs)",
        help="requests that run at once; for static, the batch size",
        flags=("--slots", "--max-num-seqs"),
        takes=Bounds(low=1, high=MAX_SLOTS),
        metavar="B",
        group="engine",
    )
    block_size: int = option(
        16,
        label="Tokens per block (block-size)",
        help="paged, chunked: token positions per block, a power of two up to 256",
        flags=("--block-size",),
        takes=Choices(BLOCK_SIZES, "token positions"),
        metavar="N",
        group="passes",
    )
    max_num_batched_tokens: int = option(
        512,
        label="Maximum tokens per step (max-num-batched-tokens)",
        help="chunked: maximum tokens per step; decode rows come first",
        flags=("--max-num-batched-tokens",),
        takes=Bounds(low=1, high=MAX_BATCHED_TOKENS, unit="tokens per step"),
        metavar="N",
        group="passes",
    )
    form: FormRule = option(
        FormRule(),
        label="A batch is formed when",
        help="static: when to form a batch: arrived, full or timeout:S",
        flags=("--form",),
        takes=Text(examples="arrived, full or timeout:S"),
        parse=FormRule.parse,
        group="passes",
    )
    returns: str = option(
        "stream",
        label="Response mode",
        help="static: stream each token, or return whole answers when the batch ends",
        flags=("--return",),
        takes=Choices(RETURNS),
        group="passes",
    )
    workload: WorkloadConfig = field(default_factory=WorkloadConfig)
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    warmups: int = option(
        1,
        label="Warm-up rounds before the clock starts",
        help="warm-up rounds before the clock starts",
        flags=("--warmups",),
        takes=Bounds(low=0, high=100),
        metavar="N",
        group="measuring",
    )
    pool_gib: float | None = option(
        None,
        label="KV pool limit, GiB (pool-gib)",
        help="limit of the KV pool",
        flags=("--pool-gib",),
        takes=_GIB,
        metavar="GIB",
        group="passes",
    )
    capacity_gib: float | None = option(
        None,
        label="Memory limit, GiB (capacity-gib)",
        help="limit of all memory",
        flags=("--capacity-gib",),
        takes=_GIB,
        metavar="GIB",
        group="passes",
    )
    gpu_memory_utilization: float = option(
        0.9,
        label="Share of the GPU's memory (gpu-memory-utilization)",
        help="share of the GPU's memory that a run may use",
        flags=("--gpu-memory-utilization",),
        takes=Bounds(low=0, high=1, whole=False, above=True, noun="a share"),
        metavar="SHARE",
        group="passes",
    )

    def __post_init__(self) -> None:
        check_options(self)
        preset = PRESETS[self.engine]
        if preset.is_chunked and self.max_num_batched_tokens < self.slots:
            raise FieldError(
                "max_num_batched_tokens",
                f"max-num-batched-tokens {self.max_num_batched_tokens}: {self.slots} slots need at least {self.slots} "
                "tokens per step, one for each decode row; raise it or use fewer slots",
            )
        if not preset.forms_batches and self.returns != "stream":
            raise FieldError("return", f"return {self.returns}: only the static engine returns whole answers")
        if not preset.forms_batches and self.form.rule != "arrived":
            raise FieldError("form", f"form {self.form}: only the static engine forms batches")

    @property
    def num_slots(self) -> int:
        """Rows at once: `slots`, unless the engine has a number of its own."""
        return PRESETS[self.engine].slots or self.slots

    def to_dict(self) -> dict[str, Any]:
        """The configuration as plain JSON values, nested like its fields."""
        data = asdict(self)
        data["form"] = str(self.form)
        data["workload"]["prompt_lines"] = list(self.workload.prompt_lines)
        return data

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """The inverse of `to_dict`. ValueError for an unknown setting or a value that is out of range."""
        values = _settings(cls, data)
        if "workload" in values:
            values["workload"] = WorkloadConfig(**_settings(WorkloadConfig, values["workload"], "workload."))
        if "sampling" in values:
            values["sampling"] = SamplingConfig(**_settings(SamplingConfig, values["sampling"], "sampling."))
        return cls(**values)


SETTINGS: dict[str, Option] = {
    each.name: each for kind in (RunConfig, WorkloadConfig, SamplingConfig) for each in options_of(kind).values()
}  # every option of a run, by name


def _settings(kind: type, data: dict[str, Any], inside: str = "") -> dict[str, Any]:
    """`data` as settings of `kind`. ValueError for an unknown name or a value of the wrong type."""
    declared = options_of(kind)
    unknown = sorted(set(data) - {each.name for each in fields(kind)})
    if unknown:
        raise ValueError(f"unknown setting {', '.join(inside + name for name in unknown)}")
    values = {}
    for name, value in data.items():
        each = declared.get(name)
        accepted, called = each.json_types if each is not None else ((dict,), "an object")
        if not isinstance(value, accepted) or (isinstance(value, bool) and bool not in accepted):
            raise FieldError(each.parameter if each else name, f"{inside}{name} {value!r}: use {called}")
        if isinstance(value, list | tuple) and not all(isinstance(line, str) for line in value):
            raise FieldError(name, f"{inside}{name}: use a list of texts")
        values[name] = value if each is None else each.value_of(value)
    return values

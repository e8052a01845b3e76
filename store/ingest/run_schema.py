"""The types and limits of run.json, result.json and an experiment's files, checked once, at ingest.

Pages rely on them: a configuration is an object, a model's name is text, a count is a number that fits its column. A
value may be missing where an older version of the lab did not write it, and unknown keys are allowed, because a newer
one may add some.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from engine.core.config import MAX_REQUESTS, MAX_SLOTS
from engine.runlog.experiment_log import EXPERIMENT_FILE, POINTS_FILE, LoggedExperiment
from engine.runlog.reader import RUN_ID, RUN_ID_RULE, STATUSES
from engine.runlog.schema import RESULT_FILE, RUN_FILE
from store.database import utc

MAX_DEPTH = 40
SHOWN_CHARACTERS = 80
RULES = {  # of pydantic's error types, in the lab's words
    "missing": "must be there",
    "model_type": "must be an object",
    "dict_type": "must be an object",
    "list_type": "must be a list",
    "string_type": "must be text",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "string_pattern_mismatch": f"must be an id: {RUN_ID_RULE}",
}


def _moment(text: str) -> str:
    if utc(text) is None:
        raise ValueError("is not a time in ISO form")
    return text


def _known_status(text: str) -> str:
    if text not in STATUSES:
        raise ValueError(f"is not one of {', '.join(STATUSES)}")
    return text


Count = Annotated[int, Field(ge=0, le=2**31 - 1)]
Size = Annotated[int, Field(ge=0, le=1 << 62)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Name = Annotated[str, Field(max_length=10_000)]
Moment = Annotated[str, AfterValidator(_moment)]
Id = Annotated[str, Field(pattern=rf"^{RUN_ID.pattern}$")]


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow")


class WorkloadSettings(_Part):
    prompts: Name | None = None
    requests: Annotated[int, Field(ge=0, le=MAX_REQUESTS)] | None = None
    budget: Name | None = None
    arrival: Name | None = None
    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] | None = None
    prompt_lines: list[str] | None = None


class Settings(_Part):
    """run.json's `config`; `RunConfig.from_dict` checks the rest where a page needs it."""

    engine: Name | None = None
    model: Name | None = None
    device: Name | None = None
    dtype: Name | None = None
    execution: Name | None = None
    timing: Name | None = None
    slots: Annotated[int, Field(ge=1, le=MAX_SLOTS)] | None = None
    block_size: Count | None = None
    max_num_batched_tokens: Count | None = None
    warmups: Count | None = None
    pool_gib: Number | None = None
    capacity_gib: Number | None = None
    workload: WorkloadSettings | None = None
    sampling: dict[str, Any] | None = None


class LoggedWorkload(_Part):
    digest: Name | None = None
    requests: Annotated[int, Field(ge=0, le=MAX_REQUESTS)] | None = None
    prompts: Name | None = None
    budget: Name | None = None
    arrival: Name | None = None
    seed: Size | None = None


class LoggedModel(_Part):
    name: Name | None = None
    source: Name | None = None
    dtype: Name | None = None
    parameters: Size | None = None
    layers: Count | None = None
    hidden: Count | None = None
    heads: Count | None = None
    kv_heads: Count | None = None
    head_dim: Count | None = None
    intermediate: Count | None = None
    vocab: Count | None = None
    max_positions: Size | None = None
    random_weights: bool | None = None
    eos_token_ids: list[int] | None = None
    weight_bits: Number | None = None
    kv_position_bytes: Size | None = None
    tokenizer_file: Name | None = None


class LoggedDevice(_Part):
    kind: Name | None = None
    name: Name | None = None
    memory_bytes: Size | None = None
    threads: Count | None = None


class LoggedEnvironment(_Part):
    cpu_count: Count | None = None
    load_average_1min: Number | None = None
    source: str | None = None


class ExperimentOfRun(_Part):
    id: Id | None = None
    kind: Name | None = None
    label: Name | None = None
    key: Name | None = None
    repeat: Count | None = None


class RunFile(_Part):
    """run.json."""

    run_id: Id
    schema_version: Count
    created_at: Moment | None = None
    engine: Name | None = None
    policy: Name | None = None
    kv_layout: Name | None = None
    kv_blocks: Count | None = None
    block_size: Count | None = None
    max_num_batched_tokens: Count | None = None
    execution: Name | None = None
    timing: Name | None = None
    config: Settings
    workload: LoggedWorkload | None = None
    model: LoggedModel | None = None
    device: LoggedDevice | None = None
    environment: LoggedEnvironment | None = None
    experiment: ExperimentOfRun | None = None
    simulated: bool | None = None


class Shortage(_Part):
    asked_bytes: Size | None = None
    free_bytes: Size | None = None
    shape: str | None = None
    where: str | None = None


class WarmUp(_Part):
    prompt_tokens: list[Count] | None = None
    rows: Count | None = None


class ResultFile(_Part):
    """result.json. A total may be NaN, which the lab writes where it has no value."""

    status: Annotated[str, AfterValidator(_known_status)]
    error: str | None = None
    ended_at: Moment | Literal[""] | None = None
    oom: Shortage | None = None
    totals: dict[str, float | None] | None = None
    notes: list[str] | None = None
    warm_up: WarmUp | None = None
    clocks: dict[str, Any] | None = None


def check_run(folder: Path, info: Mapping[str, Any], result: Mapping[str, Any] | None) -> None:
    """ValueError in one line, which names the file and the key, if a value has another type or is out of bounds."""
    _check(RunFile, info, folder / RUN_FILE)
    check_plain(info, folder / RUN_FILE)
    if result is not None:
        _check(ResultFile, result, folder / RESULT_FILE)
        check_plain({name: value for name, value in result.items() if name != "totals"}, folder / RESULT_FILE)


def check_plain(content: object, path: Path) -> None:
    """ValueError in one line for what JSON or the store cannot hold: NaN, numbers of over 64 bits, half characters, and
    deep nesting."""
    waiting = [(content, 0)]
    while waiting:
        value, depth = waiting.pop()
        if depth > MAX_DEPTH:
            raise ValueError(f"{path}: refused: nested more than {MAX_DEPTH} deep")
        if isinstance(value, Mapping):
            waiting += [(part, depth + 1) for pair in value.items() for part in pair]
        elif isinstance(value, list | tuple):
            waiting += [(part, depth + 1) for part in value]
        elif isinstance(value, str):
            _check_text(value, path)
        elif isinstance(value, float) and not abs(value) < float("inf"):
            raise ValueError(f"{path}: refused: {value} is not a finite number")
        elif isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise ValueError(f"{path}: refused: a number has more than 64 bits")


def _check_text(text: str, path: Path) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{path}: refused: {text[:SHOWN_CHARACTERS]!r} is not UTF-8 text") from None


def _check(schema: type[BaseModel], content: Mapping[str, Any], path: Path) -> None:
    try:
        schema.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"] if not str(part).startswith(("function-", "literal[")))
        shown = "missing" if first["type"] == "missing" else repr(first["input"])[:SHOWN_CHARACTERS]
        rule = RULES.get(first["type"]) or first["msg"].removeprefix("Value error, ").removeprefix("Input ")
        raise ValueError(f"{path}: refused: {place[:SHOWN_CHARACTERS]} is {shown}; it {rule}") from None
    except RecursionError:
        raise ValueError(f"{path}: refused: nested too deeply") from None


def check_experiment(folder: Path, logged: LoggedExperiment) -> None:
    """ValueError in one line for what a plan or a record cannot hold; their types are checked when they are read."""
    plan = logged.plan
    times = [(EXPERIMENT_FILE, "created_at", plan.created_at)]
    times += [(POINTS_FILE, "ended_at", record.ended_at) for record in logged.records if record.ended_at]
    for file, name, moment in times:
        if utc(moment) is None:
            shown = repr(moment)[:SHOWN_CHARACTERS]
            raise ValueError(f"{folder / file}: refused: {name} is {shown}; it is not a time in ISO form")
    check_plain(plan.to_dict(), folder / EXPERIMENT_FILE)
    for record in logged.records:
        check_plain(record.to_dict(), folder / POINTS_FILE)
    numbers = [*((p.repeat, p.position) for p in plan.points), *((r.repeat, 0) for r in logged.records)]
    if any(not 0 <= number < 2**31 for pair in numbers for number in pair):
        raise ValueError(f"{folder / EXPERIMENT_FILE}: refused: a repeat or position is not between 0 and 2^31")

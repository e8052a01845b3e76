"""`engine parity`: its cases, its oracles, and that it finds what is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest
from torch import Tensor

from engine.cli import main
from engine.commands.parity_cases import make_cases
from engine.core.config import RunConfig
from engine.core.presets import ENGINES
from engine.core.request import Request
from engine.runtime.kv.paged_attention import GatherBuffer
from engine.runtime.measuring.logit_error import ExactLogits, ForcedSampler, judge_case
from engine.runtime.measuring.parity import ParityCase, References, run_case
from engine.runtime.prepared_run import WarmModel

pytestmark = pytest.mark.usefixtures("own_locks")  # a lab that is in use is not waited for

CASES = {case.name: case for case in make_cases(seed=0)}
PREEMPTED = CASES["a pool of 7 blocks, preempted"]


@pytest.fixture(scope="module")
def warm() -> WarmModel:
    return WarmModel()


def config(dtype: str = "fp32") -> RunConfig:
    return RunConfig(model="tiny-random", device="cpu", dtype=dtype)


def rows(
    case: ParityCase, engines: Sequence[str], warm: WarmModel, oracles: Sequence[str] = ("generate",)
) -> list[dict[str, Any]]:
    return run_case(case, engines, config(), warm, References(config(), warm, oracles, lambda text: None))


def test_every_engine_is_equal_on_the_tiny_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["parity", "--engines", "all", "--model", "tiny-random", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["all_equal"] is True
    cases = report["cases"]
    assert all(row["equal_to_serial"] and row["equal_to_generate"] and row["equal_to_generate_batch"] for row in cases)
    assert {row["engine"] for row in cases} == set(ENGINES)
    assert {row["name"] for row in cases} == set(CASES)
    assert {row["engine"] for row in cases if row["name"].startswith("chunks of")} == {"chunked"}
    assert {row["engine"] for row in cases if row["preemptions"]} == {"paged", "chunked"}


def test_cases_force_what_they_say() -> None:
    """Chunks of each size, one that leaves a single token, and prompts that end at each of the 16 places of a block."""
    lengths = {name: {getattr(s.prompt, "tokens", 0) for s in c.workload.requests} for name, c in CASES.items()}
    sizes = {name: c.settings["max_num_batched_tokens"] for name, c in CASES.items() if name.startswith("chunks")}
    assert set(sizes.values()) == {1, 7, 64, 512}
    assert all(max(lengths[name]) > size for name, size in sizes.items())
    assert {n % 64 for n in lengths["chunks of 64, the last of one token"]} == {1}
    assert {n % 16 for n in lengths["prompts at every offset of a block"]} == set(range(16))


def test_a_wrong_block_is_found_and_is_no_near_tie(warm: WarmModel, monkeypatch: pytest.MonkeyPatch) -> None:
    gather = GatherBuffer.gather

    def one_wrong_position(self: GatherBuffer, layer: int, index: Tensor) -> tuple[Tensor, Tensor]:
        wrong = index.clone()
        if len(wrong):
            wrong[0] = wrong[-1]
        return gather(self, layer, wrong)

    monkeypatch.setattr(GatherBuffer, "gather", one_wrong_position)
    found = rows(CASES["ragged"], ["continuous", "paged"], warm)
    assert found[0]["equal"] is True
    assert found[1]["equal"] is found[1]["equal_to_serial"] is found[1]["equal_to_generate"] is False
    differences = [d for each in found[1]["differences"].values() for d in each]
    assert not any(d["near_tie"] for d in differences)
    assert all(d["logit_gap"] > d["rounding"] > 0 for d in differences)


def test_an_oracle_that_cannot_run_is_null_and_nobody_fails(warm: WarmModel, monkeypatch: pytest.MonkeyPatch) -> None:
    model = WarmModel().get(config(), lambda message, share: None)[0].model

    def broken(*_: Any, **__: Any) -> Any:
        raise NotImplementedError("not on this machine")

    monkeypatch.setattr(type(model), "generate_batch", broken)
    messages: list[str] = []
    references = References(config(), warm, ("generate", "generate_batch"), messages.append)
    row = run_case(CASES["single"], ["paged"], config(), warm, references)[0]
    assert (row["equal"], row["equal_to_generate"], row["equal_to_generate_batch"]) == (True, True, None)
    assert messages == ["generate_batch cannot run here: NotImplementedError: not on this machine"]


def test_cases_of_the_same_requests_ask_the_oracles_once(warm: WarmModel) -> None:
    references = References(config(), warm, ("generate",), lambda text: None)
    answers = [references.of(CASES[name])["generate"] for name in ("ragged", "chunks of 7", "blocks of 32")]
    assert answers[0] is answers[1] is answers[2]
    assert references.of(CASES["ragged, longest prompt ends first"])["generate"] is not answers[0]


def test_in_bf16_logits_are_compared_with_exact_ones(warm: WarmModel) -> None:
    references = References(config("bf16"), warm, (), lambda text: None)
    measured = judge_case(PREEMPTED, ENGINES, config("bf16"), warm, references, ExactLogits())
    assert [row["engine"] for row in measured] == ["paged", "chunked"]
    for row in measured:
        assert row["within"] is True
        # bf16 keeps 8 bits: logits of a few units are off by hundredths, not by nothing and not by tenths.
        assert 0.001 < row["logit_error"] < 0.5
        assert row["ratio"] == row["logit_error"] / row["logit_error_sdpa"]


def test_wrong_logits_are_not_within(warm: WarmModel, monkeypatch: pytest.MonkeyPatch) -> None:
    sample = ForcedSampler.sample

    def off_by_one(self: ForcedSampler, logits: Tensor, rows: Sequence[Request]) -> Tensor:
        return sample(self, logits + 1, rows)

    monkeypatch.setattr(ForcedSampler, "sample", off_by_one)
    references = References(config("bf16"), warm, (), lambda text: None)
    row = judge_case(CASES["single"], ["paged"], config("bf16"), warm, references, ExactLogits())[0]
    assert row["within"] is False
    assert row["logit_error"] >= 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--engines", "paged,warp"], "engines 'warp': use all, or some of"),
        (["--engines", ""], "engines '': use all"),
        (["--engines", "paged,paged"], "engines 'paged,paged': name each once"),
        (["--execution", "graph", "--device", "cpu"], "execution graph: CUDA graphs need a CUDA GPU"),
    ],
)
def test_bad_input_gets_one_clear_line(options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["parity", "--model", "tiny-random", *options]) == 2
    line = capsys.readouterr().err.strip().splitlines()[-1]
    assert message in line


@pytest.mark.slow
def test_every_engine_is_equal_on_the_default_model() -> None:
    """A process of its own, with all cores. A few of the cases: all of them take minutes."""
    few = [part for name in ("single", "7 blocks") for part in ("--case", name)]
    done = subprocess.run(
        [sys.executable, "-m", "engine", "parity", "--engines", "all", "--dtype", "fp32", *few, "--json"],
        capture_output=True,
        text=True,
        timeout=1800,
    )
    report = json.loads(done.stdout)
    assert report["all_equal"] is True, [row["differences"] for row in report["cases"] if not row["equal"]]
    oracles = ("equal_to_serial", "equal_to_generate", "equal_to_generate_batch")
    assert all(row[oracle] for row in report["cases"] for oracle in oracles)
    assert len(report["cases"]) == 5 + 2

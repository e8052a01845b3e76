"""`engine gpus`: its table, its JSON, its exit codes."""

from __future__ import annotations

import json

import pytest

from engine.cli import main
from engine.core.format import breakable

OPTIONS = ["gpus", "--model", "tiny-random", "--hardware", "h100", "--execution", "graph"]
OPTIONS += ["--slots", "1", "--prompts", "p16", "--budget", "1"]


def test_the_answer_in_words_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [*OPTIONS, "--arrival", "constant:50000", "--ttft-limit-s", "1"]
    assert main(arguments) == 0
    text = breakable(capsys.readouterr().out)
    assert text.startswith("3 GPUs (NVIDIA H100 SXM, 80 GB) serve 50,000 requests/s with 95")
    assert "3 replicas, tensor parallel size 1" in text
    assert main([*arguments, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["gpus"], report["rate"], report["share"]) == (3, 50_000, 0.95)
    assert [(row["tensor_parallel_size"], row["gpus"]) for row in report["rows"]] == [(1, 3), (2, 12)]


def test_no_number_of_gpus_is_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*OPTIONS, "--ttft-limit-s", "0.000009"]) == 1
    text = breakable(capsys.readouterr().out)
    assert text.startswith("No number of GPUs (NVIDIA H100 SXM, 80 GB) serves 8.00 requests/s")


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ([], "ttft-limit-s: set a limit of TTFT or TPOT, in seconds"),
        (["--ttft-limit-s", "1", "--arrival", "closed"], "arrival closed: use a rate, such as poisson:8"),
        (["--ttft-limit-s", "1", "--dtype", "fp32"], "dtype fp32: hardware h100 has rates for 16-bit arithmetic"),
    ],
)
def test_bad_options_are_refused_in_one_line(more: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*OPTIONS, *more]) == 2
    error = capsys.readouterr().err
    assert line in error
    assert error.count("\n") == 1


def test_a_gpu_must_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gpus", "--ttft-limit-s", "1"]) == 2
    assert "hardware: name a GPU, one of a10, rtx3060, a100, h100, h200" in capsys.readouterr().err

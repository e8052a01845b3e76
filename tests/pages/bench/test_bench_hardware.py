"""Bench in simulation: the switch, sizes that cannot be, planned seconds, problems, links, and the number of GPUs."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from engine.core.config import RunConfig, WorkloadConfig
from engine.core.format import breakable
from engine.hardware.machine_memory import MachineMemory
from engine.load.goodput import Limits
from engine.simulator.machine import SimulationTarget
from pages.parts.bench.fleet import command_of, finding, table
from pages.parts.shared import machine_fit
from pages.parts.shared.fields import complaints, query_of
from tests.pages.bench.test_bench_page import opened, texts, widget
from tests.support.page_app import links, open_page, take_in
from tests.support.runs.page_runs import config_of, write_run

pytestmark = pytest.mark.usefixtures("lab_home")
TWO = SimulationTarget(hardware="h100", tensor_parallel_size=2)
ANSWER = {
    "rate": 20.0,
    "requests": 512,
    "share": 0.95,
    "gpus": 16,
    "rows": [
        {
            "tensor_parallel_size": 1,
            "fits": False,
            "shortage": "out of memory",
            "rate_per_replica": None,
            "replicas": None,
            "gpus": None,
            "tokens_per_s_per_gpu": None,
        },
        {
            "tensor_parallel_size": 4,
            "fits": True,
            "shortage": "",
            "rate_per_replica": 5.43,
            "replicas": 4,
            "gpus": 16,
            "tokens_per_s_per_gpu": 226.0,
        },
        {
            "tensor_parallel_size": 8,
            "fits": True,
            "shortage": "",
            "rate_per_replica": None,
            "replicas": None,
            "gpus": None,
            "tokens_per_s_per_gpu": None,
        },
    ],
}


def sizes(app: AppTest) -> dict[str, bool]:
    """The buttons of tensor parallel sizes, and whether each can be pressed."""
    found = {}
    for button in app.button:
        if str(button.key).startswith("bench.tensor_parallel_size_"):
            found[str(button.key).rpartition("_")[2]] = not button.disabled
    return found


def test_the_switch_brings_the_gpu_and_its_planned_seconds() -> None:
    app = opened()
    assert sizes(app) == {}
    widget(app, "where").set_value("A GPU by simulation").run()
    assert app.query_params["hardware"] == "h100"
    assert sizes(app) == {str(n): n in (1, 3) for n in range(1, 9)}
    widget(app, "model").set_value("llama-3.1-8b")
    widget(app, "execution").set_value("graph").run()
    assert sizes(app) == {str(n): n in (1, 2, 4, 8) for n in range(1, 9)}
    text = texts(app)
    assert "3, 5, 6 and 7 cannot divide the 8 KV heads of llama-3.1-8b" in text
    assert "llama-3.1-8b in bf16 on NVIDIA H100 SXM, 80 GB, with CUDA graphs, simulated" in text
    assert "| duration | output tokens/s | TTFT p50 |" in text
    assert "Times are simulated: by the rates of NVIDIA H100 SXM, 80 GB." in text
    labels = [button.label for button in app.button if not button.disabled]
    assert "Simulate continuous" in labels
    assert "Run continuous" not in labels
    next(button for button in app.button if button.key == "bench.tensor_parallel_size_2").click().run()
    assert app.query_params["tensor_parallel_size"] == "2"
    assert "on 2 x NVIDIA H100 SXM, 80 GB" in texts(app)
    widget(app, "where").set_value("This machine").run()
    assert "hardware" not in app.query_params
    assert "Run continuous" in [button.label for button in app.button]


def test_a_size_that_cannot_be_and_an_unknown_model_say_so() -> None:
    app = opened(hardware="h100", model="llama-3.1-8b", tensor_parallel_size="3")
    assert "3 GPUs cannot share the 8 KV heads of llama-3.1-8b equally; use 1, 2, 4 or 8" in texts(app)
    assert all(b.disabled for b in app.button if b.label.startswith(("Simulate ", "Compare ")))
    app = opened(hardware="h100", model="no-such-model")
    assert "model no-such-model: use smollm2-135m" in texts(app)


def test_a_link_with_unknown_hardware_says_so() -> None:
    text = texts(opened(hardware="zzz"))
    assert "hardware 'zzz': use one of measured, this, a10" in text
    assert "measured is used instead" in text


def test_the_number_of_gpus_needs_a_rate_and_a_limit() -> None:
    app = opened(hardware="h100", model="tiny-random", ttft_limit_s="0.5")
    button = next(button for button in app.button if button.label == "Find the number of GPUs")
    assert button.disabled
    assert "All requests arrive at once; choose arrivals with a rate." in texts(app)


def test_the_number_of_gpus_is_found_in_a_process_of_its_own() -> None:
    query = {"model": "tiny-random", "execution": "graph", "slots": "1", "budget": "1", "arrival": "constant:50000"}
    app = opened(hardware="h100", prompts="lengths", mix="p16", ttft_limit_s="1", **query)
    next(button for button in app.button if button.label == "Find the number of GPUs").click().run(timeout=300)
    assert "3 GPUs serve 50,000 requests/s: 3 replicas with tensor parallel size 1." in texts(app)


def test_the_answer_as_a_sentence_and_a_table() -> None:
    assert breakable(finding(ANSWER)) == "16 GPUs serve 20.0 requests/s: 4 replicas with tensor parallel size 4."
    assert table(ANSWER).splitlines()[2:] == [
        "| – | 1 | – | – | – | does not fit |",
        "| 16 | 4 | 4 | 5.43/s | 226 | fits |",
        "| – | 8 | – | none within the limits | – | fits |",
    ]
    nothing = breakable(finding({**ANSWER, "gpus": None}))
    assert nothing == "No number of GPUs serves 20.0 requests/s with 95.0 % of requests within the limits."


def test_the_search_gets_every_setting_that_is_not_its_default() -> None:
    config = RunConfig(engine="chunked", slots=8, workload=WorkloadConfig(prompts="p16", arrival="poisson:9"))
    command = command_of(config, SimulationTarget(hardware="a10", weight_bits=8), Limits(tpot_s=0.05))
    assert command == (
        *("gpus", "--hardware", "a10", "--json", "--weight-bits", "8", "--engine", "chunked", "--slots", "8"),
        *("--prompts", "p16", "--arrival", "poisson:9", "--tpot-limit-s", "0.05"),
    )


def test_repeat_of_a_simulated_run_opens_bench_in_simulation(lab_home: Path) -> None:
    environment = {"hardware": "h100", "source": "a vendor", "tensor_parallel_size": 2}
    device = {"kind": "cuda", "name": "2 x NVIDIA H100 SXM, 80 GB", "memory_bytes": 80 * 10**9}
    config = config_of("continuous", execution="graph", model="llama-3.1-8b", dtype="bf16")
    write_run(lab_home / "runs", "r1", config=config, simulated=True, environment=environment, device=device)
    take_in(lab_home)
    address = dict(links(open_page("run", run_id="r1")))["Repeat on Bench"]
    for part in ("hardware=h100", "tensor_parallel_size=2", "dtype=bf16", "execution=graph", "model=llama-3.1-8b"):
        assert part in address


def test_a_simulated_runs_link_has_no_complaint_and_a_measured_ones_no_hardware() -> None:
    link = query_of(RunConfig(), TWO)
    assert link == {"hardware": "h100", "tensor_parallel_size": "2"}
    assert complaints(query_of(RunConfig(), SimulationTarget(hardware="this"))) == []
    assert query_of(RunConfig(), SimulationTarget(hardware="a10", weight_bits=8))["weight_bits"] == "8"
    assert query_of(RunConfig()) == {}


def test_a_measured_run_that_exceeds_the_memory_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """32.1 GB of weights in fp32 on a machine with 17.2 GB."""
    memory = MachineMemory(kind="cpu", name="this machine", total_bytes=16 * 2**30)
    monkeypatch.setattr(machine_fit, "_memory_of", lambda device: memory)
    text = breakable(machine_fit.memory_warning(RunConfig(model="llama-3.1-8b", device="cpu")))
    assert text.startswith("llama-3.1-8b in fp32 needs about 3")
    assert "and this machine has 1" in text
    assert "Simulate it on a GPU" in text
    assert machine_fit.memory_warning(RunConfig(model="smollm2-135m", device="cpu")) == ""
    assert machine_fit.memory_warning(RunConfig(model="unknown/model", device="cpu")) == ""
    assert "needs about" in texts(opened(model="llama-3.1-8b", device="cpu"))

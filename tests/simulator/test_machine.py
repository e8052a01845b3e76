"""The machine of a simulation: a GPU preset, values set by the user, or the right one of several calibrations."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.core.config import RunConfig
from engine.hardware.calibration import Calibration
from engine.hardware.roofline import decode_stats
from engine.hardware.step_cost import RooflineCost
from engine.simulator.machine import Overrides, read_calibrations, simulated_machine
from engine.simulator.simulator import simulate
from engine.workload.workload import build_workload
from tests.hardware.test_calibrated_cost import DECODES, PREFILLS, calibration

CPU = calibration(*DECODES, *PREFILLS)
GPU = replace(CPU, device="cuda:0", device_name="Some GPU", dtype="bf16", measured_at="2026-11-30T00:00:00Z")
OTHER = replace(CPU, model="smollm2-135m", measured_at="2026-12-01T00:00:00Z")
CONFIG = RunConfig(engine="static", model="tiny-random", device="cpu")


def test_a_preset_gives_the_roofline_of_the_model() -> None:
    machine = simulated_machine(RunConfig(model="llama-3.1-8b", execution="graph"), "h100")
    assert isinstance(machine.cost, RooflineCost)
    assert (machine.kind, machine.dtype, machine.shape.weight_bits) == ("cuda", "bf16", 16)
    assert machine.cost.launches == 1
    eager = simulated_machine(RunConfig(model="llama-3.1-8b"), "h100")
    assert isinstance(eager.cost, RooflineCost)
    assert eager.cost.launches == 40 * 32 + 3


def test_an_efficiency_scales_set_and_preset_rates() -> None:
    overrides = Overrides(read_bytes_per_s=1e12, efficiency=0.5)
    machine = simulated_machine(RunConfig(model="llama-3.1-8b"), "h100", overrides=overrides)
    assert machine.ceilings is not None
    assert (machine.ceilings.read_bytes_per_s, machine.ceilings.flop_per_s) == (0.5e12, 181e12)
    assert machine.source.endswith("Some values were set by the user.")


def test_this_machine_uses_its_measurements(tmp_path: Path) -> None:
    CPU.save(tmp_path)
    machine = simulated_machine(CONFIG, "this", calibrations=read_calibrations(tmp_path))
    assert (machine.kind, machine.dtype, machine.shape.value_bytes) == ("cpu", "fp32", 4)
    assert machine.cost.pass_s(decode_stats(4, 100)) == pytest.approx(0.010 + 0.004 + 0.004)
    simulation = simulate(CONFIG, build_workload(CONFIG.workload), machine.cost, machine.shape)
    assert simulation.status == "completed"
    assert machine.source == f"Calibrated on {CPU.device_name} (cpu), {CPU.measured_at}."
    busy = replace(CPU, threads=2, load_average_1min=1.2)
    assert simulated_machine(CONFIG, "this", calibrations=[busy]).source.endswith(", while other work was running.")


def test_the_newest_calibration_of_device_and_model_is_used(tmp_path: Path) -> None:
    older = replace(CPU, measured_at="2026-11-01T00:00:00Z", device_name="before")
    for each in (older, CPU, GPU, OTHER):
        each.save(tmp_path)
    (tmp_path / "torn.json").write_text('{"device": "cp')
    known = read_calibrations(tmp_path)
    assert [c.measured_at[:10] for c in known] == ["2026-12-01", "2026-11-30", "2026-11-29", "2026-11-01"]
    assert simulated_machine(CONFIG, "this", calibrations=known).label == CPU.device_name
    anywhere = replace(CONFIG, device="auto")
    assert simulated_machine(anywhere, "this", calibrations=known).label == "Some GPU"
    assert simulated_machine(replace(anywhere, dtype="fp32"), "this", calibrations=known).kind == "cpu"


@pytest.mark.parametrize(
    ("known", "words"),
    [
        ((), "no calibration of cpu here; run `python -m engine calibrate --model tiny-random`"),
        ((GPU,), "no calibration of cpu"),
        ((OTHER,), "calibrated with smollm2-135m"),
    ],
)
def test_missing_measurements_are_refused(known: tuple[Calibration, ...], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        simulated_machine(CONFIG, "this", calibrations=known)

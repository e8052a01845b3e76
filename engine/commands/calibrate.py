"""`engine calibrate`: measures this machine's limits and saves them under LAB_HOME/calibrations."""

from __future__ import annotations

import argparse
import os
from dataclasses import replace

from engine.commands import options
from engine.commands.experiments import tell
from engine.core.config import SETTINGS, RunConfig
from engine.core.format import duration, number, quantity, size
from engine.core.home import lab_home
from engine.core.option import Option, Text, settings_of
from engine.core.presets import ENGINES, PRESETS, parse_engines
from engine.core.terminal import table_lines
from engine.hardware.calibration import Calibration

NO_ENGINE = "none"
MEASURED_ENGINES = Option(
    default=",".join(name for name in ENGINES if PRESETS[name].calibrate_with == name),
    label="Engines",
    help=f"engines whose passes are measured, to simulate this machine; {NO_ENGINE}: measure only the limits",
    flags=("--engines",),
    takes=Text(examples=f"{NO_ENGINE}, or some of {', '.join(ENGINES)}"),
    metavar="LIST",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_model_options(parser)
    options.add_options(parser, (MEASURED_ENGINES, SETTINGS["execution"], SETTINGS["timing"]))
    parser.add_argument("--json", action="store_true", help="one JSON object, as stored")


def run(args: argparse.Namespace) -> int:
    """0 when measured and saved. ValueError for a model, device or dtype that is unavailable."""
    config = RunConfig(**settings_of(RunConfig, vars(args)))
    engines = parse_engines(args.engines, also=(NO_ENGINE,))
    calibration = measure(config, () if engines == (NO_ENGINE,) else engines)
    try:
        path = calibration.save(lab_home() / "calibrations")
    except OSError as error:
        raise ValueError(f"cannot save the calibration ({error}): set LAB_HOME to a writable folder") from error
    print(calibration.to_json() if args.json else f"{table(calibration)}\nsaved in {path}")
    return 0


def measure(config: RunConfig, engines: tuple[str, ...]) -> Calibration:
    """Load the model, wait for the device, measure passes of each of `engines`, then the ceilings."""
    # Loading torch takes seconds, which --help does not need.
    from engine.runlog.device_hold import hold_device
    from engine.runtime.environment import use_available_threads
    from engine.runtime.kv.attention_fit import length_limit
    from engine.runtime.measuring.calibration import calibrate
    from engine.runtime.measuring.measured_passes import measure_passes, shapes_for
    from engine.runtime.prepared_run import WarmModel

    use_available_threads()
    warm = WarmModel()
    loaded, device, dtype = warm.get(config, lambda message, share: tell(message))
    longest = min(loaded.spec.max_positions, length_limit(loaded.model.config) or loaded.spec.max_positions)
    shapes = shapes_for(device, longest, config.execution)
    with hold_device(str(device), "calibrate", on_wait=lambda taken: tell(f"waiting: {taken}")):
        load_average_1min = os.getloadavg()[0]
        # Passes come first: `calibrate` ends with a profiler, and nothing may be timed after that.
        passes = [
            measured
            for engine in engines
            for measured in measure_passes(replace(config, engine=engine), warm, shapes, tell)
        ]
        ceilings = calibrate(loaded, device, dtype, tell, load_average_1min=load_average_1min)
    return replace(ceilings, passes=tuple(passes))


def table(calibration: Calibration) -> str:
    """The figures with their units."""
    c = calibration
    issue = "" if c.pass_issue_s is None else f", of which the host issues for {duration(c.pass_issue_s)}"
    rows = [
        ("device", f"{c.device_name} ({c.device}), {c.threads} threads, load {number(c.load_average_1min)}"),
        ("read", f"{quantity(c.read_bytes_per_s / 1e9, 'GB/s')} over {size(c.buffer_bytes)}"),
        ("copy", f"{quantity(c.copy_bytes_per_s / 1e9, 'GB/s')}, reads plus writes"),
        *((f"matmul {name}", quantity(value / 1e12, "TFLOP/s")) for name, value in c.matmul_flop_per_s.items()),
        ("launch", f"{duration(c.launch_s)} per operation"),
        ("decode pass", f"{duration(c.pass_s)} for one row of {c.model} in {c.dtype}{issue}"),
        ("kernels", f"{c.kernels_per_pass:,} per pass"),
        ("passes", f"{len(c.passes)} measured" if c.passes else "none measured: this machine cannot be simulated"),
    ]
    if c.was_busy:
        rows.append(("note", "other work was running; measure again on an idle machine"))
    return "\n".join(table_lines(rows, "ll"))

"""A calibration of this machine: passes of engines in their own loop, then the device's limits.

In full it takes minutes. A short one has few shapes, measured once, until its time is over: enough for a plan's
seconds, not for an accurate simulation.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from engine.core.config import RunConfig
from engine.hardware.calibration import Calibration
from engine.runlog.device_hold import hold_device
from engine.runtime.kv.attention_fit import length_limit
from engine.runtime.measuring.calibration import ENOUGH_S, calibrate
from engine.runtime.measuring.measured_passes import (
    measure_passes,
    measure_passes_within,
    shapes_for,
    short_shapes,
)
from engine.runtime.models.model_cache import ProgressCallback
from engine.runtime.prepared_run import WarmModel

SHORT_PASSES_S = 11.0  # of a short calibration; the limits take the rest of its 20 s
SHORT_FIGURE_S = 0.2
LIMITS = 3  # memory bandwidth, products, launches


@dataclass(frozen=True, slots=True, kw_only=True)
class Reports:
    """What a calibration calls: at the stages of loading, with one line on a wait for the device, and before each
    measurement with its name, how many are done, and how many there are at most.

    `should_stop` is asked before each measurement.
    """

    loading: ProgressCallback
    waiting: Callable[[str], object]
    progress: Callable[[str, int, int], object]
    should_stop: Callable[[], bool] = lambda: False


def calibrate_machine(
    config: RunConfig, engines: Sequence[str], warm: WarmModel, reports: Reports, *, short: bool = False
) -> Calibration:
    """Load the model, wait for the device, measure passes of each of `engines`, then the limits.

    ValueError for a model, device or dtype that is unavailable; InterruptedError if `should_stop` turns true.
    """
    loaded, device, dtype = warm.get(config, reports.loading)
    longest = min(loaded.spec.max_positions, length_limit(loaded.model.config) or loaded.spec.max_positions)
    execution = config.execution
    shapes = short_shapes(device, longest, execution) if short else shapes_for(device, longest, execution)
    of = (len(shapes) if short else 1) * len(engines) + LIMITS
    done = itertools.count()

    def progress(message: str) -> None:
        if reports.should_stop():
            raise InterruptedError("canceled")
        reports.progress(message, min(next(done), of), of)

    with hold_device(str(device), "calibrate", on_wait=reports.waiting, should_stop=reports.should_stop):
        load_average_1min = os.getloadavg()[0]
        # Passes come first: `calibrate` ends with a profiler, and nothing may be timed after that.
        configs = [replace(config, engine=engine) for engine in engines]
        if short:
            passes = measure_passes_within(configs, warm, shapes, progress, SHORT_PASSES_S)
        else:
            passes = [found for each in configs for found in measure_passes(each, warm, shapes, progress)]
        enough_s = SHORT_FIGURE_S if short else ENOUGH_S
        limits = calibrate(loaded, device, dtype, progress, load_average_1min=load_average_1min, enough_s=enough_s)
    return replace(limits, passes=tuple(passes), short=short)

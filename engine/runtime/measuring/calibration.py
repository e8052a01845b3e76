"""Measures a device's limits: memory bandwidth, matrix products, launch cost, kernels per pass.

All values are medians after a warm-up. Buffers are four times the last-level cache, so that memory bandwidth is
measured; on a CPU at most a gigabyte (some virtual machines report the whole host's cache). Reading sums a buffer;
copying writes one buffer to another (a CPU may also read the target's cache lines, which is not counted). Other load on
the machine is not detected: the load average is stored with the results.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch._C._autograd import DeviceType
from torch.utils._python_dispatch import TorchDispatchMode

from engine.core.config import RunConfig, SamplingConfig
from engine.core.format import size
from engine.core.passes import PassKind
from engine.core.presets import make_scheduler
from engine.core.request import ExactPrompt, Request, RequestSpec
from engine.core.run_id import current_time
from engine.core.schedulers.scheduler import Scheduler
from engine.core.units import MIB
from engine.hardware.calibration import Calibration
from engine.runtime.environment import describe_device
from engine.runtime.kv.kv_cache import KVShape
from engine.runtime.model_runner import SlotRunner
from engine.runtime.models.loading import TORCH_DTYPES, LoadedModel
from engine.runtime.sampler import Sampler

_REPEATS = 9
_LEAST_REPEATS = 3
ENOUGH_S = 1.5  # fewer repeats on a slow machine, to stay within half a minute
_CACHES = 4
_LAUNCHES = 2000
_PROMPT_TOKENS = 128
_WARM_PASSES = 4
_TIMED_PASSES = 15
_LONG_ENOUGH_S = 0.02  # a CPU's product grows until it takes this long


def calibrate(
    loaded: LoadedModel,
    device: torch.device,
    dtype: torch.dtype,
    on_progress: Callable[[str], None],
    *,
    load_average_1min: float,
    enough_s: float = ENOUGH_S,
) -> Calibration:
    """Measure `device`, and a decode pass of `loaded` on it, in half a minute. The caller holds the device's lock.

    `load_average_1min`: the machine's load before measuring, which itself adds load. `enough_s`: the time for one
    figure, after the least number of repeats. `on_progress` may raise InterruptedError to stop.
    """
    cache_bytes = last_cache_bytes(device)
    buffer_bytes = _buffer_bytes(device, cache_bytes)
    on_progress(f"memory bandwidth over {size(buffer_bytes)}")
    read_bytes_per_s, copy_bytes_per_s = bandwidth(device, buffer_bytes, enough_s)
    on_progress("matrix products")
    products = {name: matmul_flop_per_s(device, kind, enough_s) for name, kind in TORCH_DTYPES.items()}
    on_progress("launches and a decode pass")
    launch_s = launch_cost_s(device, enough_s)
    kernels, pass_s, issue_s = decode_pass(loaded, device, dtype, enough_s)
    return Calibration(
        device=str(device),
        device_name=describe_device(device)["name"],
        threads=torch.get_num_threads(),
        torch_version=torch.__version__,
        measured_at=current_time().strftime("%Y-%m-%dT%H:%M:%SZ"),
        load_average_1min=load_average_1min,
        cache_bytes=cache_bytes,
        buffer_bytes=buffer_bytes,
        read_bytes_per_s=read_bytes_per_s,
        copy_bytes_per_s=copy_bytes_per_s,
        matmul_flop_per_s={name: value for name, value in products.items() if value is not None},
        launch_s=launch_s,
        model=loaded.spec.name,
        dtype=next(name for name, kind in TORCH_DTYPES.items() if kind == dtype),
        kernels_per_pass=kernels,
        pass_s=pass_s,
        pass_issue_s=issue_s if device.type == "cuda" else None,
    )


def bandwidth(device: torch.device, buffer_bytes: int, enough_s: float = ENOUGH_S) -> tuple[float, float]:
    """Bytes per second of reading a buffer, and of copying it to another (reads plus writes)."""
    source = torch.ones(buffer_bytes // 4, device=device)  # not zeros: untouched pages all map to one page
    target = torch.ones_like(source)
    read_s = _median_s(lambda: source.sum(), device, enough_s=enough_s)
    copy_s = _median_s(lambda: target.copy_(source), device, enough_s=enough_s)
    return buffer_bytes / read_s, 2 * buffer_bytes / copy_s


def matmul_flop_per_s(device: torch.device, dtype: torch.dtype, enough_s: float = ENOUGH_S) -> float | None:
    """FLOP/s of a square matrix product; None if the device does not support the dtype."""
    size = 8192 if device.type == "cuda" else 512
    try:
        seconds = _product_s(size, device, dtype, repeats=1)
        while device.type == "cpu" and seconds < _LONG_ENOUGH_S and size < 4096:
            size *= 2
            seconds = _product_s(size, device, dtype, repeats=1)
        return 2 * size**3 / _product_s(size, device, dtype, repeats=_REPEATS, enough_s=enough_s)
    except RuntimeError:
        return None


def launch_cost_s(device: torch.device, enough_s: float = ENOUGH_S) -> float:
    """Host seconds per operation on one element, when many are issued in a row."""
    value = torch.zeros(1, device=device)

    def many() -> None:
        for _ in range(_LAUNCHES):
            value.add_(1)

    return _median_s(many, device, enough_s=enough_s) / _LAUNCHES


def decode_pass(
    loaded: LoadedModel, device: torch.device, dtype: torch.dtype, enough_s: float = ENOUGH_S
) -> tuple[int, float, float]:
    """A decode pass of one row after 128 prompt tokens: kernels, seconds, and the host's seconds to issue it."""
    step = _decode_steps(loaded, device, dtype)
    for _ in range(_WARM_PASSES):
        step()
    whole_s: list[float] = []
    issue_s: list[float] = []
    while _wants_more(whole_s, _TIMED_PASSES, enough_s):
        _synchronize(device)
        start_s = time.perf_counter()
        step()
        issue_s.append(time.perf_counter() - start_s)
        _synchronize(device)
        whole_s.append(time.perf_counter() - start_s)
    # Counted last: a profiler can slow down everything after it.
    kernels = _count_cuda_kernels(step) if device.type == "cuda" else _count_operations(step)
    return kernels, statistics.median(whole_s), statistics.median(issue_s)


def last_cache_bytes(device: torch.device) -> int | None:
    """Bytes of the last-level cache, None if unknown."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).L2_cache_size)
    sizes = []
    for file in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = file.read_text().strip()
        unit = {"K": 2**10, "M": 2**20, "G": 2**30}.get(text[-1:], 1)
        sizes.append(int(text.rstrip("KMG")) * unit)
    return max(sizes, default=None)


def _buffer_bytes(device: torch.device, cache_bytes: int | None) -> int:
    """Four times the cache within bounds, and no more than an eighth of the free memory."""
    wanted_bytes = _CACHES * (cache_bytes or 0)
    if device.type == "cuda":
        free_bytes = torch.cuda.mem_get_info(device)[0]
        wanted_bytes = max(wanted_bytes, 4096 * MIB)
    else:
        free_bytes = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        wanted_bytes = min(max(wanted_bytes, 256 * MIB), 1024 * MIB)
    return max(MIB, min(wanted_bytes, free_bytes // 8) // MIB * MIB)


def _product_s(
    size: int, device: torch.device, dtype: torch.dtype, *, repeats: int, enough_s: float = ENOUGH_S
) -> float:
    # Random operands: a chip multiplies constants with less power, so faster than real data.
    draws = torch.Generator(device=device).manual_seed(0)
    left = torch.randn(size, size, device=device, generator=draws).to(dtype)
    right = torch.randn(size, size, device=device, generator=draws).to(dtype)
    return _median_s(lambda: left @ right, device, repeats=repeats, enough_s=enough_s)


def _median_s(
    operation: Callable[[], Any], device: torch.device, *, repeats: int = _REPEATS, enough_s: float = ENOUGH_S
) -> float:
    """Median seconds of `operation` after one warm-up call; by device events on a GPU."""
    operation()
    _synchronize(device)
    time_one = _cuda_s if device.type == "cuda" else _host_s
    seconds: list[float] = []
    while _wants_more(seconds, repeats, enough_s):
        seconds.append(time_one(operation))
    return statistics.median(seconds)


def _wants_more(seconds: list[float], repeats: int, enough_s: float) -> bool:
    """Whether to measure again: up to `repeats` times, within the time for one figure."""
    return len(seconds) < repeats and (len(seconds) < _LEAST_REPEATS or sum(seconds) < enough_s)


def _host_s(operation: Callable[[], Any]) -> float:
    start_s = time.perf_counter()
    operation()
    return time.perf_counter() - start_s


def _cuda_s(operation: Callable[[], Any]) -> float:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    operation()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / 1e3


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _decode_steps(loaded: LoadedModel, device: torch.device, dtype: torch.dtype) -> Callable[[], Tensor]:
    """A function that runs the next decode pass of one prefilled request."""
    spec = loaded.spec
    passes = _WARM_PASSES + _TIMED_PASSES + 2
    request = _one_request(budget_tokens=passes + 1)
    shape = KVShape(layers=spec.layers, kv_heads=spec.kv_heads, head_dim=spec.head_dim, dtype=dtype, device=device)
    runner = SlotRunner(loaded.model, shape, Sampler(SamplingConfig()), 1, _PROMPT_TOKENS + passes + 1)
    scheduler = make_scheduler(RunConfig(engine="serial"), [request])
    scheduler.submit_arrived(0.0)
    scheduler.admit(0.0)
    _run_next(scheduler, runner, PassKind.PREFILL)
    return lambda: _run_next(scheduler, runner, PassKind.DECODE)


def _run_next(scheduler: Scheduler, runner: SlotRunner, kind: PassKind) -> Tensor:
    planned = scheduler.plan(kind)
    assert planned is not None
    tokens = runner.run(planned)
    scheduler.complete(planned, ())
    return tokens


def _one_request(budget_tokens: int) -> Request:
    spec = RequestSpec(
        request_id=0,
        prompt=ExactPrompt(tokens=_PROMPT_TOKENS, passage=0),
        budget_tokens=budget_tokens,
        ignore_eos=True,
        arrival_s=0.0,
        sampling_seed=0,
    )
    return Request(spec=spec, prompt_ids=list(range(_PROMPT_TOKENS)))


def _count_cuda_kernels(step: Callable[[], Tensor]) -> int:
    """Kernels of one call, without memory copies and fills."""
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        step()
        torch.cuda.synchronize()
    on_device = [event for event in profile.events() or [] if event.device_type == DeviceType.CUDA]
    return sum(not event.name.startswith(("Memcpy", "Memset")) for event in on_device)


class _OperationCounter(TorchDispatchMode):
    """Counts the operations that reach the dispatcher, except views."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count: int = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 0 if func.is_view else 1
        return func(*args, **(kwargs or {}))


def _count_operations(step: Callable[[], Tensor]) -> int:
    counter = _OperationCounter()
    with counter:
        step()
    return counter.count

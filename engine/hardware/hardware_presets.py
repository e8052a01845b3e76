"""Presets of GPUs: nominal rates, achieved rates, and the source of each number.

An efficiency (achieved / nominal) was measured with one model, engine and driver; others reach different shares.
`source` names the origin of each number, or says that it is assumed.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.errors import FieldError
from engine.core.option import Choices, Option
from engine.core.units import GIB
from engine.hardware.roofline import Ceilings, ModelShape
from engine.hardware.tensor_parallel import Link

# One direction of a GPU's links; vendors state the sum of both. A copy between two H200s reached 394 GB/s, 88 %. The
# latency is within 8 % of NCCL's all-reduce of 1, 32 and 256 rows of 1,536 bf16 values on them: 15.8, 18.5, 20.6 us.
NVLINK_4 = Link(name="NVLink 4", nominal_bytes_per_s=450e9, bytes_per_s=394e9, latency_s=17e-6)
NVLINK_3 = Link(name="NVLink 3", nominal_bytes_per_s=300e9, bytes_per_s=0.88 * 300e9, latency_s=17e-6)
PCIE_4 = Link(name="PCIe 4.0 x16", nominal_bytes_per_s=31.5e9, bytes_per_s=0.8 * 31.5e9, latency_s=30e-6)
PCIE_ASSUMED = " Link: PCIe 4.0 x16, 31.5 GB/s each way; assumed: 80 % of it, and 30 us per all-reduce."


@dataclass(frozen=True, slots=True, kw_only=True)
class HardwarePreset:
    """`nominal_*` are the vendor's numbers (dense 16-bit arithmetic), None where only a measurement is known.

    `launch_s` is the time to launch one kernel of an eager pass; it depends on the host, not on the GPU.
    `copies_kv_per_query_head`: masked attention on that GPU first copied keys and values for each query head of their
    group; `masked_kv_reads` gives the extra reads for a model. `host_s` (sync timing) as in `Ceilings`.
    """

    name: str
    label: str
    memory_bytes: int
    read_bytes_per_s: float
    flop_per_s: float
    launch_s: float
    link: Link
    source: str
    nominal_read_bytes_per_s: float | None = None
    nominal_flop_per_s: float | None = None
    copies_kv_per_query_head: bool = False
    host_s: float = 0.0

    def masked_kv_reads(self, shape: ModelShape) -> float:
        """How often a cached position crosses memory in a masked pass.

        1 if nothing is copied, also if there are as many KV heads as query heads. Otherwise it is read once, then
        written and read again for each query head of its group.
        """
        group = shape.heads / shape.kv_heads
        return 1 + 2 * group if self.copies_kv_per_query_head and group > 1 else 1.0

    def ceilings(self, shape: ModelShape) -> Ceilings:
        """The ceilings for one model; the kernels of an eager pass follow from its layers."""
        return Ceilings(
            read_bytes_per_s=self.read_bytes_per_s,
            flop_per_s=self.flop_per_s,
            launch_s=self.launch_s,
            kernels_per_pass=shape.kernels_per_pass,
            masked_kv_reads=self.masked_kv_reads(shape),
            host_s=self.host_s,
        )


HARDWARE: dict[str, HardwarePreset] = {
    preset.name: preset
    for preset in (
        HardwarePreset(
            name="a10",
            label="NVIDIA A10, 24 GB",
            memory_bytes=int(22.06 * GIB),
            nominal_read_bytes_per_s=600e9,
            nominal_flop_per_s=125e12,
            read_bytes_per_s=420e9,
            flop_per_s=39.4e12,
            launch_s=20.7e-3 / 1123,
            copies_kv_per_query_head=True,
            host_s=1.3e-3,
            link=PCIE_4,
            source="Vendor: 600 GB/s, 125 TFLOP/s. FLOP/s from published static batching of a 1.5 B model: 12,766 "
            "tokens/s are 39.4 TFLOP/s (32 %). Launches: 22 ms per step minus 1.3 ms (6 %) for the stop after "
            "each pass, over 1,123 kernels. Read rate: 70 % assumed. Masked attention: keys and values are "
            "read once, then written and read again for each query head of their group (six in that model)."
            + PCIE_ASSUMED,
        ),
        HardwarePreset(
            name="rtx3060",
            label="NVIDIA GeForce RTX 3060, 12 GB",
            memory_bytes=12 * GIB,
            nominal_read_bytes_per_s=360e9,
            read_bytes_per_s=318e9,
            flop_per_s=27.6e12,
            launch_s=18.1e-3 / 1123,
            link=PCIE_4,
            source="Derived from a published batch sweep of a 1.5 B model (percent of both ceilings at B=1 to 128): "
            "318 GB/s (88 % of the vendor's 360), 27.6 TFLOP/s. Launches: its constant 18.1 ms per step over "
            "1,123 kernels." + PCIE_ASSUMED,
        ),
        HardwarePreset(
            name="a100",
            label="NVIDIA A100 SXM, 80 GB",
            memory_bytes=80 * 10**9,
            nominal_read_bytes_per_s=2.039e12,
            nominal_flop_per_s=312e12,
            read_bytes_per_s=0.75 * 2.039e12,
            flop_per_s=0.5 * 312e12,
            launch_s=10e-6,
            host_s=30e-6,
            link=NVLINK_3,
            source="Vendor: 2.039 TB/s, 312 TFLOP/s, NVLink 300 GB/s each way. Assumed: efficiencies of 75 % and 50 %, "
            "10 us per launch, 30 us for the stop after each pass; 88 % of NVLink and 17 us per all-reduce, as on "
            "two H200s.",
        ),
        HardwarePreset(
            name="h100",
            label="NVIDIA H100 SXM, 80 GB",
            memory_bytes=80 * 10**9,
            nominal_read_bytes_per_s=3.35e12,
            nominal_flop_per_s=989.4e12,
            read_bytes_per_s=2.40e12,
            flop_per_s=362e12,
            launch_s=10e-6,
            host_s=30e-6,
            link=NVLINK_4,
            source="Vendor: 3.35 TB/s, 989 TFLOP/s, NVLink 450 GB/s each way. From published times of an 8 B model: "
            "the bytes of a step over its time give 2.40 TB/s (72 %), 80 ms for a prefill of 2,000 tokens give 362 "
            "TFLOP/s (37 %). Assumed: 10 us per launch, 30 us for the stop after each pass; 88 % of NVLink and 17 us "
            "per all-reduce, as on two H200s.",
        ),
        HardwarePreset(
            name="h200",
            label="NVIDIA H200 SXM, 141 GB",
            memory_bytes=139 * GIB,
            nominal_read_bytes_per_s=4.8e12,
            nominal_flop_per_s=989.4e12,
            read_bytes_per_s=4.39e12,
            flop_per_s=806e12,
            launch_s=84e-3 / 1123,
            host_s=30e-6,
            link=NVLINK_4,
            source="Measured on one GPU: 4.39 TB/s read (91 % of the vendor's 4.8), 806 TFLOP/s in bf16 (81 % of "
            "989). Launches: 84 ms for an eager decode step of a 1.5 B model in transformers over its 1,123 "
            "estimated kernels (1,170 observed). This host launches slowly and not always equally: "
            "docs/performance-eager.md has 7.2 us per operation and 60 ms per pass on another day. These are "
            "ceilings: a captured decode pass took twice its lower bound. NVLink: 394 GB/s each way between two (88 % "
            "of the vendor's 450), 17 us per all-reduce. Assumed: 30 us for the stop after each pass.",
        ),
    )
}


CARD = Option(
    default=None,
    label="GPU",
    help="memory of a known GPU instead of this machine's",
    flags=("--hardware",),
    parameter="card",
    takes=Choices(tuple(HARDWARE)),
    group="memory",
)


def hardware_preset(name: str) -> HardwarePreset:
    """The preset of that name. ValueError lists the known names."""
    if name not in HARDWARE:
        raise FieldError(
            "card", f"hardware {name!r}: use one of {', '.join(HARDWARE)}, or this for the newest calibration"
        )
    return HARDWARE[name]

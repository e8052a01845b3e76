"""Sizes in bytes: GiB and MiB, and the dtypes of weights, activations and KV with the bytes of one value.

Run logs use torch's names of dtypes; options, tables and pages use the short names.
"""

MIB = 2**20
GIB = 2**30

DTYPE_BYTES = {"fp32": 4, "bf16": 2, "fp16": 2}
TORCH_NAMES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}

_SHORT_NAMES = {torch_name: name for name, torch_name in TORCH_NAMES.items()}


def short_dtype(name: str) -> str:
    """The short name for torch's name of a dtype; other names are returned as they are."""
    return _SHORT_NAMES.get(name, name)


def dtype_of(setting: str, device_kind: str) -> str:
    """The dtype that a setting means on a `cuda` or `cpu` device: `auto` is bf16 on a GPU and fp32 on a CPU."""
    if setting != "auto":
        return setting
    return "bf16" if device_kind == "cuda" else "fp32"

"""The dtypes of weights, activations and cached values: the lab's short names, torch's names and the bytes of a value.

Run logs have torch's names; options, tables and pages the short ones.
"""

DTYPE_BYTES = {"fp32": 4, "bf16": 2, "fp16": 2}
TORCH_NAMES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}

_SHORT_NAMES = {torch_name: name for name, torch_name in TORCH_NAMES.items()}


def short_dtype(name: str) -> str:
    """The short name of a dtype that goes by torch's name; any other name is itself."""
    return _SHORT_NAMES.get(name, name)


def dtype_of(setting: str, device_kind: str) -> str:
    """The dtype that a setting means on a `cuda` or `cpu` device: `auto` is bf16 on a GPU and fp32 on a CPU."""
    if setting != "auto":
        return setting
    return "bf16" if device_kind == "cuda" else "fp32"

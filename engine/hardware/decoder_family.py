"""The numbers of a decoder from its config.json, by formula, without torch. `model_families` has a row per family.

    parameters = embedding (+ output projection if untied) + layers x (attention + MLP + norms) + final norm

A mixture of experts has E experts per layer, of which a token uses k, and perhaps shared ones that all tokens use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from engine.core.errors import FieldError

MAX_LAYERS = 10_000
MAX_NUMBER = 20_000_000  # of any other number: contexts reach ten million


class Keys:
    """A model's configuration, read by the names of Llama's keys. `name` is the model's, for errors."""

    def __init__(self, name: str, config: Mapping[str, Any], family: Family) -> None:
        self.name = name
        self.family = family
        self._config = config

    def get(self, key: str) -> Any:
        """The value: that of the file if it has the key under any name, else the class's default."""
        for alias in self.family.names.get(key, (key,)):
            if alias in self._config:
                return self._config[alias]
        return self.family.defaults.get(key)

    def flag(self, rule: bool | str) -> bool:
        """A fixed rule of the family, or the key that decides it."""
        return bool(self.get(rule)) if isinstance(rule, str) else rule

    def number(self, key: str, otherwise: int | None = None, least: int = 1) -> int:
        """A whole number; `otherwise` where the value is null. FieldError for anything else."""
        value = self.get(key)
        if value is None and otherwise is not None:
            return otherwise
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            self.refuse(f"{key} {value!r:.60} in its config.json; use a whole number of {least} or more")
        if value > MAX_NUMBER:
            self.refuse(f"{key} {value!r:.60} in its config.json; use at most {MAX_NUMBER:,}")
        return int(value)

    def refuse(self, reason: str) -> NoReturn:
        raise FieldError("model", f"model {self.name}: {reason}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """The routed experts of a model: `count` in each of `layers` layers, `per_token` of them used by a token.

    `width` is the intermediate width of one. `other` counts a layer's parameters beside its experts: the router and
    shared experts, of intermediate width `shared_width`.
    """

    count: int
    per_token: int
    layers: int
    width: int
    other: int
    shared_width: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """What distinguishes a family. A rule is a fixed answer, or the name of the key that decides.

    `names` are the family's own names of a key, the first that a file has counts.
    `norms` counts the norms of a layer over the hidden width, `norm_vectors` the vectors of a norm: 1 scales, 2 also
    shifts. `qk_norms` is the norm of queries and keys: one of head width for all heads, or one per head.
    """

    defaults: Mapping[str, Any]
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    norms: int | Callable[[Keys], int] = 2
    norm_vectors: int = 1
    has_gate: bool = True
    qkv_bias: bool | str = False
    output_bias: bool | str = False
    mlp_bias: bool | str = False
    head_bias: bool | str = False
    qk_norms: str = ""
    qk_norm_rule: bool | str = True
    has_own_head_dim: bool = True  # whether a head_dim in the file counts
    extra: Callable[[Keys], int] = lambda keys: 0  # outside the layers, beside embeddings and the final norm
    kv_heads: Callable[[Keys, int], int] | None = None
    intermediate: Callable[[Keys, int], int] | None = None
    experts: Callable[[Keys, int], Experts] | None = None
    has_positions: bool = True


def decoder_numbers(family: Family, name: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a `ModelShape` that a configuration of that family determines. FieldError for invalid numbers."""
    keys = Keys(name, config, family)
    layers, hidden, vocab = (keys.number(key) for key in ("num_hidden_layers", "hidden_size", "vocab_size"))
    if layers > MAX_LAYERS:
        keys.refuse(f"num_hidden_layers {layers} in its config.json; use at most {MAX_LAYERS:,}")
    heads, kv_heads, head_dim = _heads(keys, hidden)
    kv_layers, tied = _attention_layers(keys, layers), bool(keys.get("tie_word_embeddings"))
    if not kv_layers:
        keys.refuse("no layer in its config.json has attention; the lab needs one")
    parameters = (
        vocab * hidden * (1 if tied else 2)
        + (vocab if keys.flag(family.head_bias) else 0)
        + family.extra(keys)
        + kv_layers * _attention(keys, hidden, heads, kv_heads, head_dim)
        + (layers - kv_layers) * _convolution(keys, hidden)
        + _norms(keys, layers, hidden)
    )
    mlps = _mlps(keys, layers, hidden)
    return mlps | {
        "parameters": parameters + mlps["parameters"],
        "layers": layers,
        "hidden": hidden,
        "heads": heads,
        "kv_heads": kv_heads,
        "head_dim": head_dim,
        "vocab": vocab,
        "tied_embeddings": tied,
        "max_positions": (keys.number("max_position_embeddings", 0) or None) if family.has_positions else None,
        "kv_layers": None if kv_layers == layers else kv_layers,
        "window": window_of(keys.get),
    }


def _mlps(keys: Keys, layers: int, hidden: int) -> dict[str, Any]:
    """Parameters of all MLPs, the width that a token passes, and the numbers of the experts if there are any."""
    family = keys.family
    dense_width = family.intermediate(keys, hidden) if family.intermediate else keys.number("intermediate_size")
    dense = _mlp(family, hidden, dense_width, has_bias=keys.flag(family.mlp_bias))
    if family.experts is None:
        return {"parameters": layers * dense, "intermediate": dense_width}
    experts = family.experts(keys, hidden)
    if not experts.layers:
        return {"parameters": layers * dense, "intermediate": dense_width}
    each = experts.layers * _mlp(family, hidden, experts.width, has_bias=False)
    used_width = experts.per_token * experts.width + experts.shared_width
    dense_layers = layers - experts.layers
    return {
        "parameters": dense_layers * dense + experts.count * each + experts.layers * experts.other,
        "intermediate": max(used_width, dense_width) if dense_layers else used_width,
        "experts": experts.count,
        "experts_per_token": experts.per_token,
        "expert_parameters": each,
    }


def window_of(get: Callable[[str], Any]) -> int | None:
    """The attention window of some layers, in positions; None without one. `get` reads a key of the configuration."""
    window, types = get("sliding_window"), get("layer_types")
    if not isinstance(window, int) or window < 1 or get("use_sliding_window") is False:
        return None
    return None if isinstance(types, list) and "sliding_attention" not in types else window


def _heads(keys: Keys, hidden: int) -> tuple[int, int, int]:
    """Query heads, KV heads and head width."""
    family = keys.family
    heads = keys.number("num_attention_heads")
    kv_heads = family.kv_heads(keys, heads) if family.kv_heads else keys.number("num_key_value_heads", heads)
    if heads % kv_heads:
        keys.refuse(f"{heads} heads are not a multiple of {kv_heads} KV heads in its config.json")
    own = max(1, hidden // heads)
    return heads, kv_heads, keys.number("head_dim", own) if family.has_own_head_dim else own


def _attention(keys: Keys, hidden: int, heads: int, kv_heads: int, head_dim: int) -> int:
    family = keys.family
    qkv, output = (heads + 2 * kv_heads) * head_dim, heads * head_dim
    count = hidden * (qkv + output)
    count += qkv if keys.flag(family.qkv_bias) else 0
    count += hidden if keys.flag(family.output_bias) else 0
    if family.qk_norms and keys.flag(family.qk_norm_rule):
        widths = {"one": 2 * head_dim, "shifted": 4 * head_dim, "each": (heads + kv_heads) * head_dim}
        count += widths[family.qk_norms]
    return count


def _mlp(family: Family, hidden: int, width: int, *, has_bias: bool) -> int:
    inward = 2 if family.has_gate else 1
    return (inward + 1) * hidden * width + (inward * width + hidden if has_bias else 0)


def _norms(keys: Keys, layers: int, hidden: int) -> int:
    """Parameters of the layers' norms, and of the final norm, which some of OPT's sizes lack."""
    family = keys.family
    per_layer = family.norms(keys) if callable(family.norms) else family.norms
    lacks_final = keys.get("do_layer_norm_before") is False or bool(keys.get("_remove_final_layer_norm"))
    return (layers * per_layer + (0 if lacks_final else 1)) * family.norm_vectors * hidden


def _attention_layers(keys: Keys, layers: int) -> int:
    """The layers with a KV cache: all, but in a model that has layers of convolution (LFM2)."""
    if "conv_L_cache" not in keys.family.defaults:
        return layers
    types, attending = keys.get("layer_types"), keys.get("full_attn_idxs")
    if types is not None:
        return sum(each == "full_attention" for each in types[:layers])
    return layers if attending is None else len(set(attending) & set(range(layers)))


def _convolution(keys: Keys, hidden: int) -> int:
    """A layer of convolution instead of attention: a kernel per channel, and a projection on either side."""
    kernel = keys.get("conv_L_cache") or 0
    return kernel * hidden + 4 * hidden * hidden + (5 * hidden if keys.get("conv_bias") else 0)

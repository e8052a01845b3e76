"""The MLPs of a model that is loaded, or on the meta device: the width that a token passes, and the routed experts."""

from __future__ import annotations

from typing import Any

from engine.runtime.models.configs import intermediate_of

EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
PER_TOKEN = ("num_experts_per_tok", "num_experts_per_token", "moe_k", "moe_topk", "top_k_experts")


def mlp_numbers(model: Any) -> dict[str, int]:
    """`intermediate`, and for a mixture `experts`, `experts_per_token` and `expert_parameters`, as in `ModelShape`.

    ValueError if a mixture does not say how many experts a token uses.
    """
    text = model.config.get_text_config()
    routed, width = 0, 0
    for name, parameter in model.named_parameters():
        if ".experts." in name:
            routed += parameter.numel()
            if name.endswith("down_proj"):
                width = int(parameter.shape[-1])
    dense_width = intermediate_of(text)
    if not routed:
        return {"intermediate": dense_width}
    count, per_token = _first(text, EXPERTS), _first(text, PER_TOKEN)
    if not count or not per_token or routed % count:
        raise ValueError(f"a configuration of type {text.model_type!r} does not tell how many experts a token uses")
    used_width = per_token * width + _shared_width(model)
    return {
        "intermediate": max(used_width, dense_width) if _has_dense_layers(model) else used_width,
        "experts": count,
        "experts_per_token": per_token,
        "expert_parameters": routed // count,
    }


def _shared_width(model: Any) -> int:
    """The intermediate width of the experts that all tokens use."""
    shared = (
        p.shape[-1] for name, p in model.named_parameters() if "shared" in name and name.endswith("down_proj.weight")
    )
    return int(next(shared, 0))


def _has_dense_layers(model: Any) -> bool:
    return any(name.endswith(".mlp.down_proj.weight") for name, _ in model.named_parameters())


def _first(text: Any, names: tuple[str, ...]) -> int | None:
    values = (getattr(text, name, None) for name in names)
    return next((value for value in values if isinstance(value, int)), None)

"""Every layout through the fused decoder: the tokens that generate says, the logits that the model itself gives.

Without a GPU the passes are launched kernel by kernel through Triton's interpreter; with one they are captured.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from engine.core.config import RunConfig, SamplingConfig, WorkloadConfig
from engine.core.errors import EngineOutOfMemory
from engine.runtime.build_engine import build_engine, make_graph_runner
from engine.runtime.measuring.oracles import generate_outputs
from engine.runtime.measuring.parity import engine_outputs
from engine.runtime.pool_size import pool_blocks
from engine.runtime.prepared_run import PreparedRun, WarmModel, prepare_run
from engine.runtime.warm_up import NoSink
from tests.support.triton_here import DEVICE, importing_kernels

with importing_kernels():
    from engine.runtime.graph.fused_decoder import FusedDecoder, merge_linears, why_not_fused
    from engine.runtime.graph.graph_runner import GraphRunner
    from engine.runtime.kernels.tokens import embed_tokens, keep_tokens, write_tables

RAGGED = WorkloadConfig(prompts="p3,p5,p9", requests=4, budget="1-5")
LAYOUTS = ("static", "continuous", "paged", "chunked")
SMALL = {
    "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64,
}  # fmt: skip


@pytest.fixture(scope="module")
def warm() -> WarmModel:
    return WarmModel()


def prepared(warm: WarmModel, engine: str, **more: object) -> PreparedRun:
    base = RunConfig(
        engine=engine, model="tiny-random", device=DEVICE.type, dtype="fp32", slots=2, block_size=4,
        max_num_batched_tokens=4, workload=RAGGED,
    )  # fmt: skip
    return prepare_run(replace(base, **more), warm, lambda message, fraction: None)  # type: ignore[arg-type]


def graph_outputs(run: PreparedRun) -> tuple[dict[int, list[int]], GraphRunner]:
    requests = run.requests()
    runner = make_graph_runner(run, requests, pool_blocks(run, requests))
    assert isinstance(runner, GraphRunner)
    if DEVICE.type == "cuda":
        runner.capture(lambda: False)
    engine = build_engine(run, requests, runner, NoSink())
    engine.run(lambda: False)
    engine.recorder.close(engine.clock.now_s())
    return {r.request_id: r.output_ids for r in requests}, runner


@pytest.mark.parametrize("engine", LAYOUTS)
def test_every_layout_says_what_generate_says(warm: WarmModel, engine: str) -> None:
    run = prepared(warm, engine)
    outputs, runner = graph_outputs(run)
    assert outputs == generate_outputs(run)
    if DEVICE.type == "cuda":
        assert runner.bucket_tokens is not None


def test_a_preempted_request_is_recomputed(warm: WarmModel) -> None:
    work = WorkloadConfig(prompts="p7", requests=2, budget="6")
    roomy = prepared(warm, "paged", workload=work)
    run = prepared(warm, "paged", workload=work, pool_gib=5 * 4 * roomy.kv_shape().position_bytes / 2**30)
    outputs, runner = graph_outputs(run)
    assert runner.pool.num_blocks == 5  # 3 a request at its end, and 4 at both admissions
    assert outputs == generate_outputs(run)


def test_sampling_runs_after_the_graph(warm: WarmModel) -> None:
    run = prepared(warm, "paged", sampling=SamplingConfig(temperature=0.9, top_k=20))
    assert graph_outputs(run)[0] == engine_outputs(run)


@pytest.mark.parametrize(
    "model",
    [
        LlamaForCausalLM(LlamaConfig(**SMALL, attention_bias=True, mlp_bias=True)),
        Qwen2ForCausalLM(Qwen2Config(**SMALL, tie_word_embeddings=True)),
        Qwen3ForCausalLM(Qwen3Config(**SMALL, head_dim=16)),
        MistralForCausalLM(MistralConfig(**SMALL, sliding_window=None)),
    ],
    ids=lambda model: model.config.model_type,
)
@torch.inference_mode()
def test_the_fused_decoder_is_the_model(model: torch.nn.Module) -> None:
    """With plain attention, so that only the decoder is tested."""
    model = model.to(DEVICE).eval()
    generator = torch.Generator().manual_seed(0)
    for parameter in model.parameters():  # biases and norms start at 0 and 1, which would hide them
        parameter.data += 0.1 * torch.randn(parameter.shape, generator=generator).to(DEVICE)
    ids = torch.arange(1, 8, device=DEVICE)
    expected = model(ids[None], use_cache=False).logits[0]
    assert why_not_fused(model) is None
    decoder = FusedDecoder(model, positions=64)
    got = decoder.logits(decoder.embedding[ids], lambda layer, qkv: plain_attention(decoder, layer, qkv), None)
    torch.testing.assert_close(got, expected, atol=2e-4, rtol=1e-4)
    torch.testing.assert_close(model(ids[None], use_cache=False).logits[0], expected, atol=1e-5, rtol=1e-5)


def plain_attention(decoder: FusedDecoder, layer, qkv: torch.Tensor) -> torch.Tensor:  # type: ignore[no-untyped-def]
    tokens, kv_heads, heads = len(qkv), decoder.num_kv_heads, decoder.num_heads
    width = qkv.shape[1] // (heads + 2 * kv_heads)
    query, key, value = qkv.view(tokens, -1, width).split([heads, kv_heads, kv_heads], dim=1)
    if layer.q_norm is not None:
        query = torch.nn.functional.rms_norm(query, (width,), layer.q_norm, layer.eps)
        key = torch.nn.functional.rms_norm(key, (width,), layer.k_norm, layer.eps)
    cos = torch.cat([decoder.cos[:tokens]] * 2, dim=1)[:, None]
    sin = torch.cat([decoder.sin[:tokens]] * 2, dim=1)[:, None]

    def turned(x: torch.Tensor) -> torch.Tensor:
        low, high = x.chunk(2, dim=-1)
        return x * cos + torch.cat([-high, low], dim=-1) * sin

    parts = (part.transpose(0, 1)[None] for part in (turned(query), turned(key), value))
    out = torch.nn.functional.scaled_dot_product_attention(*parts, is_causal=True, scale=layer.scale, enable_gqa=True)
    return out[0].transpose(0, 1).reshape(tokens, -1)


def test_merging_holds_nothing_twice() -> None:
    linears = [torch.nn.Linear(4, n, device=DEVICE) for n in (6, 2, 2)]
    before = torch.cat([linear.weight.detach() for linear in linears])
    merged, bias = merge_linears(linears)
    assert torch.equal(merged, before)
    assert bias is not None
    assert bias.shape == (10,)
    assert all(x.weight.untyped_storage().data_ptr() == merged.untyped_storage().data_ptr() for x in linears)
    again, _ = merge_linears(linears)
    assert again.data_ptr() == merged.data_ptr()
    assert again.shape == merged.shape


def test_a_family_that_is_not_known_is_named() -> None:
    model = LlamaForCausalLM(LlamaConfig(**SMALL, hidden_act="gelu"))
    assert why_not_fused(model) == "its MLP uses gelu, not SiLU"
    model.config.model_type = "granite"
    reason = why_not_fused(model)
    assert reason is not None
    assert "granite" in reason


def test_padding_reads_and_writes_nothing() -> None:
    """Slot 2 is the slot of padding rows: -1 takes the slot's newest token, places of -1 are skipped."""
    last_ids = torch.tensor([5, 7, 0], device=DEVICE)
    weight = torch.arange(20.0, device=DEVICE).view(10, 2)
    ids, slots = int32([3, -1, -1]), int32([0, 1, 2])
    assert embed_tokens(ids, slots, last_ids, weight).tolist() == [[6.0, 7.0], [14.0, 15.0], [0.0, 1.0]]
    tables = torch.zeros(3, 2, dtype=torch.int32, device=DEVICE)
    write_tables(tables, int32([1, 0, 2]), int32([1, 0, -1]), int32([9, 8, 7]))
    assert tables.tolist() == [[8, 0], [0, 9], [0, 0]]
    kept = torch.zeros(4, dtype=torch.long, device=DEVICE)
    keep_tokens(torch.tensor([4, 6, 1], device=DEVICE), int32([1, 0, 2]), last_ids, kept)
    assert last_ids.tolist() == [6, 4, 1]
    assert kept.tolist() == [4, 6, 1, 0]


def int32(values: list[int]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32, device=DEVICE)


@pytest.mark.parametrize(
    ("engine", "words"),
    [("static", "2 rows x 16 columns"), ("continuous", "2 slots x 16 columns"), ("serial", "1 slot x 16 columns")],
)
def test_a_pool_that_is_too_small_is_named_in_the_layouts_own_terms(warm: WarmModel, engine: str, words: str) -> None:
    run = prepared(warm, engine, pool_gib=2**-30)
    with pytest.raises(EngineOutOfMemory, match=f"KV pool asked for .* \\({words}\\)"):
        make_graph_runner(run, run.requests(), None)

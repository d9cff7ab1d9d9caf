"""Operator tables of the package become series: units, formats, and which rows count."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from genz_core.errors import MissingSpec
from hardware_db.fit import tables

EIGHT = np.arange(1, 9)


def column(series: tables.MeasuredSeries, name: str) -> list[float]:
    return series.points().arrays()[name].tolist()


def gemm(latency=EIGHT, gemm_dtype="bfloat16", **sizes):
    rows = {"m": EIGHT, "n": 64, "k": 128, **sizes}
    return {**rows, "gemm_dtype": gemm_dtype, "latency": latency}


def test_a_package_that_is_not_there_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    for name in [name for name in sys.modules if name.startswith("aiconfigurator")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(MissingSpec, match="aiconfigurator-core are not installed; run: "):
        tables.data_folder()


def test_products_are_read_of_the_newest_version_and_the_first_engine(package):
    """1.10 is newer than 1.9, and TensorRT-LLM precedes vLLM; milliseconds become seconds."""
    package.write("h100_sxm", "gemm/trtllm/1.9.0/gemm_perf", gemm(latency=99.0))
    package.write("h100_sxm", "gemm/trtllm/1.10.0/gemm_perf", gemm())
    package.write("h100_sxm", "gemm/vllm/2.0/gemm_perf", gemm(latency=77.0))
    [series] = tables.read("h100_sxm", "gemm")
    assert (series.device, series.operator, series.fmt) == ("h100_sxm", "gemm", "bf16")
    assert series.points().measured_s == pytest.approx(EIGHT * 1e-3)
    assert column(series, "m") == list(EIGHT) and set(column(series, "k")) == {128.0}
    assert series.data_set == (
        "aiconfigurator-core 0.12.0: data/h100_sxm/gemm/trtllm/1.10.0/gemm_perf.parquet"
    )


def test_rows_without_a_time_and_series_of_few_points_are_left_out(package):
    rows = gemm(latency=[0.0, *range(1, 8)])
    package.write("h100_sxm", "gemm/trtllm/1.0/gemm_perf", rows)
    assert tables.read("h100_sxm", "gemm") == []


def test_an_engine_stands_in_where_the_first_measured_nothing(package):
    package.write("h100_sxm", "gemm/sglang/1.0/gemm_perf", gemm(gemm_dtype="fp8_block"))
    [series] = tables.read("h100_sxm", "gemm")
    assert series.fmt == "fp8_block"


def test_eight_bits_of_a_device_without_units_for_them_are_no_measurement(package):
    both = gemm(gemm_dtype=["bfloat16"] * 8)
    both = {name: np.tile(np.broadcast_to(value, 8), 2) for name, value in both.items()}
    both["gemm_dtype"] = ["bfloat16"] * 8 + ["fp8"] * 8
    package.write("b60", "gemm/vllm/1.0/gemm_perf", both)
    package.write("l40s", "gemm/vllm/1.0/gemm_perf", both)
    assert [series.fmt for series in tables.read("b60", "gemm")] == ["bf16"]
    assert [series.fmt for series in tables.read("l40s", "gemm")] == ["bf16", "fp8"]


def attention(**more):
    rows = {
        "batch_size": EIGHT, "isl": 16 * EIGHT, "step": 100, "num_heads": 32,
        "num_key_value_heads": 8, "head_dim": 128, "attn_dtype": "bfloat16",
        "kv_cache_dtype": "fp8", "latency": EIGHT,
    }  # fmt: skip
    return {**rows, **more}


def test_prompts_of_one_token_are_no_prefill_and_no_heads_of_keys_are_one_each(package):
    rows = attention(isl=[1, *range(2, 10)][:8], num_key_value_heads=0, window_size=256)
    rows = {name: np.tile(np.broadcast_to(value, 8), 2) for name, value in rows.items()}
    package.write("h100_sxm", "attention/trtllm/1.0/context_attention_perf", rows)
    [series] = tables.read("h100_sxm", "prefill_attention")
    assert series.fmt == "bf16/fp8" and len(series.table) == 14
    assert set(column(series, "kv_heads")) == {32.0} and set(column(series, "window")) == {256.0}
    assert tables.read("h100_sxm", "decode_attention") == []


def test_groups_that_leave_the_fast_kernels_are_no_decode(package):
    rows = attention(isl=1, num_heads=[64] * 8, num_key_value_heads=1)
    package.write("h100_sxm", "attention/trtllm/1.0/generation_attention_perf", rows)
    assert tables.read("h100_sxm", "decode_attention") == []
    package.write("h100_sxm", "attention/trtllm/1.0/generation_attention_perf", attention(isl=1))
    [series] = tables.read("h100_sxm", "decode_attention")
    assert set(column(series, "cached_tokens")) == {100.0} and set(column(series, "window")) == {0}
    assert tables.read("h100_sxm", "prefill_attention") == []


def test_latent_attention_has_the_sizes_of_deepseek_v3(package):
    rows = attention(mla_dtype="bfloat16")
    for name in ("context_mla_perf", "generation_mla_perf"):
        package.write("b200_sxm", f"mla/trtllm/1.0/{name}", rows)
    [prefill] = tables.read("b200_sxm", "mla_prefill")
    [decode] = tables.read("b200_sxm", "mla_decode")
    sizes = ("kv_heads", "head_dim", "value_dim")
    assert [column(prefill, name)[0] for name in sizes] == [32, 192, 128]
    assert [column(decode, name)[0] for name in sizes] == [1, 576, 512]


def experts(**more):
    rows = {
        "num_tokens": EIGHT, "hidden_size": 2048, "inter_size": 768, "topk": 8, "num_experts": 128,
        "moe_tp_size": 2, "moe_ep_size": 4, "moe_dtype": "fp8", "distribution": "power_law_1.2",
        "kernel_source": "moe_torch_flow", "latency": EIGHT,
    }  # fmt: skip
    return {**rows, **more}


def test_experts_are_those_of_one_device_in_the_kernel_that_most_rows_time(package):
    """The TensorRT-LLM version with most rows, although another is newer."""
    usual = experts(kernel_source=["moe_torch_flow"] * 8)
    odd = experts(kernel_source="moe_torch_flow_min_latency", latency=1000.0)
    other = experts(kernel_source="rarely", num_tokens=[1], latency=1000.0)
    parts = [{k: list(np.broadcast_to(v, 8)) for k, v in rows.items()} for rows in (usual, odd)]
    parts.append({k: list(np.broadcast_to(v, 1)) for k, v in other.items()})
    together = {name: [value for part in parts for value in part[name]] for name in usual}
    package.write("h200_sxm", "moe/trtllm/1.0/moe_perf", together)
    package.write("h200_sxm", "moe/trtllm/1.5/moe_perf", experts(latency=99.0))
    [series] = tables.read("h200_sxm", "moe")
    assert series.points().measured_s == pytest.approx(EIGHT * 1e-3)
    one = {name: column(series, name)[0] for name in series.points().arrays()}
    assert one == {
        "tokens": 1, "experts": 32, "experts_total": 128, "top_k": 8, "hidden": 2048,
        "intermediate": 384, "routing": 2.0,
    }  # fmt: skip


def test_other_engines_add_only_the_formats_that_the_first_lacks(package):
    package.write("h200_sxm", "moe/trtllm/1.0/moe_perf", experts())
    package.write("h200_sxm", "moe/vllm/1.0/moe_perf", experts(latency=99.0))
    package.write("h200_sxm", "moe/sglang/1.0/moe_perf", experts(moe_dtype="bfloat16"))
    package.write("l40s", "moe/trtllm/1.0/moe_perf", experts(moe_dtype="unheard of"))
    found = {series.fmt: series.points().measured_s[0] for series in tables.read("h200_sxm", "moe")}
    assert found == pytest.approx({"fp8": 1e-3, "bf16": 1e-3})
    assert tables.read("l40s", "moe") == []


def test_a_recurrence_is_read_by_phase_without_its_convolution(package):
    rows = {
        "phase": ["context"] * 8 + ["generation"] * 8 + ["context"],
        "kernel_source": ["gdn"] * 16 + ["causal_conv1d"],
        "batch_size": 2, "seq_len": 512, "num_v_heads": 32, "num_k_heads": 16, "head_k_dim": 128,
        "head_v_dim": 64, "latency": [*EIGHT, *EIGHT, 5],
    }  # fmt: skip
    package.write("h100_sxm", "linear_attention/vllm/1.0/gdn_perf", rows)
    decode, prefill = tables.read("h100_sxm", "scan")
    assert (decode.fmt, prefill.fmt) == ("decode", "prefill")
    assert (set(column(decode, "new_tokens")), set(column(prefill, "new_tokens"))) == ({1}, {512})
    assert len(prefill.table) == 8 and set(column(prefill, "value_dim")) == {64}


def test_a_quantised_matrix_is_read_in_two_bytes_and_written_in_one(package):
    rows = {"m": EIGHT, "k": 1000, "latency": EIGHT}
    package.write("h100_sxm", "quantize/vllm/1.0/scale_matrix_perf", rows)
    [series] = tables.read("h100_sxm", "pointwise")
    assert column(series, "bytes") == list(3000.0 * EIGHT)


def test_collectives_are_the_median_of_16_bit_messages_by_algorithm(package):
    sizes = 2 ** np.repeat(EIGHT + 10, 2)
    rows = {"op_name": "all_reduce", "num_gpus": 8, "message_size": sizes,
            "latency": np.repeat(EIGHT, 2) + np.tile([0.0, 0.5], 8)}  # fmt: skip
    nccl = {**rows, "nccl_dtype": ["half"] * 14 + ["int8"] * 2, "op_name": "alltoall"}
    package.write("h100_sxm", "comm/nccl/1.0/nccl_perf", {**nccl, "nccl_dtype": "half"})
    eager = {**rows, "allreduce_dtype": "bfloat16", "backend": ["graph", "eager"] * 8}
    package.write("h100_sxm", "comm/trtllm/1.0/custom_allreduce_perf", eager)
    custom, rings = tables.read("h100_sxm", "collective")
    assert (custom.fmt, rings.fmt) == ("custom.all_reduce", "nccl.all_to_all")
    assert rings.points().measured_s == pytest.approx((EIGHT + 0.25) * 1e-3)
    assert custom.points().measured_s == pytest.approx(EIGHT * 1e-3)
    assert column(custom, "bytes") == list(2.0 ** (EIGHT + 11)) and set(custom.table["group"]) == {
        8
    }
    package.write("a100_sxm", "comm/nccl/1.0/nccl_perf", nccl)
    assert tables.read("a100_sxm", "collective") == [], "seven of 16 bits are too few"

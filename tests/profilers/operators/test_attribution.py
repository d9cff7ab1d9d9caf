"""Kernels are attributed to operators, shapes, ranges, phases and classes, as other tools do."""

import csv
import gzip
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import profilers
from genz_core.errors import InvalidValue
from profilers.operators.attribution import DEFAULT_PHASES, PhasePattern, attribute, phase_of
from profilers.operators.gemms import gemm_shape
from profilers.operators.kernel_classes import ENGINE_CLASS, OPERATOR_CLASSES, class_of_name
from profilers.readers.columns import range_name
from profilers.readers.database import opened
from profilers.readers.nsys_ranges import read_ranges
from profilers.schema import ATTRIBUTIONS
from tests.profilers.units import whole_ns
from tests.rules import for_every

GOLDEN = Path(__file__).parents[2] / "fixtures" / "reports" / "golden"
SGLANG_PREFILL = "torch/inference_sglang_prefilldecode_sglang_Qwen3-8B_prefilldecode.json.gz"
SGLANG_DECODE = "torch/inference_sglang_decode_sglang_Qwen3-8B_decode.json.gz"
VLLM_DECODE = "torch/inference_vllm_decode_full_graph_execution.json.gz"
H100 = "torch/h100_Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz"
MFU = "nsys/mfu_2gpu_before.sqlite"
ROCM = {SGLANG_PREFILL: "sglang_prefilldecode", SGLANG_DECODE: "sglang_decode"}
ROCM |= {VLLM_DECODE: "vllm_decode_full"}


def golden_gemms(name: str) -> list[dict[str, str]]:
    with (GOLDEN / f"{name}_GEMM.csv").open(newline="") as file:
        return list(csv.DictReader(file))


# ------------------------------------------------------------------------------ NVTX of nsys


def test_nvtx_attribution_equals_nvtx_kern_sum_of_nsys(report_of, report_path):
    report = report_of(MFU)
    with opened(report_path(MFU)) as database:
        exact = read_ranges(database, label=str)
    names = [exact.names[code] for code in exact.name_code]
    assert [range_name(name) for name in names] == report.ranges["name"].tolist()
    parent = report.ranges["parent"].fillna(-1).astype(int).tolist()
    launches: Counter[tuple[str, str]] = Counter()
    time_ns: Counter[tuple[str, str]] = Counter()
    kernels = report.kernels
    innermost = kernels["range_id"].fillna(-1).astype(int)
    for row, kernel, seconds in zip(
        innermost, kernels["full_name"], kernels["duration_s"], strict=True
    ):
        around = []
        while row >= 0:
            around.append(names[row])
            row = parent[row]
        for name in around or [""]:
            launches[name, kernel] += 1
            time_ns[name, kernel] += whole_ns(seconds)

    golden = json.loads(
        gzip.decompress((GOLDEN / "mfu_2gpu_before_nvtx_kern_sum.json.gz").read_bytes())
    )
    expected_launches: Counter[tuple[str, str]] = Counter()
    expected_ns: Counter[tuple[str, str]] = Counter()
    for name, kernel, count, total in golden["rows"]:
        key = name.removeprefix(":"), golden["kernels"][kernel]
        expected_launches[key] += int(count)
        expected_ns[key] += int(total)
    assert len(expected_ns) > 8_000
    assert launches == expected_launches
    assert time_ns == expected_ns


def test_nvtx_labels_lose_what_differs_from_call_to_call():
    assert range_name("aten::mm, op_id = 12") == "aten::mm"
    assert range_name("aten::add, seq = 45660, op_id = 991955") == "aten::add"
    assert range_name("MmBackward0, seq = 4, op_id = 9, sizes = [[1, 2]]") == "MmBackward0"
    assert range_name("decode") == "decode"


# ------------------------------------------------------------------------------ torch links


def test_prefill_gemms_of_a_rocm_trace_have_the_shapes_and_times_of_the_golden(report_of):
    found = profilers.gemm_table(report_of(SGLANG_PREFILL))
    golden = [row for row in golden_gemms("sglang_prefilldecode") if row["name"] == "aten::mm"]
    assert len(found) == len(golden) == 5
    for row, expected in zip(found.to_dict("records"), golden, strict=True):
        assert [row[axis] for axis in ("batch", "m", "n", "k")] == [
            int(expected[f"param: {axis}"]) for axis in "BMNK"
        ]
        assert row["count"] == int(expected["name_count"])
        assert row["time_s"] * 1e6 == pytest.approx(
            float(expected["Kernel Time (µs)_sum"]), abs=0.02
        )
        assert row["flops"] == pytest.approx(float(expected["GFLOPS_first"]) * 1e9)


def test_the_first_prefill_gemm_reaches_457_tflop_per_s(report_of):
    first = profilers.gemm_table(report_of(SGLANG_PREFILL)).iloc[0]
    assert (first["m"], first["n"], first["k"]) == (15360, 24576, 4096)
    assert first["flops"] == pytest.approx(3092.376e9, rel=1e-6)
    assert first["flops_per_s"] == pytest.approx(456.9e12, rel=1e-3)


@pytest.mark.parametrize("trace", ROCM)
def test_gemm_kernels_of_rocm_traces_take_the_time_of_the_golden(trace, report_of):
    """Graph launches have no shapes, but their kernels are found and add up."""
    kernels = report_of(trace).kernels
    gemms = kernels[kernels["operator_class"] == "gemm"]
    golden = [r for r in golden_gemms(ROCM[trace]) if r["name"] in ("aten::mm", "aten::addmm")]
    expected = sum(float(row["Kernel Time (µs)_sum"]) for row in golden)
    assert gemms["duration_s"].sum() * 1e6 == pytest.approx(expected, rel=1e-5)
    assert gemms["count"].sum() == sum(int(row["name_count"]) for row in golden)


def test_gemms_of_a_graph_have_the_golden_shapes_once_an_eager_trace_lends_them(report_of):
    decode, prefill = report_of(SGLANG_DECODE), report_of(SGLANG_PREFILL)
    found = profilers.gemm_table_of_graph(decode, prefill)
    golden = [row for row in golden_gemms("sglang_decode") if row["name"] == "aten::mm"]
    assert len(found) == len(golden) == 5
    for row, expected in zip(found.to_dict("records"), golden, strict=True):
        assert [row[axis] for axis in ("m", "n", "k", "count")] == [
            int(expected[name]) for name in ("param: M", "param: N", "param: K", "name_count")
        ]
        golden_us = float(expected["Kernel Time (µs)_sum"])
        assert row["time_s"] * 1e6 == pytest.approx(golden_us, abs=0.02)


def test_shapes_are_not_lent_by_another_model(report_of):
    decode, other = report_of(VLLM_DECODE), report_of(SGLANG_PREFILL)
    with pytest.raises(profilers.ReportError, match="of the same model"):
        profilers.gemm_table_of_graph(decode, other)


@pytest.mark.parametrize("trace", ROCM)
def test_busy_time_equals_the_golden_timeline(trace, report_of):
    summary = profilers.summarise(report_of(trace))
    with (GOLDEN / f"{ROCM[trace]}_gpu_timeline.csv").open(newline="") as file:
        golden = {row["type"]: float(row["time ms"]) * 1e-3 for row in csv.DictReader(file)}
    assert summary["busy_time_s"] == pytest.approx(golden["busy_time"], abs=20e-9)
    assert summary["kernel_busy_time_s"] == pytest.approx(golden["computation_time"], abs=20e-9)
    assert summary["idle_time_s"] == pytest.approx(golden["idle_time"], abs=20e-9)


@pytest.mark.parametrize(
    ("trace", "linked", "in_graph"),
    [(SGLANG_PREFILL, 525, 0), (SGLANG_DECODE, 8, 544), (VLLM_DECODE, 4, 421), (H100, 1029, 0)],
)
def test_kernels_link_to_operators_but_for_those_of_graphs(trace, linked, in_graph, report_of):
    kernels = report_of(trace).kernels
    assert (kernels["attributed_by"] == "torch_link").sum() == linked
    assert kernels["in_graph"].sum() == in_graph
    assert not (kernels["in_graph"] & kernels["operator"].notna()).any()


def test_shapes_are_read_as_each_operator_keeps_its_weight():
    assert gemm_shape("aten::mm", "[[32,64],[64,128]]") == (1, 32, 128, 64)
    assert gemm_shape("aten::addmm", "[[128],[32,64],[64,128],[],[]]") == (1, 32, 128, 64)
    assert gemm_shape("aten::linear", "[[4,8,64],[128,64],[128]]") == (1, 32, 128, 64)
    assert gemm_shape("aten::bmm", "[[6,32,64],[6,64,128]]") == (6, 32, 128, 64)
    assert gemm_shape("aiter::gemm_a16w16", "[[32,4096],[24576,4096],[]]") == (1, 32, 24576, 4096)


@pytest.mark.parametrize(
    ("operator", "shapes"),
    [
        ("aten::mm", "[[32,64],[63,128]]"),  # k differs
        ("aten::add", "[[32,64],[64,128]]"),  # no multiplication
        ("aten::mm", "[[[2,3]],[64,128]]"),  # a list of tensors
        ("aten::mm", "[[0,64],[64,128]]"),
        ("aten::mm", None),
        (None, None),
    ],
)
def test_what_is_no_matrix_multiplication_has_no_shape(operator, shapes):
    assert gemm_shape(operator, shapes) is None


# ------------------------------------------------------------------------------ phases


@pytest.mark.parametrize(
    ("label", "phase"),
    [
        ("execute_32_context_0(sq0sk0)_generation_32(sq32sk32785)", "decode"),
        ("execute_15360_context_15(sq15360)_generation_0(sq0sk0)", "prefill"),
        ("execute_context_1(888_788544)_generation_0(0)", "prefill"),
        ("execute_9_context_1(8)_generation_8(8)", "mixed"),
        ("step[DECODE bs=32]", "decode"),
        ("step[EXTEND bs=15 toks=15360]", "prefill"),
        ("prefill", "prefill"),
        ("Decode", "decode"),
        ("ProfilerStep#6", None),
        ("Optimizer.step#SGD.step", None),
        ("layer_3", None),
    ],
)
def test_range_names_of_engines_tell_the_phase(label, phase):
    assert phase_of(label) == phase


def test_the_patterns_of_phases_can_be_edited(report_path):
    patterns = (PhasePattern("vision", "sam|clip|projector"), *DEFAULT_PHASES)
    path = report_path("csv/llm-perf-opt/projector_cuda_gpu_kern_sum.csv")
    assert set(profilers.read_report(path, phases=patterns).kernels["phase"]) == {"vision"}
    assert profilers.read_report(path).kernels["phase"].isna().all()


def test_a_pattern_that_is_no_regular_expression_is_refused():
    with pytest.raises(InvalidValue, match="not a regular expression"):
        phase_of("decode", [PhasePattern("decode", "(")])


def test_the_label_of_a_file_names_a_phase_only_where_no_range_does(report_path):
    prefill = profilers.read_report(report_path(SGLANG_PREFILL), label="decode.json.gz")
    assert set(prefill.kernels["phase"]) == {"prefill"}
    assert set(prefill.kernels["phase_by"]) == {"range_pattern"}
    sums = report_path("csv/nsys_stats/mfu_2gpu_before_cuda_gpu_kern_sum.csv")
    labelled = profilers.read_report(sums, label="decode_step.csv").kernels
    assert set(labelled["phase"]) == {"decode"}
    assert set(labelled["phase_by"]) == {"label_pattern"}
    both = profilers.read_report(sums, label="prefill_and_decode.csv").kernels
    assert both["phase"].isna().all()


def test_attributing_again_with_other_patterns_starts_from_the_links(report_of):
    report = report_of(SGLANG_DECODE)
    again = attribute(report, [PhasePattern("prefill", "nothing is called so")])
    assert again.kernels["phase"].isna().all()
    assert set(again.kernels["attributed_by"]) <= {"torch_link", "kernel_name", "unclassified"}
    pd.testing.assert_frame_equal(attribute(again).kernels, report.kernels)


# ------------------------------------------------------------------------------ classes


@for_every(
    [
        ("void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<(int)128>>", "attention"),
        ("fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention)", "attention"),
        ("paged_attention_ll4mi_QKV_mfma16_kernel<vllm::Fp8KVCacheDataType>", "attention"),
        ("_ZN7ck_tile6kentryILi2ENS_38FmhaBatchPrefillWithPagedKVCacheKernel", "attention"),
        ("kernel_unified_attention_3d", "attention"),
        ("BatchDecodeWithPagedKVCacheKernel", "attention"),
        ("void vllm::reshape_and_cache_flash_kernel<__hip_bfloat16>", "kv_cache"),
        ("create_flashinfer_kv_indices_triton", "kv_cache"),
        ("nvjet_tst_192x192_64x4_2x1_v_bz_coopB_bias_TNN", "gemm"),
        ("Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x32x64", "gemm"),
        ("void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16>", "gemm"),
        ("ampere_sgemm_128x64_nn", "gemm"),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64", "gemm"),
        ("void cublasLt::splitKreduce_kernel<(int)32, (int)16>", "gemm"),
        ("internal::gemvx::kernel<int, int, __nv_bfloat16>", "gemv"),
        ("_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1_swiglu", "moe"),
        ("void vllm::moe::topkGatingSoftmax<float>", "moe"),
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "communication"),
        ("void vllm::cross_device_reduce_1stage<__nv_bfloat16>", "communication"),
        ("_ZN5aiter24add_rmsnorm_quant_kernelIDF16b", "norm"),
        ("void at::native::vectorized_layer_norm_kernel<float, float>", "norm"),
        ("triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_0", "norm"),
        ("void vllm::rotary_embedding_kernel<c10::BFloat16, true>", "rope"),
        ("sgl_hip10activation18act_and_mul_kernelI14__hip_bfloat16", "activation"),
        ("at::native::vectorized_elementwise_kernel<4, at::native::silu_kernel>", "activation"),
        ("at::native::reduce_kernel<512, at::native::ArgMaxOps<float>>", "sampling"),
        ("at::native::sbtopk::gatherTopK<float, unsigned int>", "sampling"),
        ("at::native::indexSelectSmallIndex<c10::BFloat16, long>", "embedding"),
        ("void selective_scan_fwd_kernel<Selective_Scan_fwd_kernel_traits>", "ssm"),
        ("cutlass_tensorop_bf16_s16816fprop_optimized_bf16", "convolution"),
        ("at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)", "memory"),
        ("at::native::FillFunctor<long>", "memory"),
        ("at::native::BinaryFunctor elementwise_kernel<128, 4>", "elementwise"),
        ("triton_poi_fused_0", "triton"),
        ("saxpy", None),
        ("at::native::templates::cuda::normal_and_transform", None),
        ("", None),
        (None, None),
    ]
)
def test_kernel_names_of_nvidia_amd_and_triton_tell_the_class(name, operator_class):
    assert class_of_name(name) == operator_class


def test_every_class_is_counted_by_the_engine_or_unclassified():
    assert set(OPERATOR_CLASSES) - set(ENGINE_CLASS) == {"unclassified"}


def test_a_dispatched_operator_tells_more_than_its_kernel(report_of):
    kernels = report_of(H100).kernels
    products = kernels[kernels["operator"] == "aten::mm"]
    assert set(products["operator_class"]) == {"gemm"}
    assert (products["flops"] > 0).all()


def test_every_row_records_how_it_was_attributed(report_of):
    for name in (MFU, SGLANG_DECODE, H100, "ncu/a100_pcie_extrap.ncu-rep"):
        ways = report_of(name).kernels["attributed_by"]
        assert ways.notna().all()
        assert tuple(ways.cat.categories) == ATTRIBUTIONS


def test_shares_of_the_unattributed_and_unclassified_are_of_kernel_time(report_of):
    report = report_of(MFU)
    summary = profilers.summarise(report)
    kernels = report.kernels
    without_range = kernels["range_id"].isna()
    share = kernels["duration_s"][without_range].sum() / kernels["duration_s"].sum()
    assert summary["unattributed_share"] == pytest.approx(share)
    assert 0 < share < 0.05
    assert summary["unclassified_share"] == 0
    assert sum(summary["attributed_by"].values()) == pytest.approx(1)


# ------------------------------------------------------------------------------ measurements


def test_a_measurement_of_stages_holds_both_phases(report_of):
    stages = [f"csv/llm-perf-opt/{s}_cuda_gpu_kern_sum.csv" for s in ("prefill", "decode")]
    measured = profilers.measure_from([report_of(stage) for stage in stages])
    assert measured.phases["prefill"].mean_s == pytest.approx(65_691_733e-9)
    assert measured.phases["decode"].mean_s == pytest.approx(179_072_697e-9)
    assert measured.phases["decode"].basis == "kernels"
    by_phase = measured.operators.groupby("phase")["time_s"].sum()
    assert by_phase["decode"] == pytest.approx(179_072_697e-9)


def test_operator_rows_of_a_measurement_add_up_to_the_kernels(report_of):
    report = report_of(SGLANG_PREFILL)
    measured = profilers.measure_from([report])
    operators = measured.operators
    assert operators["time_s"].sum() == pytest.approx(report.kernels["duration_s"].sum())
    assert operators["count"].sum() == 527
    products = operators[operators["name"] == "aten::mm"].iloc[0]
    assert products["class"] == "gemm"
    assert products["flops"] * products["count"] == pytest.approx(
        sum(
            float(row["GFLOPS_first"]) * 1e9 * int(row["name_count"])
            for row in golden_gemms("sglang_prefilldecode")
            if row["name"] == "aten::mm"
        )
    )
    assert measured.system.name == "AMD Instinct MI300X"


def test_every_decode_range_inside_a_request_is_a_step(tmp_path):
    def event(category: str, name: str, ts: float, dur: float, **args: object) -> dict:
        return {"ph": "X", "cat": category, "name": name, "ts": ts, "dur": dur, "args": args}

    events = [event("user_annotation", "generate", 0, 1000)]
    for i in range(3):
        events.append(event("user_annotation", f"decode {i}", 100 * i, 90))
        events.append(event("cuda_runtime", "cudaLaunchKernel", 100 * i + 5, 1, correlation=i))
        events.append(event("kernel", "gemm", 100 * i + 10, 20 + i, correlation=i, device=0))
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    decode = profilers.measure_from([profilers.read_report(path)]).phases["decode"]
    assert decode.samples_s == pytest.approx((20e-6, 21e-6, 22e-6))


def test_a_trace_of_a_cpu_is_timed_by_its_annotations(tmp_path):
    events = [
        {"ph": "X", "cat": "user_annotation", "name": name, "ts": ts, "dur": dur, "args": {}}
        for name, ts, dur in (("prefill", 0, 4000), ("decode", 5000, 300), ("decode", 6000, 500))
    ]
    path = tmp_path / "cpu.json"
    path.write_text(json.dumps({"traceEvents": events}))
    phases = profilers.measure_from([profilers.read_report(path)]).phases
    assert phases["prefill"].samples_s == pytest.approx((4e-3,))
    assert phases["decode"].samples_s == pytest.approx((300e-6, 500e-6))
    assert phases["decode"].basis == "wall"


def test_ncu_times_are_never_added_to_those_of_another_tool(report_of):
    reports = [report_of(MFU), report_of("ncu/a100_pcie_extrap.ncu-rep")]
    with pytest.raises(profilers.ReportError, match="separately"):
        profilers.measure_from(reports)
    with pytest.raises(profilers.ReportError, match="no report"):
        profilers.measure_from([])


def test_of_ranks_the_slowest_counts_and_of_stages_all_steps(report_of):
    import dataclasses

    report = report_of(SGLANG_PREFILL)
    slower = report.kernels.copy()
    slower["duration_s"] = slower["duration_s"] / 2
    ranks = [report, dataclasses.replace(report, kernels=slower, facts={"rank": 1})]
    (busy,) = profilers.measure_from([report]).phases["prefill"].samples_s
    assert profilers.measure_from(ranks).phases["prefill"].samples_s == (busy,)
    assert len(profilers.measure_from([report, report]).phases["prefill"].samples_s) == 2
    assert np.isclose(busy, 492.768906e-3)


def test_the_decoder_of_a_training_step_is_no_decode():
    assert phase_of("## decoder fp8 ##") is None
    assert phase_of("decode") == phase_of("my_decode_step") == "decode"

"""Facts about what ran: certain, likely with evidence, or unknown with candidates."""

import dataclasses

import pytest

import profilers
from app.measuring.comparison import compare_asked
from app.measuring.identity import of_reports
from app.measuring.summary_document import identity_of
from app.measuring.time_report import of_profile
from app.question.query import ask
from genz_core.errors import InvalidValue
from profilers.operators.attribution import attribute
from profilers.phases.inferred_phases import phased
from profilers.phases.what_ran import what_ran
from profilers.schema import DeviceInfo
from tests.app.pages import QWEN, REPORTS


@pytest.fixture(scope="module")
def qwen():
    return profilers.read_report(QWEN)


QWEN3 = "inference_sglang_prefilldecode_sglang_Qwen3-8B_prefilldecode.json.gz"


def facts(report):
    return {one.field: one for one in identity_of(report)}


def test_a_trace_tells_its_own_facts(qwen):
    known = facts(qwen)
    told = {name: (one.value, one.certainty) for name, one in known.items() if one.value}
    assert told["system"] == ("h100-sxm5-80gb", "certain")
    assert told["model"] == ("Qwen/Qwen1.5-0.5B", "likely")
    assert told["weights"] == ("bf16", "certain") and told["engine"] == ("hf", "certain")
    assert told["phase"] == ("prefill", "certain") and told["batch of prefill"][0] == "16"
    unknown = {name for name, one in known.items() if one.certainty == "unknown"}
    assert unknown == {"kv", "tp", "engine_version", "limits"}
    assert known["tp"].candidates and known["engine_version"].candidates


@pytest.mark.parametrize(("stated", "value", "others"), [
    ({}, "h100-sxm5-80gb", 2),  # indistinguishable, so the user is asked
    ({"units": 114}, "h100-pcie-80gb", 0),
    ({"memory_bytes": 99.9e9, "units": 132}, "h100-nvl-94gb", 0),
    ({"memory_bytes_per_s": 3.35e12, "memory_bytes": 80e9}, "h100-sxm5-80gb", 0),
])  # fmt: skip
def test_boards_of_one_name_are_told_apart_by_what_the_report_states(qwen, stated, value, others):
    report = dataclasses.replace(qwen, devices=(DeviceInfo(0, "NVIDIA H100", **stated),))
    known = facts(report)["system"]
    assert (known.value, known.certainty, len(known.candidates)) == (value, "likely", others)
    assert "fits 3 boards" in known.evidence
    assert ("ruled out" in known.evidence) is (others == 0)


@pytest.fixture(scope="module")
def renamed():
    """A trace of an MI300X whose device is named NVIDIA H100 80GB HBM3."""
    report = profilers.read_report(REPORTS / "torch" / QWEN3)
    (device,) = report.devices
    named = dataclasses.replace(device, name="NVIDIA H100 80GB HBM3")
    return dataclasses.replace(report, devices=(named,))


def test_the_name_of_a_file_makes_a_phase_likely_and_shapes_take_precedence(qwen):
    summary = REPORTS / "csv/llm-perf-opt/prefill_cuda_gpu_kern_sum.csv"
    named = facts(profilers.read_report(summary, label="decode_step"))["phase"]
    assert (named.value, named.certainty, named.candidates) == ("decode", "likely", ("prefill",))
    assert named.evidence == "the name of its file, decode_step"
    shaped = facts(attribute(dataclasses.replace(qwen, label="decode_step")))["phase"]
    assert (shaped.value, shaped.certainty) == ("prefill", "certain")
    assert shaped.evidence == "the shapes of its operators"
    ranged = facts(profilers.read_report(REPORTS / "torch" / QWEN3))["phase"]
    assert ranged.certainty == "certain" and ranged.evidence.startswith("the range ")


def test_a_stated_phase_takes_precedence_over_the_name_of_a_file():
    summary = REPORTS / "csv/llm-perf-opt/prefill_cuda_gpu_kern_sum.csv"
    report = profilers.read_report(summary, label="decode_step")
    assert set(phased(report, "prefill").kernels["phase"]) == {"prefill"}


def test_the_weights_of_experts_count_and_a_device_without_a_name_is_only_likely():
    """gpt-oss-20b in MXFP4: two thirds of the kernels' time are products of experts."""
    known = facts(
        profilers.read_report(REPORTS / "torch/inference_vllm_decode_full_graph_execution.json.gz")
    )
    weights, system = known["weights"], known["system"]
    assert (weights.value, weights.certainty) == ("mxfp4", "likely")
    assert weights.candidates == ("bf16",) and weights.evidence.startswith("84 %")
    assert (system.value, system.certainty) == ("mi300x", "likely")
    assert system.evidence.startswith("its 304 units and 206 GB")


def test_a_format_is_not_likely_if_most_products_name_none(qwen):
    names = ["sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n", "fused_moe_kernel"]
    kernels = qwen.kernels.iloc[:2].assign(
        name=names, operator_class=["gemm", "moe"], duration_s=[1e-3, 9e-3], input_types=None
    )
    report = dataclasses.replace(qwen, kernels=kernels)
    known = {one.field: one for one in of_reports(what_ran([report]), [report])}["weights"]
    assert (known.value, known.certainty) == ("", "unknown")
    assert "10 %" in known.evidence and known.candidates == ("bf16",)


def test_figures_and_kernels_of_a_device_take_precedence_over_its_name(renamed):
    known = facts(renamed)["system"]
    assert (known.value, known.certainty) == ("mi300x", "likely")
    assert "304 against 132" in known.evidence and "another vendor" in known.evidence
    bare = dataclasses.replace(renamed.devices[0], units=None, memory_bytes=None)
    unknown = facts(dataclasses.replace(renamed, devices=(bare,)))["system"]
    assert unknown.certainty == "unknown" and "NVIDIA H100 80GB HBM3" in unknown.evidence


def test_nothing_rests_on_a_name_that_the_report_contradicts(renamed):
    asked = {"model": "Qwen/Qwen3-8B"}
    with pytest.raises(InvalidValue, match=r"304 against 132.* give --system, for example mi300x"):
        compare_asked([renamed], ask("compare", asked))
    wrong, right = (
        compare_asked([renamed], ask("compare", asked | {"system": name}))
        for name in ("h100", "mi300x")
    )
    assert not wrong.comparison.findings and not of_profile(wrong) and wrong.comparison.failed
    assert right.comparison.findings and of_profile(right)


def test_models_of_the_same_shapes_are_candidates():
    known = facts(profilers.read_report(REPORTS / "torch" / QWEN3))["model"]
    assert known.value == "Qwen/Qwen3-8B" and known.certainty == "likely"
    assert known.candidates == ("Qwen/Qwen3-VL-8B-Instruct",)


def test_whole_products_on_several_ranks_are_those_of_attention_ranks():
    """A trace of one rank whose products are those of the whole model: the ranks share no layer."""
    name = "inference_sglang_prefilldecode_sglang_Qwen3-8B_prefilldecode.json.gz"
    report = profilers.read_report(REPORTS / "torch" / name)
    among = dataclasses.replace(report, facts={**report.facts, "world_size": 8})
    known = facts(among)
    assert (known["tp"].value, known["dp"].value) == ("1", "8")
    assert known["tp"].certainty == "likely" and known["tp"].candidates == ("8", "4", "2")


@pytest.mark.parametrize(("kernel", "format_"), [
    ("void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, unsigned char, "
     "(vllm::Fp8KVCacheDataType)1>", "fp8"),
    ("void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, __nv_bfloat16, "
     "(vllm::Fp8KVCacheDataType)0>", "bf16"),
    ("fmhaSm100fKernel_QkvE4m3OBfloat16H128PagedKvCausal", "fp8"),
    ("void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128>>", None),
    ("sm89_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n", None),  # without a kernel of the cache
])  # fmt: skip
def test_an_8_bit_cache_is_told_by_the_names_of_its_kernels(qwen, kernel, format_):
    kernels = qwen.kernels.iloc[:3].assign(name=kernel, full_name=kernel)
    found = what_ran([dataclasses.replace(qwen, kernels=kernels)]).kv
    assert (found.value if found else None) == format_


def test_an_8_bit_cache_is_priced_and_contradicts_another(qwen):
    name = "void vllm::reshape_and_cache_flash_kernel<bf16, uint8, (vllm::Fp8KVCacheDataType)1>"
    rows = qwen.kernels.assign(name=qwen.kernels["name"].astype(object))
    rows.loc[rows.index[-1], "name"] = name
    report = dataclasses.replace(qwen, kernels=rows.astype({"name": "category"}))
    found = compare_asked([report], ask("compare", {"model": "Qwen/Qwen1.5-0.5B"}))
    assert found.resolved.model.precision.kv == "fp8" and not found.filled.differences
    typed = compare_asked([report], ask("compare", {"model": "Qwen/Qwen1.5-0.5B", "kv": "bf16"}))
    assert "kv" in {one.field for one in typed.filled.differences}
    assert not typed.comparison.findings


def test_without_shapes_and_names_everything_is_asked(qwen):
    bare = dataclasses.replace(qwen, devices=(), kernels=qwen.kernels.iloc[:0], label="x")
    known = {one.field: one for one in of_reports(what_ran([bare]), [bare])}
    assert {one.certainty for one in known.values()} == {"unknown"}
    assert known["phase"].candidates == ("prefill", "decode")

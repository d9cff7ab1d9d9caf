"""`compare`: which measurements are within their intervals, in words and numbers."""

import gzip
import json
import re

import pytest

from genz_core.errors import InvalidValue
from tests.app.pages import DECODE, QWEN, REPORTS

SUMMARY = REPORTS / "csv" / "nsys_stats" / "mfu_2gpu_before_cuda_gpu_kern_sum.csv"


def test_words_and_numbers_tell_which_measurements_lie_inside(printed):
    call = ("compare", DECODE, "--model", "Qwen/Qwen3-8B", "--system", "h100")
    words, document, table = (
        printed(*call, *more) for more in ((), ("--json",), ("--format", "csv"))
    )
    assert {"80 %", "inside 80 %"} <= set(re.split(r"  +", words.splitlines()[1]))
    judged = [row for row in json.loads(document)["classes"] if row["inside"] is not None]
    assert len(judged) > 2
    for row in judged:
        assert row["inside"] is (row["low_s"] <= row["measured_s"] <= row["high_s"])
    assert table.splitlines()[1].split(",")[2:6] == ["predicted_s", "low_s", "high_s", "measured_s"]


def test_a_report_whose_phase_nothing_tells_is_refused_with_the_option_that_names_one(
    ridgeline, answer
):
    call = ("compare", SUMMARY, "--model", "Qwen/Qwen1.5-0.5B", "--system", "h100")
    refused = ridgeline(*call)
    assert isinstance(refused.exception, InvalidValue)
    assert "--as prefill" in str(refused.exception)
    (phase,) = answer(*call, "--as", "prefill")["phases"]
    assert phase["phase"] == "prefill" and phase["measured_s"] > 0


def test_what_ran_fills_what_is_not_typed(answer):
    document = answer("compare", QWEN, "--model", "Qwen/Qwen1.5-0.5B")
    priced = document["priced"]
    assert (priced["system"], priced["engine"]) == ("h100-sxm5-80gb", "hf")
    assert (priced["batch"], priced["isl"]) == (16, 559)
    (phase,) = document["phases"]
    assert phase["phase"] == "prefill", "attention over 559 new tokens of 559"
    assert abs(phase["measured_s"] / 31.8e-3 - 1) < 0.01, "kernels of the step before are not its"
    assert {one["field"] for one in document["filled"]} == {"system", "engine", "batch", "isl"}
    assert not document["differences"] and document["findings"]


def test_kernel_time_and_wall_time_have_keys_of_their_own_and_joins_are_said(answer):
    document = answer("compare", QWEN, "--model", "Qwen/Qwen1.5-0.5B")
    (phase,) = document["phases"]
    assert phase["busy_s"] + phase["idle_s"] == pytest.approx(phase["wall_s"])
    assert phase["wall_s"] == pytest.approx(34.9e-3, rel=0.01), "its gpu_user_annotation"
    assert sum(row["measured_s"] for row in document["operators"]) == pytest.approx(
        phase["measured_s"]
    )
    assert document["joined_share"] == phase["joined_share"] > 0.95
    assert {row["matched_by"] for row in document["operators"]} == {"module", "none"}
    assert any("30 %" in note for note in document["notes"])
    assert all(one["operator"] and one["kernels"] for one in document["findings"])


def test_sglang_samples_are_priced_for_the_steps_that_their_ranges_name(answer):
    torch = REPORTS / "torch"
    prefill, decode = (
        answer("compare", torch / f"inference_sglang_{name}.json.gz", "--model", "Qwen/Qwen3-8B")
        for name in ("prefilldecode_sglang_Qwen3-8B_prefilldecode", "decode_sglang_Qwen3-8B_decode")
    )
    for document, phase in ((prefill, "prefill"), (decode, "decode")):
        assert (document["priced"]["system"], document["priced"]["engine"]) == ("mi300x", "sglang")
        assert [row["phase"] for row in document["phases"]] == [phase]
        assert not document["differences"]
    assert (prefill["priced"]["batch"], prefill["priced"]["isl"]) == (15, 1024)
    assert (decode["priced"]["batch"], decode["priced"]["isl"]) == (32, 1024)
    assert prefill["phases"][0]["ratio"] < 2.2, "25.7 for one prompt"


@pytest.mark.slow
def test_what_is_typed_against_the_trace_is_named_with_it_and_no_finding_is_stated(answer, printed):
    call = ("compare", QWEN, "--model", "Qwen/Qwen1.5-0.5B", "--isl", "4096", "--tp", "2",
            "--system", "a100-sxm4-80gb")  # fmt: skip
    document = answer(*call)
    apart = {one["field"]: (one["scenario"], one["ran"]) for one in document["differences"]}
    assert apart["ISL"] == ("4096", 559)
    assert apart["system"][1] == "NVIDIA H100 80GB HBM3"
    assert document["findings"] == []
    words = printed(*call)
    assert "there are no findings" in words and "4096" in words and "559" in words


def test_no_fill_keeps_the_defaults_and_says_what_ran(answer):
    document = answer("compare", QWEN, "--model", "Qwen/Qwen1.5-0.5B", "--no-fill")
    assert (document["priced"]["batch"], document["priced"]["isl"]) == (1, 1024)
    apart = {one["field"]: one["scenario"] for one in document["differences"]}
    assert set(apart) == {"batch", "ISL", "engine"}
    assert apart["engine"] == "vllm", "the default engine of every interface"
    assert document["filled"] == [] and document["findings"] == []


def test_a_model_with_other_layers_than_ran_is_said(answer):
    document = answer("compare", QWEN, "--model", "Qwen/Qwen2.5-1.5B")
    apart = {one["field"]: one["ran"] for one in document["differences"]}
    assert apart["layers"] == 24 and apart["hidden size"] == 1024


def test_eager_transformers_on_a_gpu_is_priced_as_the_kernels_that_nothing_fused(answer):
    """Unfused norms and rotations were three quarters of an unexplained difference of 15 ms."""
    report = REPORTS / "torch" / "h100_Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz"
    found = answer("compare", report, "--model", "Qwen/Qwen1.5-0.5B")
    [phase] = found["phases"]
    assert phase["predicted_wall_s"] == pytest.approx(phase["wall_s"], rel=0.1)
    rows = {row["name"]: row for row in found["operators"]}
    for name in ("input_norm", "post_attention_norm", "rope", "act_mul"):
        assert rows[name]["bound_s"] < rows[name]["measured_s"]
        assert rows[name]["ratio"] == pytest.approx(1.0, abs=0.5), name
    classes = {row["class"]: row for row in found["classes"]}
    sides = {side: classes["norm"][side] + classes["pointwise"][side] for side in
             ("predicted_s", "measured_s")}  # fmt: skip
    assert sides["predicted_s"] == pytest.approx(sides["measured_s"], rel=0.25)


def test_the_steps_of_a_summary_are_counted_by_launches_of_attention(answer):
    """64 decode steps were counted as one, although twelve layers launched attention 768 times."""
    folder = REPORTS / "csv" / "llm-perf-opt"
    given = ("--model", "deepseek-ai/DeepSeek-OCR", "--system", "rtx5090", "--engine", "hf")
    counted = answer("compare", folder / "decode_cuda_gpu_kern_sum.csv", *given)
    [phase] = counted["phases"]
    assert phase["steps"] == 64 and phase["ratio"] == pytest.approx(1.0, rel=0.2)
    assert any("64 steps of decode were counted" in note for note in counted["notes"])
    stated = answer(
        "compare", folder / "decode_cuda_gpu_kern_sum.csv", *given, "--steps", "decode=64"
    )
    assert stated["phases"] == counted["phases"]
    one = answer("compare", folder / "decode_cuda_gpu_kern_sum.csv", *given, "--steps", "decode=1")
    assert one["phases"][0]["ratio"] == pytest.approx(64 * phase["ratio"])
    prompts = answer("compare", folder / "prefill_cuda_gpu_kern_sum.csv", *given)
    assert prompts["phases"][0]["steps"] == 1, "an image encoder attends, too: nothing tells"


def test_kernels_that_were_picked_for_ncu_are_no_step(ridgeline):
    """Six kernels of 54 us were reported as 100 % faster than a step of 67 ms."""
    report = REPORTS / "ncu" / "a100_pcie_extrap.ncu-rep"
    given = ("--model", "Qwen/Qwen3-8B", "--system", "a100", "--as", "decode")
    refused = ridgeline("compare", report, *given).exception
    assert isinstance(refused, InvalidValue)
    assert "ncu timed 6 launches" in str(refused) and "do not form a step" in str(refused)


@pytest.mark.slow
def test_units_and_memory_name_a_device_that_a_trace_does_not(answer, tmp_path):
    """A trace of 304 compute units and 206 GB was taken for an H100."""
    trace = json.loads(gzip.decompress(QWEN.read_bytes()))
    trace["deviceProperties"] = [
        {"id": 0, "name": "", "numSms": 304, "totalGlobalMem": 206_141_652_992}
    ]
    path = tmp_path / "nameless.json"
    path.write_text(json.dumps(trace))
    given = ("--model", "Qwen/Qwen1.5-0.5B")
    found = answer("compare", path, *given)
    assert found["priced"]["system"] == "mi300x"
    [filling] = [one for one in found["filled"] if one["field"] == "system"]
    assert "304 units and 206 GB" in filling["evidence"]
    typed = answer("compare", path, *given, "--system", "h100")
    assert "system" in [one["field"] for one in typed["differences"]] and not typed["findings"]


@pytest.mark.slow
def test_the_trace_of_a_run_of_its_own_says_what_ran(answer, own_data, printed, tmp_path):
    """The command once asked for the system, and priced 1 x 1,024 where 2 x 48 ran."""
    pytest.importorskip("torch")
    config = tmp_path / "config.json"
    config.write_text(json.dumps({
        "model_type": "llama", "hidden_size": 64, "intermediate_size": 192, "vocab_size": 256,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "max_position_embeddings": 512, "architectures": ["LlamaForCausalLM"],
    }))  # fmt: skip
    trace = tmp_path / "own.json"
    load = ("--batch", "2", "--isl", "48", "--osl", "4", "--threads", "1", "--repeats", "1")
    printed("measure", "run", config, "--device", "cpu", *load, "--trace", trace, "--no-keep")
    assert str(tmp_path) not in trace.read_text(), "no folder of this machine"
    found = answer("compare", trace, "--model", config, "--system", "h100")
    priced = found["priced"]
    assert (priced["batch"], priced["isl"], priced["osl"]) == (2, 48, 4)
    assert priced["engine"] == "hf"
    told = [one for one in found["filled"] if "wrote the trace" in one["evidence"]]
    assert {one["field"] for one in told} >= {"batch", "isl", "osl", "engine"}
    [apart] = [one for one in found["differences"] if one["field"] == "system"] or [None]
    assert apart is None or apart["scenario"].startswith("NVIDIA H100")

"""Where labels contradict the evidence of what ran, the evidence counts and both are named."""

import json

import pytest

from app.benchmarks import identity, names
from app.benchmarks.comparison import compare
from app.benchmarks.deployment import deployment
from profilers.serving_results import read_results
from tests.app.benchmarks.conftest import HARDWARE, RUN, measured_as
from tests.profilers.serving_results.conftest import RESULTS

GIVEN = {"model": "Qwen/Qwen2-7B", "system": "rtx-4090"}


@pytest.fixture
def bench(tmp_path):
    """llama-bench's first test of a file with some fields changed."""
    tests = json.loads((RESULTS / "llama_bench" / "llama-bench_rtx4080.json").read_text())

    def read(**changes):
        path = tmp_path / "bench.json"
        path.write_text(json.dumps([{**tests[0], **changes}]))
        [one] = read_results(path)
        return one

    return read


def test_bits_a_weight_count_more_than_a_label(bench):
    """A file of 5.3 bits per weight that is called F16 was priced with 16 bits, faster than
    possible.
    """
    count = 7_615_616_512
    mixed = {"model_n_params": count, "model_size": int(count * 5.3 / 8)}
    called = deployment(bench(model_type="qwen2 7B F16", **mixed), GIVEN)
    assert called.scenario.weights == "q5_0"
    [filling] = [one for one in called.fillings if one.field == "weights"]
    assert "5.3 bits per weight" in filling.evidence and "F16" in filling.evidence
    right = deployment(bench(model_type="qwen2 7B Q4_K - Medium", **mixed), GIVEN)
    assert right.scenario.weights == "q4_k_m"
    assert not compare([called, right]).points[0].failed
    typed = deployment(bench(model_type="qwen2 7B F16", **mixed), {**GIVEN, "weights": "bf16"})
    [check] = [c for c in compare([typed]).points[0].failed if "bytes over" in c.name]
    assert (check.left, check.right) == (pytest.approx(5.3), 16.0)


def test_tables_state_size_and_parameters_too():
    first, *_ = read_results(RESULTS / "llama_bench" / "llama-bench_qwen2_7b.md")
    assert first.subject.bits_per_weight == pytest.approx(4.36 * 2**30 * 8 / 7.62e9, rel=1e-3)


@pytest.mark.parametrize("gpu", [
    "AMD Radeon Graphics", "AMD Radeon Graphics (RADV GFX1151)", "Radeon 8060S Graphics (RADV X)",
])  # fmt: skip
def test_graphics_inside_a_processor_are_named_by_the_processor(bench, gpu):
    one = bench(cpu_info="AMD RYZEN AI MAX+ 395 w/ Radeon 8060S", gpu_info=gpu, n_gpu_layers=99)
    named = names.look_up("system", one.subject.device)
    assert named.name == "ryzen-ai-max-395" and one.subject.devices == 1


def test_unsloths_mixtures_are_known_in_names_and_as_formats():
    named = names.look_up("model", "Qwen3-8B-UD-Q4_K_XL.gguf")
    assert named.identity == "Qwen/Qwen3-8B" and named.weights == "q4_k_m"
    assert names.weight_format("UD-Q4_K_XL") == "q4_k_m"
    assert names.weight_format("Q8_0") == "q8_0" and names.weight_format("auto") == ""


def facts(measurement, **given):
    return {one.field: one for one in identity.of_run(deployment(measurement, given))}


@pytest.mark.parametrize(("stated", "date", "version", "evidence"), [
    ("0.9.2", "20261101-120000", "0.9.2", "the file states"),
    ("vllm/vllm-openai:v0.13.0", "20261101-120000", "0.13.0", "the file states"),
    ("ghcr.io/llm-d/llm-d-cuda:0.3.1", "20241109-150547", "2024-11", "2024-11-09"),
    (None, "20241109-150547", "2024-11", "names no version"),
    (None, "20261101-120000", "", ""),  # the current engine
])  # fmt: skip
def test_the_version_is_that_of_the_file_else_of_its_date(read, stated, date, version, evidence):
    record = {**RUN, "date": date} | ({"vllm_version": stated} if stated else {})
    one = deployment(read(record), HARDWARE)
    assert one.scenario.engine_version == version
    said = [f.evidence for f in one.fillings if f.field == "engine_version"]
    assert evidence in said[0] if version else not said
    given = deployment(read(record), {**HARDWARE, "engine_version": "0.8"})
    assert given.scenario.engine_version == "0.8"


def test_the_cache_is_priced_as_the_file_states_it(read):
    one = deployment(read({**RUN, "kv_cache_dtype": "fp8"}), HARDWARE)
    assert one.priced().model.precision.kv == "fp8"
    assert deployment(read({**RUN, "kv_cache_dtype": "auto"}), HARDWARE).scenario.kv == ""


def test_boards_are_told_apart_by_what_they_reach(read):
    """8.9 ms per token is too fast to read 16 GB of weights at 2 TB/s, but possible at 3.9 TB/s."""
    measured = read({**RUN, "gpu": "H100"})
    fast = read(measured_as({**RUN, "gpu": "H100"}, 0.09, 0.0062))
    slow, quick = facts(measured, tp=1)["system"], facts(fast, tp=1)["system"]
    assert slow.value == quick.value == "h100-sxm5-80gb" and slow.certainty == "likely"
    assert "h100-pcie-80gb" in slow.candidates and "h100-pcie-80gb" not in quick.candidates
    assert "below its bound" in quick.evidence
    assert facts(measured, system="h100-sxm5-80gb")["system"].certainty == "certain"


def test_every_fact_of_a_run_is_certain_likely_or_unknown(read):
    known = facts(read(RUN))
    assert known["system"].certainty == "unknown"
    known = facts(read(RUN), system="h100-sxm5-80gb")
    assert known["model"].certainty == "certain" and known["batch"].value == "concurrency 8"
    assert known["tp"].certainty == "likely" and "2" in known["tp"].candidates
    assert known["weights"].certainty == "likely" and known["max_num_seqs"].certainty == "unknown"
    assert known["engine_version"].certainty == "likely" and known["tokens"].value
    sure = facts(read(RUN), system="h100", tp=1, weights="bf16", max_num_seqs=64)
    assert (sure["max_num_seqs"].value, sure["max_num_seqs"].certainty) == ("64", "certain")

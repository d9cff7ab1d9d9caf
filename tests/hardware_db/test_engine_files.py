"""Serving engines: a source for every figure, names as tables print them, unknown ones refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

import hardware_db
import model_registry
from genz_core import Parallelism, Precision, Workload, decode_step, prefill
from genz_core.deployment import deploy
from genz_core.errors import UnknownEngine, UnsupportedEngine
from hardware_db.sourced_facts import Fact
from hardware_db.tables import table

ENGINES = hardware_db.engine_names()
MODEL = model_registry.load("meta-llama/Llama-3.1-8B")


def test_a_plan_tries_the_default_engine_first():
    for name in hardware_db.names():
        system = hardware_db.load(name)
        assert hardware_db.engines_for(system)[0] == hardware_db.default_engine(system), name


@pytest.mark.parametrize("name", ENGINES)
def test_every_figure_has_a_source_that_exists(name):
    record = hardware_db.engine_facts(name)
    values = [getattr(record, field) for field in type(record).model_fields]
    facts = [value for value in (*values, *record.extra.values()) if isinstance(value, Fact)]
    assert len(facts) >= 8
    assert {fact.source for fact in facts} <= set(record.sources)


@pytest.mark.parametrize("name", ENGINES)
def test_every_figure_reaches_the_profile_in_si_units(name):
    """The unit in a YAML key, converted here independently of the schema."""
    record, engine = hardware_db.engine_facts(name), hardware_db.load_engine(name)
    units = {"us": ("s", 1e-6), "ms": ("s", 1e-3), "gb": ("bytes", 1e9), "ghz": ("hz", 1e9)}
    for key in type(record).model_fields:
        fact = getattr(record, key)
        if isinstance(fact, Fact):
            stem, _, end = key.rpartition("_")
            unit, scale = units.get(end, (end, 1.0))
            field = f"{stem}_{unit}" if stem else key
            assert getattr(engine, field) == pytest.approx(fact.value * scale), key


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_is_within_what_software_can_be(name):
    engine = hardware_db.load_engine(name)
    assert engine.name == name
    assert 0 < engine.kernel_floor_s < 1e-4 and 0 <= engine.host_step_s < 0.1
    assert 0.5 < engine.memory_fraction <= 1.0 and engine.kv_block_tokens >= 1


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("vLLM 0.6.3", "vllm"),
        ("TensorRT-LLM", "trtllm"),
        ("SGLang 0.4.6.post1", "sglang"),
        ("llama.cpp (llama-bench)", "llama.cpp"),
        ("HF Transformers 4.35 [fp16+fa2]", "hf"),
        ("", "generic"),
    ],
)
def test_names_are_understood_as_tables_print_them(written, meant):
    assert hardware_db.load_engine(written).name == meant


@pytest.mark.parametrize("name", ["an engine nobody knows", "vlm", "vlm 0.9.0", "x" * 5_000])
@pytest.mark.parametrize("look_up", [hardware_db.engine_facts, hardware_db.load_engine])
def test_an_unknown_engine_is_refused_and_never_turned_into_another(look_up, name):
    with pytest.raises(UnknownEngine, match="unknown engine") as refused:
        look_up(name)
    assert refused.value.code == "unknown_engine"
    assert "vllm" in refused.value.near or not name.startswith("vlm")
    assert "llama.cpp, mlx" in str(refused.value)


@pytest.mark.parametrize(
    ("name", "version"),
    [("vllm banana", ""), ("vLLM", "banana"), ("vllm 0.6.banana", ""), ("vllm", "latest")],
)
def test_a_version_that_cannot_be_read_is_refused_with_the_known_ones(name, version):
    with pytest.raises(UnknownEngine, match=r"unknown version of vllm .*0\.19\.0.*leave|known are"):
        hardware_db.load_engine(name, version)


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("vllm", "0.6.3+cu124"),
        ("trtllm", "1.2.0rc6.post3"),
        ("llama.cpp", "b6918"),
        ("vllm", "2024-05"),
        ("sglang", "nightly-dev-20260402-d7256eb6"),
        ("sglang nightly-dev", "nightly-dev"),
        ("vllm", "0.11.0-rocm"),
        ("hf", "5.x"),
        ("vllm", "99.0"),
    ],
)
def test_releases_builds_months_and_measured_builds_are_versions(name, version):
    assert hardware_db.load_engine(name, version).version == version


def test_every_version_that_was_measured_is_known():
    for row in [*table("measurements", "serving"), *table("measurements", "published")]:
        assert hardware_db.load_engine(row["engine"], row["engine_version"]).name != "generic"


def test_what_only_some_engines_state_reaches_the_profile_in_seconds():
    facts = hardware_db.engine_facts("vllm")
    assert facts.profile().sampling_s == 0.0
    stated = {"sampling_us": Fact(value=40.0, source="fit", kind="measured")}
    assert facts.model_copy(update=stated).profile().sampling_s == pytest.approx(40e-6)


ON_CPU = {"generic", "hf", "llama.cpp", "openvino", "sglang", "vllm"}


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_that_runs_on_cpus_says_who_says_so_and_what_differs(name):
    record = hardware_db.engine_facts(name)
    assert (record.on_cpu is not None) == (name in ON_CPU)
    if record.on_cpu is None:
        assert hardware_db.load_engine(name).on_cpu is None
        return
    facts = [getattr(record.on_cpu, field) for field in type(record.on_cpu).model_fields]
    cited = {fact.source for fact in facts if isinstance(fact, Fact)} | {record.on_cpu.source}
    assert cited <= set(record.sources)


def test_llama_cpp_keeps_scores_in_memory_until_flash_attention_runs_by_default():
    versions = ("b3000", "b6000", "2025-08", "b6918", "")
    kept = [hardware_db.load_engine("llama.cpp", version).score_bytes for version in versions]
    assert kept == [20.0, 20.0, 20.0, 0.0, 0.0]


def test_on_a_cpu_rates_that_were_fitted_on_gpus_say_nothing():
    fitted = hardware_db.load_engine("llama.cpp")
    engine = deploy(MODEL, hardware_db.load("xeon-8480plus"), fitted).engine
    stated = hardware_db.engine_facts("llama.cpp").attention_efficiency.value
    assert fitted.attention_efficiency == stated and engine.attention_efficiency == 1.0
    assert engine.products == "int8" and engine.kernel_floor_s == pytest.approx(5e-6)
    on_gpu = deploy(MODEL, hardware_db.load("h100"), fitted).engine
    assert on_gpu.attention_efficiency == pytest.approx(stated, rel=0.05)


def test_a_share_of_the_peak_holds_on_a_cpu_whose_peak_for_eight_bits_is_unknown():
    """As of one that torch's microbenchmarks measured."""
    fitted, known = hardware_db.load_engine("llama.cpp"), hardware_db.load("xeon-8480plus")
    peaks = {name: peak for name, peak in known.peak_flops_per_s.items() if name != "int8"}
    unknown = replace(known, peak_flops_per_s=peaks)
    model = MODEL.with_precision(Precision({"default": "q8_0"}))
    generic = hardware_db.load_engine("generic")
    ours, other = (
        prefill(model, unknown, Workload(1, 512), engine=engine) for engine in (fitted, generic)
    )
    assert 1.6 < float(ours.total_s[0] / other.total_s[0]) < 2.0


def test_vllm_on_a_cpu_has_the_limits_of_its_server_there():
    engine = deploy(MODEL, hardware_db.load("epyc-9654"), hardware_db.load_engine("vllm")).engine
    assert (engine.chunk_tokens, engine.max_sequences) == (2048, 128)


def test_an_engine_of_gpus_alone_says_so_on_a_cpu():
    [note] = deploy(MODEL, hardware_db.load("epyc-9654"), hardware_db.load_engine("trtllm")).notes
    assert note == "trtllm is not known to run on CPUs: predicted with its GPU constants"


@pytest.mark.parametrize("name", sorted(ON_CPU))
def test_deploying_twice_on_a_cpu_changes_nothing(name):
    system = hardware_db.load("xeon-8480plus")
    once = deploy(MODEL, system, hardware_db.load_engine(name))
    assert deploy(once.model, system, once.engine).engine == once.engine


@pytest.mark.parametrize("slug", ["epyc-9654", "xeon-8480plus", "grace-72core"])
def test_a_token_on_a_cpu_costs_little_more_than_reading_the_weights(slug):
    """Its kernels fit a batch of one: no tile of 64 rows is padded with zeros."""
    system = hardware_db.load(slug)
    step = decode_step(MODEL, system, 1, 512, Parallelism(), hardware_db.load_engine("vllm"))
    weights_s = 2.0 * MODEL.parameters / system.memory_bytes_per_s
    assert weights_s < float(step.total_s[0]) < 1.7 * weights_s


# ------------------------------------------------------------------------------- where it runs


@pytest.mark.parametrize("system", ["mi300x", "gaudi3", "tpu-v6e", "trainium2", "m4-max-40core"])
def test_an_engine_is_refused_where_its_documentation_says_that_it_does_not_run(system):
    with pytest.raises(UnsupportedEngine) as refused:
        hardware_db.require_runs_on("trtllm", hardware_db.load(system))
    assert "TensorRT-LLM" in str(refused.value)
    assert "NVIDIA" in str(refused.value)
    assert refused.value.code == "unsupported_engine"


@pytest.mark.parametrize(
    ("engine", "system"),
    [("trtllm", "h100"), ("trtllm", "gb10"), ("mlx", "m4-max"), ("mlx", "epyc-9654"),
     ("habana", "gaudi2"), ("vllm", "tpu-v6e"), ("llama.cpp", "mi300x"), ("generic", "groq-3-lpu")],
)  # fmt: skip
def test_an_engine_is_priced_where_it_runs_or_nobody_says_that_it_does_not(engine, system):
    hardware_db.require_runs_on(engine, hardware_db.load(system))


def test_a_system_of_ones_own_is_not_refused():
    own = replace(hardware_db.load("mi300x"), vendor="")
    hardware_db.require_runs_on("trtllm", own)


@pytest.mark.parametrize(
    ("system", "version", "formats", "says"),
    [
        ("b200", "0.16.0", (), r"0\.17 is the first release for NVIDIA Blackwell"),
        ("b200", "2024-09", (), r"0\.17 is the first release"),
        ("rtx-5090", "0.15", (), r"0\.17 is the first release"),
        ("gb300", "1.0.0", (), r"1\.1 is the first release for B300 and GB300"),
        ("rtx-pro-6000", "0.19.0", (), r"0\.20 is the first release for RTX PRO 6000"),
        ("gb10", "0.21.0", (), r"1\.0 is the first release"),
        ("h100", "0.16.0", ("nvfp4",), r"0\.17 is the first release for weights in NVFP4"),
        ("v100-sxm2-32gb", "0.15", (), r"0\.14 is the last release for NVIDIA Volta"),
        ("v100-sxm2-32gb", "", (), r"0\.14 is the last release"),
    ],
)
def test_a_release_is_refused_where_it_does_not_run_with_the_one_that_does(
    system, version, formats, says
):
    with pytest.raises(UnsupportedEngine, match=says) as refused:
        hardware_db.require_runs_on("trtllm", hardware_db.load(system), version, formats)
    assert "TensorRT-LLM" in str(refused.value) and "release notes" in str(refused.value)


@pytest.mark.parametrize(
    ("system", "version", "formats"),
    [("b200", "", ("nvfp4",)), ("b200", "0.17.0", ()), ("gb300", "1.1.0rc2", ()),
     ("v100-sxm2-32gb", "0.14.0", ()), ("v100-sxm2-32gb", "2024-09", ()),
     ("h100", "0.16.0", ("fp8",)), ("b300", "gpt-oss-dev", ())],
)  # fmt: skip
def test_a_release_is_priced_where_it_runs(system, version, formats):
    hardware_db.require_runs_on("trtllm", hardware_db.load(system), version, formats)


def test_what_an_engine_starts_with_and_its_bounds_name_their_source():
    for name in ENGINES:
        record = hardware_db.engine_facts(name)
        facts = [getattr(s, f) for s in record.on_start for f in type(s).model_fields]
        cited = {fact.source for fact in facts if isinstance(fact, Fact)}
        cited |= {entry.source for entry in (*record.on_start, *record.bounds)}
        assert cited <= set(record.sources)
        assert all(bool(start.until) == bool(start.until_month) for start in record.on_start)


def test_every_release_runs_where_it_was_measured():
    rows = [*table("measurements", "serving"), *table("measurements", "published")]
    names = ("engine", "system", "engine_version", "weights")
    for engine, slug, version, weights in {tuple(map(row.get, names)) for row in rows}:
        formats = (weights,) if weights else ()
        hardware_db.require_runs_on(engine, hardware_db.load(slug), version, formats)


def test_every_engine_runs_where_it_was_measured():
    for row in table("engines", "devices"):
        hardware_db.require_runs_on(row["engine"], hardware_db.load(row["system"]))

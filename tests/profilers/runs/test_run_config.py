"""The run configuration: presets combine, every field is typed, unknown keys are refused."""

import dataclasses
import pickle
import typing
from pathlib import Path

import pytest
import yaml

from genz_core.errors import InvalidValue, UnknownName
from profilers.runs import run_config
from profilers.runs.run_config import RunConfig, compose, dump, presets
from tests.rules import for_every

BASE = Path(run_config.__file__).parents[1] / "presets" / "base.yaml"


def test_every_field_of_the_base_is_a_field_of_the_configuration_in_the_same_order():
    base = yaml.safe_load(BASE.read_text(encoding="utf-8"))
    assert compose().to_dict() == base
    assert list(compose().to_dict()) == list(base)
    for section, fields in base.items():
        assert [f.name for f in dataclasses.fields(getattr(compose(), section))] == list(fields)


@for_every([f.name for f in dataclasses.fields(RunConfig)])
def test_every_value_is_of_the_type_that_its_field_states(section: str):
    values = getattr(compose(), section)
    for name, type_ in typing.get_type_hints(type(values)).items():
        assert isinstance(getattr(values, name), typing.get_origin(type_) or type_)


@pytest.mark.parametrize(
    "overrides",
    [
        ["model=qwen3-8b", "profile=quick", "run.batch=4"],
        ["run.batch=4", "profile=quick", "model=qwen3-8b"],
    ],
)
def test_presets_compose_and_fields_override_them_whatever_their_order(overrides: list[str]):
    config = compose(overrides)
    assert config.model.name == "Qwen/Qwen3-8B"
    assert (config.run.batch, config.run.repeats, config.run.isl) == (4, 5, 128)


def test_a_field_is_found_by_its_last_part_where_that_is_one_field():
    assert compose(["isl=256"]).run.isl == 256
    with pytest.raises(InvalidValue, match=r"is ambiguous.*nsys.enable"):
        compose(["enable=true"])


def test_a_text_is_what_was_typed_and_not_the_number_that_yaml_sees_in_it():
    """YAML 1.1 reads 1:8:2 in base 60, and 010 as 8."""
    assert compose(["sweep.batches=1:8:2"]).sweep.batches == "1:8:2"
    assert compose(["model.name=010"]).model.name == "010"


def test_a_whole_number_stands_for_a_fraction_and_stays_as_typed():
    config = compose(["timeout_s=5"])
    assert config.ranks.timeout_s == 5 and "timeout_s: 5\n" in dump(config)


def test_a_model_without_a_preset_is_its_name():
    assert compose(["model=hf:owner/name"]).model.name == "hf:owner/name"


@for_every(["nsys", "ncu"])
def test_profiles_of_nsight_switch_the_torch_profiler_and_the_static_analysis_off(profile: str):
    config = compose([f"profile={profile}"])
    assert getattr(config, profile).enable is True
    assert not config.torch_profiler.enable and not config.static_analysis.enable


@pytest.mark.parametrize(
    "preset", [f"{group}={name}" for group in run_config.GROUPS for name in presets(group)]
)
def test_every_preset_changes_the_base(preset: str):
    assert compose([preset]) != compose()


def test_the_presets_that_are_promised_are_there():
    assert {"quick", "full", "nsys", "ncu"} <= set(presets("profile"))
    assert {"qwen2.5-0.5b", "qwen3-8b", "llama-3.1-8b"} <= set(presets("model"))


def test_the_resolved_file_composes_to_itself(tmp_path: Path):
    overrides = ["model=qwen2.5-0.5b", "profile=full", "dtype=float32", "nsys.trace=cuda,nvtx"]
    config = compose(overrides)
    assert config.nsys.trace == ("cuda", "nvtx")
    (tmp_path / "run.yaml").write_text(dump(config))
    assert compose([], tmp_path / "run.yaml") == config


def test_a_configuration_reaches_another_process_whole():
    config = compose(["model=qwen3-8b", "nsys.trace=cuda"])
    assert pickle.loads(pickle.dumps(config)) == config


def test_fields_are_replaced_section_by_section_and_the_rest_stays():
    config = compose(["isl=64"])
    changed = config.with_fields(run={"batch": 8}, nsys={"trace": ["cuda"]})
    assert (changed.run.batch, changed.run.isl, changed.nsys.trace) == (8, 64, ("cuda",))
    assert (changed.model, changed.ncu) == (config.model, config.ncu)
    assert config.run.batch == 1, "the configuration itself does not change"


def test_presets_and_fields_lie_over_a_run_file(tmp_path: Path):
    (tmp_path / "run.yaml").write_text("run: {batch: 8, isl: 64}\n")
    assert compose([], tmp_path / "run.yaml").run.osl == 16
    assert compose(["batch=2"], tmp_path / "run.yaml").run.batch == 2
    assert compose(["profile=quick"], tmp_path / "run.yaml").run.isl == 128


def test_the_inputs_of_a_run_kept_before_a_section_was_added_still_compose(tmp_path: Path):
    old = yaml.safe_load(BASE.read_text(encoding="utf-8"))
    for section in ("sweep", "ranks"):
        del old[section]
    old["run"].pop("threads")
    (tmp_path / "inputs.yaml").write_text(yaml.safe_dump(old))
    assert compose([], tmp_path / "inputs.yaml") == compose()


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("batsh=4", "no field 'batsh'; near: run.batch"),
        ("batch=many", "batch = 'many': give a whole number"),
        ("batch=1.5", "batch = 1.5: give a whole number"),
        ("compile=4", "compile = 4: give true or false"),
        ("batch", "'batch' is not an override; write field=value"),
        ("=4", "'=4' is not an override; write field=value"),
        ("batch=[", "batch='[' is not a value that YAML can read"),
        ("run=4", "no field 'run'"),
        ("model.name.x=4", "no field 'model.name.x'"),
    ],
)
def test_an_invalid_override_is_refused_with_close_matches(override: str, sentence: str):
    with pytest.raises(InvalidValue) as refused:
        compose([override])
    assert str(refused.value).startswith(sentence)


def test_an_unknown_profile_names_those_there_are():
    with pytest.raises(UnknownName, match="quick"):
        compose(["profile=quik"])
    with pytest.raises(UnknownName):
        compose(["profile=../../base"])


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("- 1", "run.yaml holds no mapping of fields"),
        ("run: 4", "run.yaml: run = 4: give a mapping"),
        ("runs: {}", "run.yaml: no field 'runs'; near: run"),
        ("run: {batsh: 1}", "run.yaml: no field 'run.batsh'; near: batch"),
        ("a: [", "run.yaml is not YAML"),
        ("run: {batch: x}", "run.yaml: run.batch = 'x': give a whole number"),
        ("\x00", "run.yaml is not YAML"),
        ("[" * 700, "run.yaml is not YAML"),
        ("x" * (1 << 20 | 1), "run.yaml is larger than a run file"),
    ],
    ids=lambda text: text[:16],
)
def test_a_run_file_that_does_not_read_is_refused_in_a_sentence(
    tmp_path: Path, content: str, sentence: str
):
    (tmp_path / "run.yaml").write_text(content)
    with pytest.raises(InvalidValue) as refused:
        compose([], tmp_path / "run.yaml")
    assert str(refused.value).startswith(sentence) and "\n" not in str(refused.value)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path):
    with pytest.raises(InvalidValue, match=r"none\.yaml: no such file"):
        compose([], tmp_path / "none.yaml")


def test_groups_are_laid_over_each_other_and_fields_over_them():
    config = compose(
        ["output=figures", "hardware=h100", "runtime=one-thread", "dataset=long", "threads=2",
         "model=qwen3-8b"]
    )  # fmt: skip
    assert (config.run.device, config.run.threads) == ("cpu", 2)
    assert config.predict.system == "h100" and config.prompts.lengths.startswith("uniform")
    assert not config.torch_profiler.enable and not config.static_analysis.enable
    assert compose(["hardware=cpu"]).run.device == "cpu"
    with pytest.raises(UnknownName, match="chat"):
        compose(["dataset=nothing-known"])


def test_activities_of_the_profiler_are_those_that_it_has():
    assert compose(["activities=cpu,cuda"]).torch_profiler.activities == ("cpu", "cuda")
    with pytest.raises(InvalidValue, match="choose cpu, cuda, xpu"):
        compose(["activities=gpu"])


def test_files_beside_a_run_file_are_found_from_anywhere(tmp_path):
    for name in ("model.json", "prompts.jsonl"):
        (tmp_path / name).write_text("{}")
    file = tmp_path / "inputs.yaml"
    file.write_text("model: {path: model.json}\nprompts: {files: [prompts.jsonl, other.jsonl]}\n")
    config = compose(file=file)
    assert config.model.path == str(tmp_path / "model.json")
    assert config.prompts.files == (str(tmp_path / "prompts.jsonl"), "other.jsonl")

"""The run file: presets compose, any field can be changed, and what is not there is refused."""

from pathlib import Path

import pytest

from genz_core.errors import InvalidValue, UnknownName
from profilers.run_config import compose, dump, presets


def test_presets_compose_and_fields_override_them_whatever_their_order():
    for overrides in (
        ["model=qwen3-8b", "profile=quick", "run.batch=4"],
        ["run.batch=4", "profile=quick", "model=qwen3-8b"],
    ):
        tree = compose(overrides)
        assert tree["model"]["name"] == "Qwen/Qwen3-8B"
        assert (tree["run"]["batch"], tree["run"]["repeats"], tree["run"]["isl"]) == (4, 2, 128)


def test_a_field_is_found_by_its_last_part_where_that_is_one_field():
    assert compose(["isl=256"])["run"]["isl"] == 256
    with pytest.raises(InvalidValue, match=r"several places.*nsys.enable"):
        compose(["enable=true"])


def test_a_text_is_what_was_typed_and_not_the_number_that_yaml_sees_in_it():
    """YAML 1.1 reads 1:8:2 in base 60, and 010 as 8."""
    assert compose(["sweep.batches=1:8:2"])["sweep"]["batches"] == "1:8:2"
    assert compose(["model.name=010"])["model"]["name"] == "010"


def test_a_model_without_a_preset_is_its_name():
    assert compose(["model=hf:owner/name"])["model"]["name"] == "hf:owner/name"


@pytest.mark.parametrize("profile", ["nsys", "ncu"])
def test_profiles_of_nsight_switch_the_torch_profiler_and_the_static_analysis_off(profile: str):
    tree = compose([f"profile={profile}"])
    assert tree[profile]["enable"] is True
    assert not tree["torch_profiler"]["enable"] and not tree["static_analysis"]["enable"]


@pytest.mark.parametrize("group", ["model", "profile"])
def test_every_preset_composes(group: str):
    assert presets(group)
    for name in presets(group):
        compose([f"{group}={name}"])


def test_the_four_profiles_that_are_promised_are_there():
    assert {"quick", "full", "nsys", "ncu"} <= set(presets("profile"))


def test_the_resolved_file_composes_to_itself(tmp_path: Path):
    tree = compose(["model=qwen2.5-0.5b", "profile=full", "dtype=float32", "nsys.trace=cuda,nvtx"])
    (tmp_path / "run.yaml").write_text(dump(tree))
    assert compose([], tmp_path / "run.yaml") == tree


def test_presets_and_fields_lie_over_a_run_file(tmp_path: Path):
    (tmp_path / "run.yaml").write_text("run: {batch: 8, isl: 64}\n")
    assert compose([], tmp_path / "run.yaml")["run"]["osl"] == 16
    assert compose(["batch=2"], tmp_path / "run.yaml")["run"]["batch"] == 2
    assert compose(["profile=quick"], tmp_path / "run.yaml")["run"]["isl"] == 128


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("batsh=4", "near: run.batch"),
        ("batch=many", "whole number"),
        ("batch=1.5", "whole number"),
        ("compile=4", "true or false"),
        ("batch", "field=value"),
        ("=4", "field=value"),
        ("batch=[", "YAML"),
        ("run=4", "no field"),
        ("model.name.x=4", "no field"),
    ],
)
def test_what_cannot_be_is_said_with_what_is_near(override: str, said: str):
    with pytest.raises(InvalidValue, match=said):
        compose([override])


def test_an_unknown_profile_names_those_there_are():
    with pytest.raises(UnknownName, match="quick"):
        compose(["profile=quik"])
    with pytest.raises(UnknownName):
        compose(["profile=../../base"])


@pytest.mark.parametrize(
    "content",
    ["- 1", "run: 4", "runs: {}", "run: {batsh: 1}", "a: [", "run: {batch: x}", "\x00", "[" * 5000],
)
def test_a_run_file_that_does_not_read_is_refused_in_a_sentence(tmp_path: Path, content: str):
    (tmp_path / "run.yaml").write_text(content)
    with pytest.raises(InvalidValue) as refused:
        compose([], tmp_path / "run.yaml")
    assert "\n" not in str(refused.value)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path):
    with pytest.raises(InvalidValue, match="cannot be read"):
        compose([], tmp_path / "none.yaml")

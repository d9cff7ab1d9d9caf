"""A config by name, path, folder or address, or as a mapping."""

import json
from pathlib import Path

import pytest

import model_registry
from genz_core.errors import InvalidValue, UnknownModel
from tests.model_registry.tracing_cases import tiny

LLAMA = tiny("llama")


def test_a_file_its_folder_and_its_mapping_are_the_same_model(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA))
    sources = [path, tmp_path, LLAMA]
    assert len({model_registry.load(source).parameters for source in sources}) == 1


def test_the_quantisation_map_beside_a_config_is_found(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    quant = {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(quant))
    precision = model_registry.load(tmp_path).precision
    assert (precision.weight("mlp.up"), precision.kv) == ("fp8", "fp8")


@pytest.mark.parametrize("text", ["{", '{"model_type": "llama"', "[]", "null", "\x00\x01", ""])
def test_a_file_that_is_no_config_is_refused_in_one_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(InvalidValue, match=r"JSON|lacks|holds"):
        model_registry.load(path)


def test_a_path_to_nothing_says_so() -> None:
    with pytest.raises(UnknownModel, match=r"config\.json"):
        model_registry.load(Path("/nowhere/config.json"))


def test_a_text_is_a_name_though_a_file_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    monkeypatch.chdir(tmp_path)
    for name in ("config.json", "./config.json", ".", str(tmp_path), json.dumps(LLAMA)):
        with pytest.raises(UnknownModel):
            model_registry.load(name)


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(" " * (9 * 2**20))
    with pytest.raises(InvalidValue, match="larger"):
        model_registry.load(path)

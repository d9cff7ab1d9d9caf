"""GGUF files: a header written by the format's own library gives the model that it describes."""

import io
import random
import struct
from math import prod
from pathlib import Path

import pytest

import model_registry
from genz_core.errors import InvalidValue, RidgelineError, UnsupportedModel
from genz_core.precision import FORMATS
from genz_core.types import Parallelism, Step
from model_registry.finding.gguf import read_header
from model_registry.finding.gguf_config import gguf_config
from model_registry.reports.symbolic import graph_total
from tests.draws import cases, seed

FOLDER = Path(__file__).parents[2] / "fixtures" / "gguf"
FILES = sorted(FOLDER.glob("*.gguf"))


def header_of(path: Path):
    with path.open("rb") as stream:
        return read_header(stream)


def with_entry(data: bytes, old: bytes, new: bytes) -> io.BytesIO:
    assert data.count(old) >= 1
    return io.BytesIO(data.replace(old, new))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_model_has_the_parameters_of_the_files_tensors(path: Path) -> None:
    counted = sum(prod(shape) for shape, _ in header_of(path).tensors.values())
    assert model_registry.load(path).parameters == counted


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_its_weights_take_the_bytes_of_the_files_tensors(path: Path) -> None:
    """q, k and v are one product here, in the widest of their formats; norms count 16 bits."""
    header = header_of(path)
    stored = sum(prod(shape) * FORMATS[form].bytes for shape, form in header.tensors.values())
    graph = model_registry.load(path).graph(Step.decode(1.0, 8.0), Parallelism())
    assert graph_total(graph, "held_weight_bytes") == pytest.approx(stored, rel=0.03)


def test_formats_are_those_of_each_tensor_layer_by_layer() -> None:
    precision = model_registry.load(FOLDER / "tiny-llama.gguf").precision
    assert precision.weight("mlp.down", 0) == "ggml_q4_k"
    assert precision.weight("mlp.down", 2) == "q6_k"
    assert precision.weight("attention.v", 0) == precision.weight("lm_head") == "q6_k"
    assert precision.kv == "fp16"


def test_experts_and_norms_of_a_mixture_are_read() -> None:
    config = gguf_config((FOLDER / "tiny-qwen3moe.gguf").open("rb"))
    assert config["model_type"] == "qwen3_moe"
    assert (config["num_experts"], config["num_experts_per_tok"]) == (4, 2)
    assert model_registry.load(config).precision.weight("experts.down") == "q6_k"


def test_a_file_is_known_by_its_first_bytes_not_by_its_name(tmp_path: Path) -> None:
    copy = tmp_path / "model.bin"
    copy.write_bytes((FOLDER / "tiny-llama.gguf").read_bytes())
    assert model_registry.load(copy).parameters > 0


def test_a_header_without_the_tensors_data_is_enough() -> None:
    data = (FOLDER / "tiny-llama.gguf").read_bytes() + bytes(10**6)
    assert gguf_config(io.BytesIO(data))["num_hidden_layers"] == 3


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_cut_copy_is_a_sentence(path: Path) -> None:
    data, end = path.read_bytes(), 0
    with path.open("rb") as stream:
        read_header(stream)
        end = stream.tell()
    for size in range(0, end, 7):
        with pytest.raises(RidgelineError, match="GGUF"):
            gguf_config(io.BytesIO(data[:size]))


@pytest.mark.draws
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_damaged_copy_is_a_model_or_a_sentence(path: Path) -> None:
    data, chance = path.read_bytes(), random.Random(seed(7))
    for _ in range(cases(150)):
        damaged = bytearray(data)
        for _ in range(chance.randint(1, 6)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        try:
            model = model_registry.load(gguf_config(io.BytesIO(bytes(damaged))))
            assert model.parameters > 0
        except RidgelineError as refusal:
            assert "\n" not in str(refusal)


def test_a_file_that_claims_a_billion_tensors_is_refused_unread() -> None:
    data = b"GGUF" + struct.pack("<IQQ", 3, 10**9, 5)
    with pytest.raises(InvalidValue, match="claims 1000000000 tensors"):
        gguf_config(io.BytesIO(data))


def test_another_version_and_another_file_are_sentences() -> None:
    with pytest.raises(InvalidValue, match="version 9"):
        gguf_config(io.BytesIO(b"GGUF" + struct.pack("<IQQ", 9, 0, 0)))
    with pytest.raises(InvalidValue, match="not a GGUF file"):
        gguf_config(io.BytesIO(b"PK\x03\x04 and more of a zip file"))


def test_an_architecture_that_is_not_read_says_which_are() -> None:
    data = (FOLDER / "tiny-llama.gguf").read_bytes()
    with pytest.raises(UnsupportedModel, match=r"'lla9a' are not read \(llama, .*config.json"):
        gguf_config(with_entry(data, b"llama", b"lla9a"))

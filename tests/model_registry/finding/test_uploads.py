"""Every real config.json, given as an upload, loads and gives a graph; none is refused."""

import json
import tarfile
from functools import cache
from pathlib import Path

import pytest

import model_registry
from genz_core.types import Parallelism, Step
from model_registry.finding.lookup import resolve_name
from model_registry.quantization.resolve import resolve_precision
from tests.model_registry.shared_models import built, checkpoint_precision
from tests.rules import for_every

ARCHIVE = Path(__file__).parents[2] / "fixtures" / "model_configs" / "configs.tar.xz"


@cache
def uploads() -> dict[str, dict[str, bytes]]:
    """Files of each model by its name on the hub."""
    found: dict[str, dict[str, bytes]] = {}
    with tarfile.open(ARCHIVE) as archive:
        for member in archive.getmembers():
            quant = member.name.endswith("_hf_quant_config.json")
            file = "hf_quant_config.json" if quant else "config.json"
            model = member.name.removesuffix(f"_{file}")
            stream = archive.extractfile(member)
            assert stream is not None
            found.setdefault(model, {})[file] = stream.read()
    return found


@pytest.fixture
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A checkpoint's folder with only its configurations."""
    for name, content in uploads()[request.param].items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


def test_the_archive_holds_89_configurations_and_28_quantisation_maps() -> None:
    assert len(uploads()) == 89
    assert sum(len(files) == 2 for files in uploads().values()) == 28


@pytest.mark.by_day(20)
@pytest.mark.parametrize("folder", sorted(uploads()), indirect=True)
def test_a_real_config_loads_and_counts_as_the_compact_file_that_ships(
    folder: Path, request: pytest.FixtureRequest
) -> None:
    model = model_registry.load(folder / "config.json")
    for step in (Step.prefill(1, 1024), Step.decode(8, 1024)):
        graph = model.graph(step, Parallelism())
        assert sum(float(op.flops) * op.count for op in graph.ops) > 0
        assert sum(float(op.held_weight_bytes) * op.count for op in graph.ops) > 0
    shipped = built(request.node.callspec.params["folder"].replace("--", "/", 1))
    assert model.parameters == shipped.parameters
    assert model.active_parameters == shipped.active_parameters


@pytest.mark.slow
@for_every(sorted(uploads()))
def test_the_compact_quantisation_map_is_the_published_one(name: str) -> None:
    files = {file: json.loads(content) for file, content in uploads()[name].items()}
    published = resolve_precision(files["config.json"], files.get("hf_quant_config.json"))
    shipped = checkpoint_precision(resolve_name(name.replace("--", "/", 1)).id)
    assert dict(published.weights) == dict(shipped.weights)
    assert dict(published.by_layer) == dict(shipped.by_layer)
    assert (published.kv, published.activations) == (shipped.kv, shipped.activations)

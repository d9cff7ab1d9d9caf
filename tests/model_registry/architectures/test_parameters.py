"""Parameter counts equal those that others have published or counted."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from model_registry.finding.catalog import shipped_models
from tests.model_registry.shared_models import built
from tests.rules import for_every

GOLDEN = Path(__file__).parents[2] / "golden" / "meta_parameters.json"
COUNTED: dict[str, int] = json.loads(GOLDEN.read_text())["parameters"]
PUBLISHED = {
    record.id: record.published for record in shipped_models().values() if record.published
}
#: Families with an exactly published count.
FAMILIES = {
    "bloom", "cohere", "deepseek", "deepseek_v2", "deepseek_v3", "falcon", "gemma", "gemma2",
    "gemma3", "glm", "glm4_moe", "gpt2", "gpt_neox", "gpt_oss", "gptj", "internlm2", "jamba",
    "kimi_k2", "llama", "mamba", "mamba2", "minimax_m2", "mistral", "mixtral", "nemotron_h",
    "olmo2", "olmoe", "opt", "phi", "phi3", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe",
    "qwen3_next", "smollm3", "zamba2",
}  # fmt: skip


@for_every(PUBLISHED)
def test_the_count_is_within_half_a_percent_of_the_published_one(name: str) -> None:
    assert built(name).parameters == pytest.approx(PUBLISHED[name]["total"], rel=0.005)


@for_every([name for name, facts in PUBLISHED.items() if "active" in facts])
def test_the_active_count_is_within_half_a_percent_of_the_published_one(name: str) -> None:
    assert built(name).active_parameters == pytest.approx(PUBLISHED[name]["active"], rel=0.005)


@pytest.mark.parametrize(
    "name", [name for name, facts in PUBLISHED.items() if "active_without_embedding" in facts]
)
def test_the_active_count_less_the_embedding_is_the_published_one(name: str) -> None:
    spec = built(name).spec
    active = built(name).active_parameters - spec.vocabulary * spec.hidden
    published = PUBLISHED[name]["active_without_embedding"]
    assert active == pytest.approx(published, rel=0.005)


@pytest.mark.slow
@for_every(COUNTED)
def test_the_count_is_that_of_transformers_own_model(name: str) -> None:
    assert built(name).parameters == COUNTED[name]


def test_at_least_40_published_counts_are_cited_over_the_families() -> None:
    assert len(PUBLISHED) >= 40
    for figure in ("active", "active_without_embedding"):
        assert any(figure in facts for facts in PUBLISHED.values())
    assert all(len(published["citation"]) > 20 for published in PUBLISHED.values())
    assert {shipped_models()[name].model_type for name in PUBLISHED} >= FAMILIES


def test_a_model_that_nobody_counted_is_marked_unconfirmed() -> None:
    unconfirmed = {record.id for record in shipped_models().values() if not record.confirmed}
    assert unconfirmed == set(shipped_models()) - set(COUNTED) - set(PUBLISHED)


@for_every(shipped_models(), by_day=100)
def test_active_parameters_are_some_of_all(name: str) -> None:
    model = built(name)
    assert 0 < model.active_parameters <= model.parameters


@pytest.mark.slow
@pytest.mark.parametrize("name", ["openai-community/gpt2", "mixtral-8x7b", "Qwen3-0.6B"])
def test_the_committed_counts_are_what_transformers_says_today(name: str, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    script = Path(__file__).parents[1] / "count_on_meta.py"
    out = tmp_path / "counts.json"
    subprocess.run([sys.executable, script, "--only", name, "--output", out], check=True)
    recounted = json.loads(out.read_text())["parameters"]
    assert recounted and all(COUNTED[key] == value for key, value in recounted.items())

"""Typed names: of the hub's pages, of Ollama's library, and of models that do not ship."""

import pytest

import model_registry
from app.scenario.local_files import model_source
from genz_core.errors import UnknownModel
from model_registry.finding.catalog import shipped_models
from model_registry.finding.hub import HubModel
from model_registry.finding.libraries import _MODELS
from model_registry.finding.lookup import resolve_name
from tests.rules import for_every

#: Tags of Ollama's library with the format of their weights.
LIBRARY = {
    "llama3.1:8b": ("meta-llama/Llama-3.1-8B", ""),
    "llama3.1:70b-instruct-q4_K_M": ("meta-llama/Llama-3.1-70B", "q4_k_m"),
    "llama3.3": ("meta-llama/Llama-3.3-70B-Instruct", ""),
    "qwen3:30b": ("Qwen/Qwen3-30B-A3B", ""),
    "qwen3:30b-a3b-q8_0": ("Qwen/Qwen3-30B-A3B", "q8_0"),
    "gpt-oss:20b": ("openai/gpt-oss-20b", ""),
    "deepseek-r1:671b": ("deepseek-ai/DeepSeek-R1", ""),
    "phi4:latest": ("microsoft/phi-4", ""),
    "phi4:14b-q4_K_M": ("microsoft/phi-4", "q4_k_m"),
    "qwen2.5-coder:32b-instruct-q4_K_M": ("Qwen/Qwen2.5-Coder-32B", "q4_k_m"),
    "granite4:tiny-h": ("ibm-granite/granite-4.0-h-tiny", ""),
    "mistral": ("mistralai/Mistral-7B-v0.3", ""),
}


@pytest.mark.parametrize("name", LIBRARY)
def test_a_name_of_ollamas_library_is_the_model_that_it_holds(name: str) -> None:
    match = resolve_name(name)
    assert (match.id, match.weights) == LIBRARY[name]


@for_every(_MODELS)
def test_every_library_name_leads_to_a_shipped_model(name: str) -> None:
    assert resolve_name(name).id in shipped_models()


@pytest.mark.parametrize("name", ["mistral:12b", "phi4:70b", "qwen3:31b", "llama4:latest"])
def test_a_size_that_the_library_does_not_have_is_unknown(name: str) -> None:
    with pytest.raises(UnknownModel, match="hf:OWNER/NAME"):
        resolve_name(name)


@pytest.mark.parametrize(
    "page",
    [
        "https://huggingface.co/Qwen/Qwen3-8B",
        "huggingface.co/Qwen/Qwen3-8B/",
        "https://huggingface.co/Qwen/Qwen3-8B/blob/main/config.json",
        "https://hf.co/Qwen/Qwen3-8B?library=transformers#usage",
    ],
)
def test_the_page_of_a_shipped_model_is_its_name_and_asks_nobody(page: str) -> None:
    assert model_source(page) == "Qwen/Qwen3-8B"
    assert model_registry.load(page).name == "Qwen/Qwen3-8B"


def test_other_pages_and_hf_ask_the_hub() -> None:
    assert model_source("https://huggingface.co/someone/tiny") == HubModel("someone/tiny")
    assert model_source("hf:Qwen/Qwen3-8B") == HubModel("Qwen/Qwen3-8B")


def test_a_name_that_does_not_ship_says_how_to_get_it() -> None:
    with pytest.raises(UnknownModel, match=r"`hf:someone/new-9B` to ask .*config.json .*--trace"):
        resolve_name("someone/new-9B")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("BlinkDL/rwkv7-g1", "checkpoints of several sizes"),
        ("Qwen/Qwen3.7-27B", "no checkpoint of Qwen3.7"),
        ("tencent/HY-2.0", "no checkpoint of HY 2.0"),
        ("zai-org/GLM-6", "no config.json of GLM-6"),
    ],
)
def test_a_name_that_people_ask_for_says_why_it_does_not_ship(name: str, why: str) -> None:
    with pytest.raises(UnknownModel, match=f"is not shipped: .*{why}.*`hf:{name}`"):
        resolve_name(name)


#: Spellings of models whose architecture differs from what the name suggests.
MEANT = {
    "meta-llama/Llama-3.2-11B-Vision": "meta-llama/Llama-3.2-11B-Vision-Instruct",
    "answerdotai/ModernBERT-large": "answerdotai/ModernBERT-large",
    "google/t5gemma-9b-9b": "google/t5gemma-9b-9b-prefixlm",
    "RWKV/RWKV7-Goose-World3-2.9B-HF": "fla-hub/rwkv7-2.9B-world",
    "Qwen/Qwen3.8-Max": "Qwen/Qwen3.8-2.4T-A95B",
    "Qwen/Qwen3.8-27B": "Qwen/Qwen3.6-27B",
    "inclusionAI/LLaDA2.0-flash": "inclusionAI/LLaDA2.0-flash",
    "moondream/moondream3-preview": "moondream/moondream3-preview",
    "nvidia/Llama-3_1-Nemotron-Ultra-253B-v1": "nvidia/Llama-3_1-Nemotron-Ultra-253B-v1",
}


@pytest.mark.parametrize("name", MEANT)
def test_a_name_of_a_model_of_its_own_shape_is_no_other(name: str) -> None:
    assert resolve_name(name).id == MEANT[name]


def test_moondream_3_has_the_parameters_of_its_model_card_less_its_image_encoder() -> None:
    """9B in all and 2B active, 0.46B of which are SigLIP's 27 layers and a projection."""
    model = model_registry.load("moondream/moondream3-preview")
    assert model.parameters + 0.46e9 == pytest.approx(9.27e9, rel=5e-3)
    assert 1.7e9 < model.active_parameters < 2e9

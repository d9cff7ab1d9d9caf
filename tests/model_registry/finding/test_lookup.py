"""Names resolve if size and series are equal, and never otherwise."""

import pytest

from genz_core.errors import UnknownModel, UnknownPrecision
from model_registry.finding.catalog import shipped_models
from model_registry.finding.lookup import resolve_name, spellings
from tests.rules import for_every

ALIASES = [(alias, model.id) for model in shipped_models().values() for alias in model.aliases]
SAME_ARCHITECTURE = {
    "meta-llama/Llama-3.1-8B": "meta-llama/Llama-3.1-8B",
    "META-LLAMA/llama-3.1-8b": "meta-llama/Llama-3.1-8B",
    "meta-llama/Meta-Llama-3.1-8B": "meta-llama/Llama-3.1-8B",
    "meta-llama/Meta-Llama-3.1-8B-Instruct": "meta-llama/Llama-3.1-8B",
    "meta-llama/Llama-3.1-8B-Instruct": "meta-llama/Llama-3.1-8B",
    "Llama-3.1-8B": "meta-llama/Llama-3.1-8B",
    "llama3.1:8b": "meta-llama/Llama-3.1-8B",
    "NousResearch/Hermes-3-Llama-3.1-8B": "meta-llama/Llama-3.1-8B",
    "unsloth/Llama-3.2-3B-Instruct": "meta-llama/Llama-3.2-3B",
    "meta-llama/Llama-2-7b-chat-hf": "meta-llama/Llama-2-7b-hf",
    "lmsys/vicuna-7b-v1.5": "meta-llama/Llama-2-7b-hf",
    "h2oai/h2ogpt-4096-llama2-70b-chat": "meta-llama/Llama-2-70b-hf",
    "deepseek-ai/DeepSeek-R1-Distill-Llama-70B": "meta-llama/Llama-3.3-70B-Instruct",
    "DeepSeek-R1-Distill-Qwen-32B": "Qwen/Qwen2.5-32B",
    "deepseek-ai/DeepSeek-V3-0324": "deepseek-ai/DeepSeek-V3",
    "Qwen/Qwen3-235B-A22B-Instruct-2507": "Qwen/Qwen3-235B-A22B",
    "Qwen/Qwen3-30B-A3B-Thinking-2507": "Qwen/Qwen3-30B-A3B",
    "moonshotai/Kimi-K2-Instruct-0905": "moonshotai/Kimi-K2-Instruct",
    "mistralai/Mistral-7B-Instruct-v0.1": "mistralai/Mistral-7B-v0.1",
    "mistralai/Mixtral-8x7B-Instruct-v0.1": "mistralai/Mixtral-8x7B-v0.1",
    "NousResearch/Nous-Hermes-2-Mixtral-8x7B-DPO": "mistralai/Mixtral-8x7B-v0.1",
    "teknium/OpenHermes-2.5-Mistral-7B": "mistralai/Mistral-7B-v0.1",
    "mistralai/Mistral-Nemo-Instruct-2407": "mistralai/Mistral-Nemo-Base-2407",
    "google/gemma-3-4b-it": "google/gemma-3-4b-pt",
    "gpt2-xl": "openai-community/gpt2-xl",
    "bigscience/bloom-176b": "bigscience/bloom",
    "CohereForAI/c4ai-command-r-plus": "CohereLabs/c4ai-command-r-plus",
    "state-spaces/mamba-2.8b": "state-spaces/mamba-2.8b-hf",
    "tiiuae/falcon-180b-chat": "tiiuae/falcon-180B",
}

#: name: (architecture, weights, kv, activations)
QUANTISED = {
    "TheBloke/Llama-2-7B-AWQ": ("meta-llama/Llama-2-7b-hf", "int4", "", ""),
    "Qwen/Qwen2.5-7B-Instruct-GPTQ-Int8": ("Qwen/Qwen2.5-7B", "int8", "", ""),
    "Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4": ("Qwen/Qwen2.5-7B", "int4", "", ""),
    "RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16": (
        "meta-llama/Llama-3.1-8B",
        "int4",
        "",
        "",
    ),
    "neuralmagic/Mistral-7B-Instruct-v0.3-quantized.w8a8": (
        "mistralai/Mistral-7B-v0.3",
        "int8",
        "",
        "int8",
    ),
    "neuralmagic/Meta-Llama-3.1-70B-Instruct-FP8": ("meta-llama/Llama-3.1-70B", "fp8", "", ""),
    "amd/Llama-3.1-405B-Instruct-FP8-KV": ("meta-llama/Llama-3.1-405B", "fp8", "fp8", ""),
    "nvidia/Llama-3.1-8B-Instruct-FP8": ("meta-llama/Llama-3.1-8B", "fp8", "fp8", ""),
    "nvidia/Qwen3-32B-NVFP4": ("Qwen/Qwen3-32B", "nvfp4", "fp8", ""),
    "Qwen/Qwen3-8B-FP8": ("Qwen/Qwen3-8B", "fp8_block", "", ""),
    "bartowski/Llama-3.2-3B-Instruct-GGUF:Q4_K_M": ("meta-llama/Llama-3.2-3B", "q4_k_m", "", ""),
    "Meta-Llama-3-8B-Instruct-Q8_0.gguf": ("meta-llama/Meta-Llama-3-8B", "q8_0", "", ""),
    "google/gemma-3-27b-it-qat-q4_0-gguf": ("google/gemma-3-27b-pt", "q4_0", "", ""),
    "mlx-community/Qwen3-8B-4bit": ("Qwen/Qwen3-8B", "int4", "", ""),
    "openai/gpt-oss-120b-BF16": ("openai/gpt-oss-120b", "bf16", "", ""),
}

ANOTHER_ARCHITECTURE = [
    "Llama-3.1-9B",
    "Llama-3.4-8B",
    "Llama-3.1-8B-4x",
    "Qwen3-9B",
    "Qwen/Qwen2.5-Omni-7B",
    "Qwen/Qwen3-Embedding-2B",
    "mistralai/Mistral-7B-v0.4",
    "mistralai/Mistral-Small-2501",
    "llava-hf/llava-v1.6-mistral-7b-hf",
    "Skywork/Skywork-Reward-Llama-3.1-8B",
    "meta-llama/Llama-3.2-12B-Vision-Instruct",
    "nvidia/Llama-3.1-Minitron-4B-Width-Base",
    "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B",
    "llama",
    "7b",
    "",
]

#: Every model of the published measurements that predictions are compared with.
MEASURED = [
    "EleutherAI/gpt-j-6b",
    "MiniMaxAI/MiniMax-M2.5",
    "NousResearch/Llama-2-13b-hf",
    "Qwen/Qwen2-0.5B-Instruct",
    "Qwen/Qwen2-1.5B",
    "Qwen/Qwen2-72B-Instruct",
    "Qwen/Qwen2-7B",
    "Qwen/Qwen2.5-0.5B-Instruct",
    "Qwen/Qwen2.5-14B-Instruct",
    "Qwen/Qwen2.5-72B-Instruct",
    "Qwen/Qwen2.5-Coder-7B",
    "Qwen/Qwen3-0.6B",
    "Qwen/Qwen3-1.7B",
    "Qwen/Qwen3-14B",
    "Qwen/Qwen3-235B-A22B",
    "Qwen/Qwen3-32B",
    "Qwen/Qwen3-4B",
    "Qwen/Qwen3-8B",
    "Qwen/Qwen3.5-397B-A17B",
    "TinyLlama/TinyLlama-1.1B-Chat-v1.0",
    "amd/Llama-3.1-405B-Instruct-FP8-KV",
    "custom:GPT-175B",
    "custom:GPT-20B",
    "custom:GPT-6.7B",
    "deepseek-ai/DeepSeek-R1",
    "deepseek-ai/DeepSeek-V3",
    "google/gemma-3-4b-it",
    "huggyllama/llama-7b",
    "meta-llama/Llama-2-70b-hf",
    "meta-llama/Llama-2-7b-chat-hf",
    "meta-llama/Llama-2-7b-hf",
    "meta-llama/Llama-3.1-70B",
    "meta-llama/Llama-3.1-8B-Instruct",
    "meta-llama/Meta-Llama-3-70B",
    "meta-llama/Meta-Llama-3-8B",
    "microsoft/phi-2",
    "mistralai/Mistral-7B-v0.1",
    "mistralai/Mixtral-8x7B-v0.1",
    "moonshotai/Kimi-K2.5",
    "nvidia/DeepSeek-R1-NVFP4",
    "nvidia/DeepSeek-V3.1-NVFP4",
    "nvidia/Llama-3.1-8B-Instruct-FP8",
    "nvidia/Qwen3-32B-NVFP4",
    "openai/gpt-oss-120b",
    "tiiuae/falcon-180B",
]


@for_every(SAME_ARCHITECTURE.items())
def test_a_name_of_the_same_size_and_series_resolves(name: str, architecture: str) -> None:
    assert resolve_name(name).id == architecture


@pytest.mark.parametrize(("name", "expected"), QUANTISED.items())
def test_a_quantised_republication_keeps_its_quantisation(
    name: str, expected: tuple[str, str, str, str]
) -> None:
    entry = resolve_name(name)
    assert (entry.id, entry.weights, entry.kv, entry.activations) == expected


@for_every(ANOTHER_ARCHITECTURE)
def test_a_name_of_another_size_or_series_is_refused(name: str) -> None:
    with pytest.raises(UnknownModel):
        resolve_name(name)


@for_every(MEASURED)
def test_every_measured_model_resolves(name: str) -> None:
    assert resolve_name(name).id in shipped_models()


def test_a_refusal_names_the_near_ones() -> None:
    with pytest.raises(UnknownModel, match=r"near: .*meta-llama/Llama-3\.1-8B"):
        resolve_name("Llama-3.1-9B")


def test_a_quantisation_nobody_described_is_refused() -> None:
    with pytest.raises(UnknownPrecision, match="exl2"):
        resolve_name("turboderp/Llama-3.1-8B-exl2")


def test_the_answer_says_which_architecture_was_used() -> None:
    assert resolve_name("TheBloke/Llama-2-7B-AWQ").note == (
        "TheBloke/Llama-2-7B-AWQ has the architecture of meta-llama/Llama-2-7b-hf; "
        "weights in int4, as the name says"
    )
    assert (
        resolve_name("Qwen/QwQ-32B").note == "Qwen/QwQ-32B is Qwen/Qwen2.5-32B under another name"
    )
    assert resolve_name("teknium/OpenHermes-2.5-Mistral-7B").note == (
        "teknium/OpenHermes-2.5-Mistral-7B is treated as a fine-tune of "
        "mistralai/Mistral-7B-v0.1, with the same architecture"
    )


def test_a_plain_name_needs_no_note() -> None:
    assert resolve_name("Qwen/Qwen3-8B").note == ""


def test_a_gguf_without_type_says_so() -> None:
    entry = resolve_name("TheBloke/Llama-2-7B-Chat-GGUF")
    assert entry.weights == "" and "names no GGUF type" in entry.note


@for_every(shipped_models())
def test_every_shipped_name_resolves_to_itself(name: str) -> None:
    assert resolve_name(name).id == name


@for_every(ALIASES)
def test_every_alias_resolves_to_its_model(alias: str, name: str) -> None:
    assert resolve_name(alias).id == name


def test_at_least_120_models_ship_each_with_a_source() -> None:
    assert len(shipped_models()) >= 120
    assert all(record.source for record in shipped_models().values())


def test_no_two_models_share_a_spelling() -> None:
    spelled = [
        name.casefold()
        for record in shipped_models().values()
        for name in (record.id, *record.aliases)
    ]
    assert len(spelled) == len(set(spelled))


@for_every(shipped_models())
def test_a_name_without_its_account_is_that_checkpoint(name: str) -> None:
    bare = resolve_name(name.rpartition("/")[2])
    assert (bare.id, bare.matched, bare.note) == (name, "name", "")


@for_every(["qwen3 235b a22b", "QWEN3_235B_A22B", "Qwen3-235b-a22b"])
def test_case_and_separators_make_no_other_name(spelled: str) -> None:
    match = resolve_name(spelled)
    assert (match.id, match.note) == ("Qwen/Qwen3-235B-A22B", "")


def test_every_spelling_leads_to_its_model() -> None:
    assert spellings()["Qwen3-235B-A22B"] == "Qwen/Qwen3-235B-A22B"
    assert all(resolve_name(spelled).id == name for spelled, name in spellings().items())


@pytest.mark.parametrize(
    ("name", "meant", "other"),
    [
        ("Mixtral", "mistralai/Mixtral-8x7B-v0.1", "mistralai/Mixtral-8x22B-v0.1"),
        ("Mistral-7B", "mistralai/Mistral-7B-v0.1", "mistralai/Mistral-7B-v0.3"),
        (
            "Phi-3-mini",
            "microsoft/Phi-3-mini-4k-instruct",
            "microsoft/Phi-3-mini-128k-instruct",
        ),
    ],
)
def test_a_name_that_fits_several_shapes_says_which_it_is_not(
    name: str, meant: str, other: str
) -> None:
    match = resolve_name(name)
    assert match.id == meant
    assert ", not " in match.note and other in match.note.partition(", not ")[2]


def test_the_beginning_of_one_models_name_alone_is_that_model() -> None:
    match = resolve_name("Qwen3-235B")
    assert (match.id, match.matched) == ("Qwen/Qwen3-235B-A22B", "beginning")
    assert (
        match.note
        == "Qwen3-235B is taken as Qwen/Qwen3-235B-A22B, the only name that starts with it"
    )
    assert resolve_name("Qwen/Qwen3-235B").id == "Qwen/Qwen3-235B-A22B"
    with pytest.raises(UnknownModel):
        resolve_name("someone/Qwen3-235B")


@pytest.mark.parametrize(
    ("name", "fits"),
    [
        ("gpt-oss", ["openai/gpt-oss-20b", "openai/gpt-oss-120b"]),
        ("DeepSeek-V4", ["deepseek-ai/DeepSeek-V4-Pro", "deepseek-ai/DeepSeek-V4-Flash"]),
        ("grok", ["xai-org/grok-1", "xai-org/grok-2"]),
    ],
)
def test_the_beginning_of_several_models_names_lists_them(name: str, fits: list[str]) -> None:
    with pytest.raises(UnknownModel, match="say which") as caught:
        resolve_name(name)
    assert caught.value.near == fits


def test_own_names_come_before_models_that_carry_the_word_as_an_alias() -> None:
    with pytest.raises(UnknownModel) as caught:
        resolve_name("deepseek")
    first, *others = caught.value.near
    assert first == "deepseek-ai/DeepSeek-R1"
    assert all(name.startswith("deepseek-ai/DeepSeek-") for name in others)


def test_a_word_within_names_lists_them() -> None:
    with pytest.raises(UnknownModel) as caught:
        resolve_name("maverick")
    assert caught.value.near == ["meta-llama/Llama-4-Maverick-17B-128E-Instruct"]

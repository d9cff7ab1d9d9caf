"""Names in the libraries of Ollama and LM Studio that do not state the full name of their model.

Most of their names ("llama3.1:8b", "qwen2.5:7b-instruct-q4_K_M") are read like any other name;
these leave out the size, the series or the publisher.  Source of the model behind each entry:
https://ollama.com/library.
"""

from __future__ import annotations

from collections.abc import Mapping

_MODELS: Mapping[str, str] = {
    "codestral": "mistralai/Codestral-22B-v0.1",
    "command-a": "CohereLabs/c4ai-command-a-03-2025",
    "command-r": "CohereLabs/c4ai-command-r-v01",
    "command-r-plus": "CohereLabs/c4ai-command-r-plus",
    "deepseek-r1:1.5b": "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B",
    "deepseek-r1:8b": "deepseek-ai/DeepSeek-R1-0528-Qwen3-8B",
    "deepseek-r1:32b": "deepseek-ai/DeepSeek-R1-Distill-Qwen-32B",
    "deepseek-r1:70b": "deepseek-ai/DeepSeek-R1-Distill-Llama-70B",
    "deepseek-r1:671b": "deepseek-ai/DeepSeek-R1",
    "deepseek-v3:671b": "deepseek-ai/DeepSeek-V3",
    "deepseek-v3.1:671b": "deepseek-ai/DeepSeek-V3.1",
    "deepseek-r1:7b": "Qwen/Qwen2.5-7B",
    "deepseek-r1:14b": "Qwen/Qwen2.5-14B",
    "falcon-h1:7b": "tiiuae/Falcon-H1-7B-Base",
    "gemma3n:e2b": "google/gemma-3n-E2B",
    "gemma3n:e4b": "google/gemma-3n-E4B",
    "gemma4:e2b": "google/gemma-4-E2B",
    "gemma4:e4b": "google/gemma-4-E4B",
    "gemma4:12b": "google/gemma-4-12B",
    "gemma4:26b": "google/gemma-4-26B-A4B",
    "gemma4:31b": "google/gemma-4-31B",
    "granite4:micro": "ibm-granite/granite-4.0-micro",
    "granite4:micro-h": "ibm-granite/granite-4.0-h-micro",
    "granite4:small-h": "ibm-granite/granite-4.0-h-small",
    "granite4:tiny-h": "ibm-granite/granite-4.0-h-tiny",
    "lfm2:24b": "LiquidAI/LFM2-24B-A2B",
    "lfm2.5-thinking:1.2b": "LiquidAI/LFM2-1.2B",
    "llama3.3": "meta-llama/Llama-3.3-70B-Instruct",
    "llama4:16x17b": "meta-llama/Llama-4-Scout-17B-16E-Instruct",
    "llama4:128x17b": "meta-llama/Llama-4-Maverick-17B-128E-Instruct",
    "llama4:maverick": "meta-llama/Llama-4-Maverick-17B-128E-Instruct",
    "llama4:scout": "meta-llama/Llama-4-Scout-17B-16E-Instruct",
    "mistral": "mistralai/Mistral-7B-v0.3",
    "mistral:7b": "mistralai/Mistral-7B-v0.3",
    "mistral-large-3:675b": "mistralai/Mistral-Large-3-675B-Instruct-2512",
    "mistral-nemo": "mistralai/Mistral-Nemo-Base-2407",
    "mistral-nemo:12b": "mistralai/Mistral-Nemo-Base-2407",
    "mistral-small3.1:24b": "mistralai/Mistral-Small-3.1-24B-Base-2503",
    "mistral-small3.2:24b": "mistralai/Mistral-Small-3.2-24B-Instruct-2506",
    "nemotron-3-nano:30b": "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
    "nemotron-3-super:120b": "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16",
    "phi4": "microsoft/phi-4",
    "phi4:14b": "microsoft/phi-4",
    "phi4-mini": "microsoft/Phi-4-mini-instruct",
    "phi4-mini:3.8b": "microsoft/Phi-4-mini-instruct",
    "qwen2.5vl:3b": "Qwen/Qwen2.5-VL-3B-Instruct",
    "qwen2.5vl:7b": "Qwen/Qwen2.5-VL-7B-Instruct",
    "qwen2.5vl:72b": "Qwen/Qwen2.5-VL-72B-Instruct",
    "qwen3-next:80b": "Qwen/Qwen3-Next-80B-A3B-Instruct",
    "qwen3:30b": "Qwen/Qwen3-30B-A3B",
    "qwen3:235b": "Qwen/Qwen3-235B-A22B",
    "qwen3-coder:30b": "Qwen/Qwen3-30B-A3B",
    "qwen3-coder:480b": "Qwen/Qwen3-Coder-480B-A35B-Instruct",
    "qwq": "Qwen/QwQ-32B",
}  # fmt: skip


def library_name(name: str) -> str:
    """The id that a library's name stands for, followed by the tuning and format of its tag.

    "phi4:14b-q4_K_M" -> "microsoft/phi-4-q4_K_M"; "" where no library is known to use the name.
    """
    head, _, tag = name.strip().removesuffix(":latest").partition(":")
    size, _, rest = tag.partition("-")
    for key, more in ((f"{head}:{tag}", ""), (f"{head}:{size}", rest), (head, tag)):
        known = _MODELS.get(key.casefold())
        if known and not (more and more[0].isdigit()):
            return f"{known}-{more}" if more else known
    return ""

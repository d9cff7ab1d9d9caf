"""Names of Ollama's and LM Studio's libraries that say less than the name of their model.

Most of them ("llama3.1:8b", "qwen2.5:7b-instruct-q4_K_M") are read like any other name; these are
the ones that leave the size, the series or the publisher out.  Which model each library entry
holds: https://ollama.com/library.
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
    "llama3.3": "meta-llama/Llama-3.3-70B-Instruct",
    "llama4:maverick": "meta-llama/Llama-4-Maverick-17B-128E-Instruct",
    "llama4:scout": "meta-llama/Llama-4-Scout-17B-16E-Instruct",
    "mistral": "mistralai/Mistral-7B-v0.3",
    "mistral:7b": "mistralai/Mistral-7B-v0.3",
    "mistral-nemo": "mistralai/Mistral-Nemo-Base-2407",
    "mistral-nemo:12b": "mistralai/Mistral-Nemo-Base-2407",
    "mistral-small3.1:24b": "mistralai/Mistral-Small-3.1-24B-Base-2503",
    "mistral-small3.2:24b": "mistralai/Mistral-Small-3.2-24B-Instruct-2506",
    "phi4": "microsoft/phi-4",
    "phi4:14b": "microsoft/phi-4",
    "phi4-mini": "microsoft/Phi-4-mini-instruct",
    "phi4-mini:3.8b": "microsoft/Phi-4-mini-instruct",
    "qwen3:30b": "Qwen/Qwen3-30B-A3B",
    "qwen3:235b": "Qwen/Qwen3-235B-A22B",
    "qwen3-coder:30b": "Qwen/Qwen3-30B-A3B",
    "qwen3-coder:480b": "Qwen/Qwen3-Coder-480B-A35B-Instruct",
    "qwq": "Qwen/QwQ-32B",
}  # fmt: skip


def library_name(name: str) -> str:
    """The id that a library's name stands for, its tag's tuning and format behind it.

    "phi4:14b-q4_K_M" -> "microsoft/phi-4-q4_K_M"; "" where no library is known to use the name.
    """
    head, _, tag = name.strip().removesuffix(":latest").partition(":")
    size, _, rest = tag.partition("-")
    for key, more in ((f"{head}:{size}", rest), (head, tag)):
        known = _MODELS.get(key.casefold())
        if known and not (more and more[0].isdigit()):
            return f"{known}-{more}" if more else known
    return ""

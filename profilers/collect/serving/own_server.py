"""transformers' own server with a small model of random weights, on this machine's CPU.

`transformers serve --continuous-batching` batches like a production engine: paged cache, decodes
and chunks of prompts under one token budget (transformers 5.23,
generation/continuous_batching/scheduler.py, `FIFOScheduler`).  Its model needs no download: it is
built from a config, with a tokenizer that maps each word to one token.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from genz_core.common.installation import pip_install
from genz_core.common.progress import Cancel, never
from genz_core.errors import MeasurementError
from profilers.collect import programs
from profilers.collect.measured_model import RunSettings, build, libraries
from profilers.collect.serving import local_servers
from profilers.collect.serving.client import Server
from profilers.collect.serving.prompts import WORDS

#: A Qwen3 architecture with 0.09 B parameters.
CONFIG: Mapping[str, Any] = {
    "_id": "qwen3-0.09b-random",
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 768,
    "intermediate_size": 2304,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "num_key_value_heads": 4,
    "head_dim": 64,
    "vocab_size": 8192,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": True,
    "dtype": "bfloat16",
    "bos_token_id": None,
    "eos_token_id": None,
}
_START_S = 180.0


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Settings that the server is started with.

    threads: of PyTorch.  batch_tokens: most tokens of a step.  blocks, block_tokens: of its cache.
    """

    threads: int = 1
    batch_tokens: int = 512
    blocks: int = 128
    block_tokens: int = 32

    @property
    def kv_tokens(self) -> int:
        """Tokens that its cache holds."""
        return self.blocks * self.block_tokens


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server on this machine.  server: its address for clients.  pid: its process id."""

    server: Server
    pid: int

    def cpu_s(self) -> float:
        """Processor time that it has used; NaN where the system does not report it."""
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / float(os.sysconf("SC_CLK_TCK"))
        except (OSError, ValueError, IndexError, AttributeError):
            return math.nan


def write_model(folder: Path, config: Mapping[str, Any] = CONFIG) -> None:
    """Write a checkpoint of random weights with its tokenizer, and the config for Ridgeline.

    Raises:
        MeasurementError: torch or transformers is missing, or cannot build the config.
    """
    torch, transformers = libraries()
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit

    torch.manual_seed(0)
    settings = RunSettings(config, dtype=str(config.get("dtype", "bfloat16")), device="cpu")
    model, _ = build(settings, torch.device("cpu"))
    model.save_pretrained(folder)
    size = int(config["vocab_size"])
    names = [*WORDS, *(f"word{number}" for number in range(size))][:size]
    tokenizer = Tokenizer(WordLevel({name: at for at, name in enumerate(names)}, names[0]))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)


def check_installed() -> None:
    """Refuse where the server's libraries are missing.

    Raises:
        MeasurementError: with the command to install them.
    """
    libraries()
    for name in ("fastapi", "uvicorn", "openai", "accelerate"):
        if importlib.util.find_spec(name) is None:
            raise MeasurementError(
                f"transformers serve needs {name}; run: {pip_install('transformers[serving]')}"
            )


@contextmanager
def running(
    folder: Path, settings: ServerSettings, log: Path, cancelled: Cancel = never
) -> Iterator[RunningServer]:
    """Start the server of a model and wait until it answers; it is stopped when the block ends.

    Raises:
        MeasurementError: it is not installed, ends at once, or does not answer in time.
        Cancelled: `cancelled` returned True before it answered.
    """
    check_installed()
    port = local_servers.free_port()
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": str(settings.threads),
        "MKL_NUM_THREADS": str(settings.threads),
        "HF_HUB_OFFLINE": "1",
    }
    with programs.background(_argv(folder, settings, port), log, environment) as child:
        address = f"http://127.0.0.1:{port}"
        if local_servers.why_not_ready(child, [f"{address}/health"], _START_S, cancelled):
            said = "".join(local_servers.last_lines(log, 1, 300)).strip()
            raise MeasurementError(f"transformers serve did not start: {said or 'it said nothing'}")
        yield RunningServer(Server(address, str(folder)), child.pid)


def _argv(folder: Path, settings: ServerSettings, port: int) -> list[str]:
    return [
        sys.executable, "-m", "transformers.cli.transformers", "serve", str(folder),
        "--continuous-batching", "--device", "cpu", "--dtype", _dtype(folder),
        "--attn-implementation", "sdpa",
        "--cb-num-blocks", str(settings.blocks), "--cb-block-size", str(settings.block_tokens),
        "--cb-max-batch-tokens", str(settings.batch_tokens),
        "--host", "127.0.0.1", "--port", str(port),
    ]  # fmt: skip


def _dtype(folder: Path) -> str:
    document = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return str(document.get("dtype", "bfloat16"))

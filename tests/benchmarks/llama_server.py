"""llama.cpp's own server with a small model of random weights, on this machine's CPU.

`llama-server` batches the tokens of its slots: each decode first, then the prompts of the others in
the order of their slots, under one budget of tokens (llama.cpp, tools/server/server-context.cpp,
`update_slots`).  A request that finds no slot free waits for one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from genz_core.common.progress import Cancel, never
from genz_core.errors import MeasurementError
from profilers.collect import programs
from profilers.collect.serving import local_servers
from profilers.collect.serving.client import Server
from profilers.collect.serving.own_server import RunningServer

PROGRAM = "llama-server"
_START_S = 120.0


@dataclass(frozen=True, slots=True)
class SlotSettings:
    """What the server is started with.

    threads: of the CPU.  slots: requests that it serves at once.  batch_tokens: of a step at most.
    context_tokens: that its cache holds, over all slots.

    One cache for all slots, as without `--parallel`: with a cache for each, only tokens of slots
    that lie side by side share a pass (src/llama-batch.cpp, `split_equal`).
    """

    threads: int = 1
    slots: int = 4
    batch_tokens: int = 512
    context_tokens: int = 4096


def found(program: str = PROGRAM) -> str:
    """The path of the server's program.

    Raises:
        MeasurementError: it is not there.
    """
    path = shutil.which(program)
    if path is None:
        raise MeasurementError(f"{program} is not there: install llama.cpp, or give its path")
    return path


@contextmanager
def running(
    file: Path,
    settings: SlotSettings,
    log: Path,
    program: str = PROGRAM,
    cancelled: Cancel = never,
) -> Iterator[RunningServer]:
    """The server of a GGUF file, started and answering; it ends with the context.

    Raises:
        MeasurementError: it is not installed, ends at once, or does not answer in time.
        Cancelled: `cancelled` returned True before it answered.
    """
    port = local_servers.free_port()
    argv = [found(program), *arguments(str(file), settings), "--port", str(port)]
    with programs.background(argv, log, dict(os.environ)) as child:
        address = f"http://127.0.0.1:{port}"
        if local_servers.why_not_ready(child, [f"{address}/health"], _START_S, cancelled):
            said = "".join(local_servers.last_lines(log, 1, 300)).strip()
            raise MeasurementError(f"{PROGRAM} did not start: {said or 'it said nothing'}")
        yield RunningServer(Server(address, file.stem), child.pid)


def arguments(file: str, settings: SlotSettings) -> list[str]:
    """Options of the server, without its port; prompts of other requests are not kept for it."""
    return [
        "--model", file, "--alias", Path(file).stem, "--host", "127.0.0.1",
        "--threads", str(settings.threads), "--threads-batch", str(settings.threads),
        "--threads-http", "2", "--flash-attn", "on", "--cache-ram", "0",
        "--ctx-size", str(settings.context_tokens), "--parallel", str(settings.slots),
        "--kv-unified",
        "--batch-size", str(settings.batch_tokens), "--ubatch-size", str(settings.batch_tokens),
    ]  # fmt: skip

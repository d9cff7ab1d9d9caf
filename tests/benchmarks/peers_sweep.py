"""What Ridgeline's calls and those of its peers cost, side by side in one run, with growth laws.

    python -m tests.benchmarks.peers_sweep --python /path/to/a/venv/bin/python --write docs/speed.md

The venv holds the peers, installed from their own packages (`genz-llm`, `aiconfigurator`); it is
not Ridgeline's.  GenZ is asked by its own calls for prefill and decode of one configuration,
aiconfigurator by its `cli_estimate` and by its compiled core (`EngineHandle`, prefill and one
decode step), with an explicit version of its tables; each after a first call that loads what it
needs.  A configuration is a batch and an input length of Llama-3.1-8B on an H100 or H200 with
tensor parallel degree 2.  Everything is processor time of one thread; a peer that is not installed
is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

_TIMED = """
import contextlib, io, itertools, json, logging, random, time
from importlib.metadata import version
logging.disable(logging.CRITICAL)
SETUP
draw = random.Random(0)
work = [(draw.randint(1, 64), draw.randint(16, 8192)) for _ in range(COUNT)]
with contextlib.redirect_stdout(io.StringIO()):
    one(*work[0])
    start = time.process_time()
    for batch, isl in work:
        one(batch, isl)
    spent = time.process_time() - start
print(json.dumps([version(PACKAGE), COUNT / spent]))
"""
_GENZ = """
from GenZ import prefill_moddeling, decode_moddeling
PACKAGE = "genz-llm"
def one(batch, isl):
    prefill_moddeling(model="llama3_8b", batch_size=batch, input_tokens=isl,
                      system_name="H100_GPU", bits="bf16", tensor_parallel=2)
    decode_moddeling(model="llama3_8b", batch_size=batch, input_tokens=isl, output_tokens=128,
                     Bb=1, system_name="H100_GPU", bits="bf16", tensor_parallel=2)
"""
_AICONFIGURATOR = """
from aiconfigurator.cli.api import cli_estimate
PACKAGE = "aiconfigurator"
def one(batch, isl):
    cli_estimate("meta-llama/Meta-Llama-3.1-8B", "h200_sxm", mode="agg", backend_name="trtllm",
                 backend_version="VERSION", isl=isl, osl=128, batch_size=batch, ctx_tokens=isl,
                 tp_size=2)
"""
_CORE = """
from aiconfigurator_core.sdk.engine import EngineHandle
PACKAGE = "aiconfigurator-core"
handle = EngineHandle.compile("meta-llama/Meta-Llama-3.1-8B", "h200_sxm", "trtllm",
                              backend_version="VERSION", tp_size=2)
def one(batch, isl):
    handle.predict_prefill_latency(batch, isl)
    handle.predict_decode_latency(batch, isl)
"""
#: Of each peer: its call, and how many times as often it is asked as the slowest.
_PEERS = {
    "GenZ": (_GENZ, 1),
    "aiconfigurator, cli_estimate": (_AICONFIGURATOR, 1),
    "aiconfigurator, compiled core": (_CORE, 300),
}


def peers(python: str, count: int, version: str) -> dict[str, float]:
    """Configurations a second of each peer that answers, its version in its name."""
    found = {}
    for name, (setup, often) in _PEERS.items():
        text = _TIMED.replace("SETUP", setup).replace("COUNT", str(count * often))
        clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        ran = subprocess.run(
            [python, "-c", text.replace("VERSION", version)],
            check=False,
            capture_output=True,
            text=True,
            timeout=600,
            env=clean | {"OMP_NUM_THREADS": "1"},
        )
        if ran.returncode:
            last = ran.stderr.strip().splitlines()[-1:] or ["no output"]
            print(f"{name}: left out: {last[0][:200]}")
            continue
        release, rate = json.loads(ran.stdout.strip().splitlines()[-1])
        found[f"{name} ({release})"] = float(rate)
    return found


def ours() -> dict[str, float]:
    """Configurations a second of a sweep, bounds alone and calibrated."""
    from app.planning import sweep_file
    from app.planning.sweep_axes import sweep_axes
    from tests.benchmarks.own_speed import least_s

    asked = {
        "model": "meta-llama/Llama-3.1-8B", "system": ["h100", "h200"], "engine": "vllm",
        "tp": [1, 2, 4, 8], "batch": {"from": 1, "to": 50, "step": 1},
        "isl": {"from": 32, "to": 8000, "step": 32}, "osl": 128,
    }  # fmt: skip
    axes, rates = sweep_axes(asked), {}
    for name, alone in (("Ridgeline, bounds", True), ("Ridgeline, calibrated", False)):
        rates[name] = len(axes) / least_s(
            lambda alone=alone: sweep_file.table(axes, bounds_only=alone), 1
        )
    return rates


def page(found: Mapping[str, float]) -> Iterator[str]:
    """The tables of docs/speed.md.  found: configurations a second of the peers."""
    from tests.benchmarks import own_speed

    rates = {**found, **{f"Ridgeline, {name}": rate for name, rate in own_speed.arrays(100_000)}}
    core = next((rate for name, rate in found.items() if "core" in name), 0.0)
    yield from _table("configurations | a second | of the core's", _rates(rates, core))
    yield from _table("one call | time", _times(own_speed.calls()))
    yield from _table("a whole program | time", _times(own_speed.programs()))
    rows = (law.row(what) for what, law in own_speed.growth())
    yield from _table("time grows with | from ... | exponent | of one more", rows)


def _rates(rates: Mapping[str, float], core: float) -> Iterator[str]:
    for name, rate in rates.items():
        yield f"| {name} | {_rounded(rate)} | {f'{rate / core:.2g}' if core else ''} |"


def _rounded(rate: float) -> str:
    return f"{float(f'{rate:.3g}'):,.10g}"


def _times(measured: Iterable[tuple[str, float]]) -> Iterator[str]:
    from tests.benchmarks.growth import shown

    for name, seconds in measured:
        yield f"| {name} | {shown(seconds)} |"


def _table(head: str, rows: Iterable[str]) -> Iterator[str]:
    yield f"| {head} |"
    yield "|---" * (head.count("|") + 1) + "|"
    yield from rows
    yield ""


def main() -> None:
    from tests.benchmarks.page_timings import machine_words, replace_table

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default="", help="of the venv that holds the peers")
    parser.add_argument("--count", type=int, default=30, help="configurations of the slowest peer")
    parser.add_argument("--version", default="1.3.0rc20", help="of aiconfigurator's tables")
    parser.add_argument("--write", type=Path, help="page of the documentation with the mark")
    given = parser.parse_args()
    before = machine_words()
    found = peers(given.python, given.count, given.version) if given.python else {}
    text = "\n".join(page(found)) + f"\n{datetime.now(UTC):%Y-%m-%d}, {before} before."
    print(text)
    if given.write:
        mark = f"<!-- python -m tests.benchmarks.peers_sweep --write {given.write} -->"
        replace_table(given.write, mark, text)


if __name__ == "__main__":
    main()

"""Configurations per second of processor time, of two peers and of Ridgeline, in one run.

    python -m tests.benchmarks.peers_sweep --python /path/to/a/venv/bin/python

The venv contains the peers from their own packages (`genz-llm`, `aiconfigurator`), not Ridgeline.
GenZ runs by its own calls for prefill and decode of one configuration, aiconfigurator by its
`cli_estimate` with an explicit version; each after a first call that loads its data. Ridgeline
sweeps a hundred thousand configurations, with bounds only and calibrated. A configuration is a
batch, lengths and a tensor parallel degree of Llama-3.1-8B (GenZ: its llama3_8b) on an H100 or
H200.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import time
from collections.abc import Mapping

_GENZ = """
import json, time, contextlib, io
from GenZ import prefill_moddeling, decode_moddeling
def one(batch):
    with contextlib.redirect_stdout(io.StringIO()):
        prefill_moddeling(model="llama3_8b", batch_size=batch, input_tokens=1024,
                          system_name="H100_GPU", bits="bf16", tensor_parallel=2)
        decode_moddeling(model="llama3_8b", batch_size=batch, input_tokens=1024,
                         output_tokens=128, Bb=1, system_name="H100_GPU", bits="bf16",
                         tensor_parallel=2)
one(1)
start, batches = time.process_time(), [1 + 4 * at for at in range(COUNT)]
for batch in batches:
    one(batch)
print(json.dumps(len(batches) / (time.process_time() - start)))
"""
_AICONFIGURATOR = """
import json, time, logging
logging.disable(logging.CRITICAL)
from aiconfigurator.cli.api import cli_estimate
def one(batch):
    cli_estimate("meta-llama/Meta-Llama-3.1-8B", "h200_sxm", mode="agg", backend_name="trtllm",
                 backend_version="VERSION", isl=1024, osl=128, batch_size=batch, ctx_tokens=1024,
                 tp_size=2)
one(1)
start, batches = time.process_time(), [2 + 4 * at for at in range(COUNT)]
for batch in batches:
    one(batch)
print(json.dumps(len(batches) / (time.process_time() - start)))
"""


def peers(python: str, count: int, version: str) -> dict[str, float]:
    """Configurations per second of each peer that can be run."""
    found = {}
    scripts = {"GenZ": _GENZ, "aiconfigurator": _AICONFIGURATOR}
    for name, script in scripts.items():
        text = script.replace("COUNT", str(count)).replace("VERSION", version)
        clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        ran = subprocess.run(
            [python, "-c", text],
            check=False,
            capture_output=True,
            text=True,
            timeout=600,
            env=clean,
        )
        if ran.returncode:
            last = ran.stderr.strip().splitlines()[-1:] or ["no output"]
            print(f"{name}: left out: {last[0][:200]}")
            continue
        found[name] = float(json.loads(ran.stdout.strip().splitlines()[-1]))
    return found


def ours() -> dict[str, float]:
    """Configurations per second of a sweep, with bounds only and calibrated."""
    from app.planning import sweep_file
    from app.planning.sweep_axes import sweep_axes

    asked = {
        "model": "meta-llama/Llama-3.1-8B", "system": ["h100", "h200"], "engine": "vllm",
        "tp": [1, 2, 4, 8], "batch": {"from": 1, "to": 50, "step": 1},
        "isl": {"from": 32, "to": 8000, "step": 32}, "osl": 128,
    }  # fmt: skip
    rates = {}
    for name, alone in (("Ridgeline, bounds", True), ("Ridgeline, calibrated", False)):
        sweep_file.table(sweep_axes({**asked, "isl": 1024}), bounds_only=alone)
        axes = sweep_axes(asked)
        start = time.process_time()
        sweep_file.table(axes, bounds_only=alone)
        rates[name] = len(axes) / (time.process_time() - start)
    return rates


def report(rates: Mapping[str, float]) -> str:
    """One line per program, and the ratios between them."""
    lines = [f"{name:<24}{rate:>14,.1f} configurations a second" for name, rate in rates.items()]
    for name, rate in rates.items():
        if name.startswith("Ridgeline"):
            lines += [
                f"{name} / {peer}: {rate / other:,.0f}"
                for peer, other in rates.items()
                if not peer.startswith("Ridgeline")
            ]
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", required=True, help="of the venv that holds the peers")
    parser.add_argument("--count", type=int, default=30, help="configurations of each peer")
    parser.add_argument("--version", default="1.3.0rc20", help="backend version for aiconfigurator")
    given = parser.parse_args()
    print(report({**peers(given.python, given.count, given.version), **ours()}))

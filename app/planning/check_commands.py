"""Commands that check a plan once it runs: its load, and a judge of the result."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from app.planning.demand import Demand
from app.planning.families import Family

#: File that the benchmark writes and the judge reads.
RESULT = "plan.json"
_PER_USER = 10


def benchmark(model: str, demand: Demand) -> str:
    """vLLM's benchmark client under the demand, for any server with OpenAI's interface.

    Its range is symmetrical around the mean, [1 - r, 1 + r].
    Source: https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/benchmarks/serve.py
    """
    ratio = demand.length_ratio
    spread = (1.0 - ratio) / (1.0 + ratio)
    isl, osl = (max(round(n * (1.0 + ratio) / 2.0), 1) for n in (demand.isl, demand.osl))
    words = [
        "vllm bench serve --backend openai --base-url http://localhost:8000",
        f"--model {shlex.quote(model)} --dataset-name random",
        f"--random-input-len {isl} --random-output-len {osl}",
    ]
    if demand.shape.shared_tokens:
        words.append(f"--random-prefix-len {demand.shape.shared_tokens}")
    if spread:
        words.append(f"--random-range-ratio {spread:.3g}")
    if demand.closed:
        words.append(
            f"--max-concurrency {demand.concurrency} --num-prompts {_PER_USER * demand.concurrency}"
        )
    else:
        prompts = max(round(demand.rate * 60.0), 200)
        words.append(f"--request-rate {demand.rate:.6g} --num-prompts {prompts}")
    words.append(
        "--ignore-eos --percentile-metrics ttft,tpot,e2el --metric-percentiles 50,90,95,99"
    )
    words.append(f"--save-result --result-filename {RESULT}")
    return " ".join(words)


def guard(model: str, family: Family, row: Mapping[str, float], demand: Demand) -> str:
    """`ridgeline guard` on the benchmark's result; "" where no interval could judge it.

    One of the replicas is priced, under its share of the load.
    """
    if not family.validated:
        return ""
    words = ["ridgeline", "guard", RESULT, "--model", model, "--system", family.system.slug]
    words += ["--engine", family.resolved.engine.name]
    for name, value in (("weights", family.weights), ("kv", family.kv)):
        words += [f"--{name}", value] if value else []
    for name in ("tp", "pp", "dp", "ep"):
        words += [f"--{name}", str(int(row[name]))]
    share = (demand.concurrency if demand.closed else demand.rate) / row["replicas"]
    words += ["--concurrency" if demand.closed else "--rate", f"{share:g}"]
    return shlex.join(words)

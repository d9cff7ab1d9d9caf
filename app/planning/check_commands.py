"""Commands that check a running plan: its load, and a judgement of the result."""

import shlex
from collections.abc import Mapping

import numpy as np

from app.planning import demand
from app.planning.families import Family
from app.planning.launch_options import FRONT_PORT
from app.planning.options import stated
from app.planning.space import DEGREES
from app.question.deployment import Deployment
from app.question.parameters import names_of
from app.question.question import Question, nominal_lengths
from app.question.verbs import parameters_of

#: File that the benchmark writes and the guard reads.
RESULT = "plan.json"
_PER_USER = 10
#: Parameters that a guard is told as the question states them.
_BESIDE = set(names_of(Deployment)) - {"model", "system", "engine", "max_num_seqs", *DEGREES}


def benchmark(question: Question, model: str) -> str:
    """The command of vLLM's benchmark client for a question's load, for any OpenAI-compatible
    server.

    Its range is symmetrical around the mean, [1 - r, 1 + r].  model: as the server names it.
    Source: https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/benchmarks/serve.py
    """
    *longest, ratio = nominal_lengths(question.isl, question.osl, question.length_ratio)
    spread = float((1.0 - ratio) / (1.0 + ratio))
    isl, osl = (max(round(float(most * (1.0 + ratio) / 2.0)), 1) for most in longest)
    amount = demand.amount(question)
    words = [
        f"vllm bench serve --backend openai --base-url http://localhost:{FRONT_PORT}",
        f"--model {shlex.quote(model)} --dataset-name random",
        f"--random-input-len {isl} --random-output-len {osl}",
    ]
    if question.shared_tokens:
        words.append(f"--random-prefix-len {question.shared_tokens}")
    if spread:
        words.append(f"--random-range-ratio {spread:.3g}")
    if demand.is_closed(question):
        words.append(f"--max-concurrency {amount:g} --num-prompts {_PER_USER * amount:g}")
    else:
        prompts = max(round(amount * 60.0), 200)
        words.append(f"--request-rate {amount:.6g} --num-prompts {prompts}")
    words.append(
        "--ignore-eos --percentile-metrics ttft,tpot,e2el --metric-percentiles 50,90,95,99"
    )
    words.append(f"--save-result --result-filename {RESULT}")
    return " ".join(words)


def guard(family: Family, row: Mapping[str, float], model: str) -> str:
    """`ridgeline guard` for the benchmark's result; "" where there is no interval to judge by.

    All replicas are priced, under the whole load, as the result states it.
    """
    pool = family.pool_of(row)
    of = family.evidence({name: np.array([value]) for name, value in row.items()}) if pool else None
    if not family.validated or not all(family.intervals(of=of).values()):
        return ""
    q = family.question
    words = ["ridgeline", "guard", RESULT, "--model", model, "--system", family.system.slug]
    words += ["--engine", family.resolved.engine.name]
    words += stated(q, [name for name in parameters_of("guard") if name in _BESIDE])
    for name in DEGREES:
        words += [f"--{name}", str(int(row[name]))]
    if (limit := int(row["max_num_seqs"])) != family.resolved.engine.max_sequences:
        words += ["--max-num-seqs", str(limit)]
    replicas = int(row["replicas"])
    for name, value in ({"replicas": replicas} | pool if pool or replicas > 1 else {}).items():
        words += [f"--{name.replace('_', '-')}", str(value)] if value else []
    words += [f"--{q.kind}", f"{demand.amount(q):g}"]
    return shlex.join(words)

"""The closed form of serving beside the simulation, on deployments drawn at random.

Both price steps with the same model, without what was measured of an engine on a device, so that
what differs is the schedule alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import hardware_db
import model_registry
from app.question.question import Question
from app.scenario.scenario import Resolved, combined
from app.scenario.served_rows import served
from app.simulation.run import run
from genz_core.error_metrics import error_summary
from genz_core.errors import RidgelineError
from genz_core.progress import Cancel, Cancelled, never
from genz_core.serving import sequences_that_fit
from genz_core.types import Workload

Row = dict[str, Any]

#: Dense models, experts, sliding windows and latent attention.
MODELS = (
    "meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-70B", "Qwen/Qwen3-32B",
    "mistralai/Mixtral-8x7B-v0.1", "openai/gpt-oss-120b", "Qwen/Qwen3-30B-A3B",
    "deepseek-ai/DeepSeek-V3", "Qwen/Qwen3-235B-A22B",
)  # fmt: skip
SYSTEMS = ("a100-sxm4-80gb", "h100-sxm5-80gb", "h200-sxm-141gb", "b200-sxm-180gb")
ENGINES = ("vllm", "sglang", "trtllm")
#: (tp, pp, dp)
SPLITS = (
    (1, 1, 1), (2, 1, 1), (4, 1, 1), (8, 1, 1), (4, 2, 1), (2, 4, 1), (2, 1, 4), (1, 1, 8),
    (4, 1, 2),
)  # fmt: skip
#: How far the closed form may lie from the simulation, by figure.
LIMITS: Mapping[str, float] = {"tpot_s": 0.10, "requests_per_s": 0.10, "ttft_s": 0.15}
_WAVES = 5  # requests of each user that count
_LEAST_REQUESTS, _MOST_REQUESTS = 80, 3000
_NAMED = ("system", "engine", "tp", "pp", "dp", "ep", "isl", "osl")
_LENGTHS = ((4, 15), (0, 12))  # powers of two that prompts and outputs lie between
_FEW_GAPS = 20
_FEW_USERS = 8


@dataclass(frozen=True, slots=True)
class Case:
    """A deployment under a steady closed loop.

    room: sequences that it runs at once, by cache and by engine.
    """

    question: Question
    room: int = 0

    @property
    def resolved(self) -> Resolved:
        """What the question names, without what was measured of the engine."""
        q = self.question
        engine = replace(hardware_db.load_engine(q.engine), measurements=None)
        model, system = model_registry.load(q.model), hardware_db.load(q.system)
        return combined(q, model, system, engine=engine)


def cases(count: int, seed: int = 1) -> list[Case]:
    """Deployments drawn at random: from one user to twice as many as fit."""
    return [case for case, _ in zip(_drawn(seed), range(count), strict=False)]


def _drawn(seed: int) -> Iterator[Case]:
    generator = np.random.default_rng(seed)

    def one_of(values: Sequence[Any]) -> Any:
        return values[int(generator.integers(len(values)))]

    while True:
        tp, pp, dp = one_of(SPLITS)
        ep = one_of((1, tp * dp))
        isl, osl = (int(2 ** generator.uniform(low, high)) for low, high in _LENGTHS)
        model, system, engine = one_of(MODELS), one_of(SYSTEMS), one_of(ENGINES)
        question = Question(
            model=model, system=system, engine=engine, tp=tp, pp=pp, dp=dp, ep=ep, isl=isl,
            osl=osl, length_ratio=one_of((0.5, 0.8)),
        )  # fmt: skip
        share = generator.uniform()
        room = _room(Case(question))
        if room >= 2 * dp:
            users = int(np.clip((2.0 * room) ** share, 1, 4096))
            count = int(np.clip(users * _WAVES, _LEAST_REQUESTS, max(_MOST_REQUESTS, users * 2)))
            yield Case(replace(question, concurrency=users, requests=count), room)


def _room(case: Case) -> int:
    """Sequences that a deployment runs at once; 0 where it cannot run."""
    q, resolved = case.question, case.resolved
    if resolved.model.invalid(q.parallelism):
        return 0
    mean = (1.0 + (q.length_ratio or 1.0)) / 2.0
    load = Workload(1.0, q.isl * mean, q.osl * mean)
    try:
        _, fit = sequences_that_fit(
            resolved.model, resolved.system, load, q.parallelism, resolved.engine
        )
    except RidgelineError:
        return 0
    return int(min(fit[0], resolved.engine.max_sequences * q.dp))


def compare(case: Case) -> Row:
    """One row: the case, its figures by both, their ratios, and why they differ, if they do."""
    q, closed, simulated = case.question, closed_form(case), simulation(case)
    ratios = {f"{name} ratio": closed[name] / simulated[name] for name in LIMITS}
    row = {
        "model": q.model.split("/")[1],
        **{name: getattr(q, name) for name in _NAMED},
        "users": q.concurrency,
        "room": case.room,
        **{f"{name} simulated": simulated[name] for name in LIMITS},
        **{f"{name} closed form": closed[name] for name in LIMITS},
        **ratios,
    }
    return {**row, "reason": reason(case, row, simulated["preemptions"])}


def outside(row: Row) -> list[str]:
    """Figures of a row in which the closed form lies further from the simulation than `LIMITS`."""
    return [name for name, limit in LIMITS.items() if abs(row[f"{name} ratio"] - 1.0) > limit]


def reason(case: Case, row: Row, preemptions: float) -> str:
    """Why the closed form lies outside its limits, as far as it is known; "" where it does not."""
    q = case.question
    if not outside(row):
        return ""
    if q.osl < _FEW_GAPS:
        return "few gaps: an output of a few tokens sees the prompts of one or two steps"
    if preemptions:
        return "preemption: sequences are stopped and read again"
    if q.engine == "trtllm" and q.isl > 2000:
        return "whole prompts: one that does not fit beside the decodes holds up the queue"
    if row["users"] < _FEW_USERS * q.dp:
        return "few users: their prompts meet by chance, not as a Poisson stream"
    if row["users"] >= 0.5 * case.room:
        return "near the limit of the cache"
    return "users in step: fewer end together than the closed form takes"


def closed_form(case: Case) -> dict[str, float]:
    """Figures of the closed form."""
    load = served(case.resolved)
    return {
        "tpot_s": float(load.tpot_s[0]) if case.question.osl > 1 else float("nan"),
        "requests_per_s": float(load.output_tokens_per_s[0] / load.osl[0]),
        "ttft_s": float(load.ttft_s[0]),
    }


def simulation(case: Case) -> dict[str, float]:
    """Figures of the simulation."""
    figures = run(case.resolved).simulation.summary()
    means = {f"{name}_s": figures[f"{name}_mean_s"] for name in ("tpot", "ttft")}
    return means | {name: figures[name] for name in ("requests_per_s", "preemptions")}


def compared(
    drawn: Sequence[Case],
    workers: int = 1,
    progress: Callable[[int, int], None] = lambda done, of: None,
    cancelled: Cancel = never,
) -> list[Row]:
    """`compare` of every case, over processes where there are several workers.

    Raises:
        Cancelled: `cancelled` said so before the last.
    """
    rows: list[Row] = []
    with ProcessPoolExecutor(workers) if workers > 1 else nullcontext() as pool:
        for row in pool.map(compare, drawn) if pool else map(compare, drawn):
            rows.append(row)
            progress(len(rows), len(drawn))
            if cancelled() and len(rows) < len(drawn):
                if pool:
                    pool.shutdown(wait=False, cancel_futures=True)
                raise Cancelled(f"{len(rows)} of {len(drawn)} deployments")
    return rows


def summary(rows: Sequence[Row]) -> list[Row]:
    """Errors of the closed form against the simulation, a row a figure: in all, and by group."""
    groups = {
        "all": list(rows),
        f"osl of {_FEW_GAPS} or more": [row for row in rows if row["osl"] >= _FEW_GAPS],
        **{name: [row for row in rows if row["engine"] == name] for name in ENGINES},
    }
    table = []
    for group, chosen in groups.items():
        for name, limit in LIMITS.items():
            ratios = np.array([row[f"{name} ratio"] for row in chosen])
            errors = error_summary(ratios, np.ones_like(ratios))
            inside = np.abs(ratios[np.isfinite(ratios)] - 1.0) <= limit
            table.append(
                {
                    "deployments": group,
                    "figure": name,
                    "count": errors.points,
                    "limit %": 100.0 * limit,
                    "within %": 100.0 * float(inside.mean()) if inside.size else float("nan"),
                    "median %": 100.0 * errors.median,
                    "p90 %": 100.0 * errors.p90,
                    "bias %": 100.0 * errors.bias,
                }
            )
    return table


def exceptions(rows: Sequence[Row]) -> list[Row]:
    """Deployments outside the limits, by reason: how many, and the worst of each."""
    by_reason: dict[str, list[Row]] = {}
    for row in rows:
        if row["reason"]:
            by_reason.setdefault(row["reason"], []).append(row)
    table = []
    for why, members in sorted(by_reason.items(), key=lambda item: -len(item[1])):
        worst = max(members, key=_furthest)
        name = max(outside(worst), key=lambda name: abs(np.log(worst[f"{name} ratio"])))
        table.append(
            {
                "reason": why,
                "deployments": len(members),
                "worst": f"{name} x {worst[f'{name} ratio']:.2f}",
                "of": " ".join(
                    [worst["model"], worst["system"], worst["engine"]]
                    + [
                        f"{size} {worst[size]}"
                        for size in ("tp", "pp", "dp", "isl", "osl", "users")
                    ]
                ),
            }
        )
    return table


def furthest(rows: Sequence[Row], count: int) -> list[Row]:
    """The rows outside the limits in which the closed form lies furthest from the simulation."""
    return sorted(filter(outside, rows), key=_furthest, reverse=True)[:count]


def _furthest(row: Row) -> float:
    return max(abs(float(np.log(row[f"{name} ratio"]))) for name in outside(row))

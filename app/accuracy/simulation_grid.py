"""The closed form of serving compared with the simulation, on random deployments.

Both price steps with the same model, without measured corrections of an engine on a device, so that
only the schedule differs.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import hardware_db
from app.accuracy.tables import Row, grouped, over_processes
from app.question.question import Question
from app.scenario.scenario import Resolved, resolve
from app.scenario.served_rows import served
from app.simulation.run import run
from genz_core.calibration.error_metrics import error_summary
from genz_core.common.progress import Cancel, never
from genz_core.deployment import as_server
from genz_core.errors import RidgelineError
from genz_core.serving import sequences_that_fit
from genz_core.serving.simulation import Simulation
from genz_core.types import Mask, Workload

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
#: (tp, dp) of prefill workers.
READERS = ((1, 1), (2, 1), (4, 1), (8, 1), (1, 4), (1, 8), (2, 2))
#: Numbers of prefill and decode workers.
WORKERS = ((1, 1, 2, 3, 6), (1, 1, 2, 4))
#: Shortest over longest length; None for the default variation of lengths.
RATIOS = (None, 1.0, 0.8, 0.5)
LOOPS = ("closed", "open")
#: Largest accepted difference between closed form and simulation, by figure.
LIMITS: Mapping[str, float] = {"tpot_s": 0.10, "requests_per_s": 0.10, "ttft_s": 0.15}
_WAVES = 5  # counted requests per user
_SHARES = (0.1, 0.9)  # range of arrival rates, relative to the sustained rate
# request lifetimes simulated before and after the counted part of an open loop
_FILLING, _EMPTYING = 1.5, 1.0
_LEAST_REQUESTS, _LEAST_AT_A_RATE, _MOST_REQUESTS = 80, 800, 3000
_NAMED = ("system", "engine", "tp", "pp", "dp", "ep", "isl", "osl")
_LENGTHS = ((4, 15), (0, 12))  # log2 of the range of prompts and outputs
_APART = ((7, 14), (4, 11))  # the same with separate prefill workers
_PART = 4  # one in this many deployments has a prefill pool
_FEW_GAPS = 20
_FEW_USERS = 8
_NEAR_ITS_RATE = 0.75  # share of it


@dataclass(frozen=True, slots=True)
class Case:
    """A deployment under a steady load: a closed loop, or arrivals at a rate.

    room: sequences that can run at once, limited by cache and engine.  share: arrival rate over the
    sustained rate, 0 in a closed loop.  life_s: closed-form duration of a request, in an open loop.
    """

    question: Question
    room: int = 0
    share: float = 0.0
    life_s: float = 0.0

    @property
    def loop(self) -> str:
        """One of `LOOPS`."""
        return "open" if self.share else "closed"

    @property
    def pools(self) -> bool:
        """Whether prefill has separate workers."""
        return self.question.prefill_workers > 0

    @property
    def lengths(self) -> str:
        """The length ratio as text."""
        return _words(self.question.length_ratio)

    @property
    def resolved(self) -> Resolved:
        """The resolved question, without measured corrections of the engine."""
        engine = hardware_db.load_engine(self.question.engine)
        return resolve(self.question, {"engine": replace(engine, measurements=None)})


def _words(ratio: float | None) -> str:
    return "default" if ratio is None else f"{ratio:g}"


def cases(
    count: int, seed: int = 1, loops: Sequence[str] = LOOPS, *, pools: bool = False
) -> list[Case]:
    """Random deployments: from one user to twice as many as fit, or at an arrival rate.

    Length ratios and loops alternate.  pools: with separate prefill workers.
    """
    return list(itertools.islice(_drawn(seed, loops, pools), count))


def with_pools(count: int) -> list[Case]:
    """`cases`, plus a quarter as many with a prefill pool."""
    return [*cases(count), *cases(max(count // _PART, 1), pools=True)]


def _drawn(seed: int, loops: Sequence[str], pools: bool) -> Iterator[Case]:
    generator = np.random.default_rng(seed)
    kinds = itertools.cycle(itertools.product(loops, RATIOS))

    def one_of(values: Sequence[Any]) -> Any:
        return values[int(generator.integers(len(values)))]

    loop, ratio = next(kinds)
    number = 0
    while True:
        tp, pp, dp = one_of(SPLITS)
        ep = one_of((1, tp * dp))
        spans = _APART if pools else _LENGTHS
        isl, osl = (int(2 ** generator.uniform(low, high)) for low, high in spans)
        model, system, engine = one_of(MODELS), one_of(SYSTEMS), one_of(ENGINES)
        question = Question(
            model=model, system=system, engine=engine, tp=tp, pp=pp, dp=dp, ep=ep, isl=isl,
            osl=osl, length_ratio=ratio,
        )  # fmt: skip
        share = generator.uniform()
        room = _room(Case(question))
        if pools and room:
            readers, writers = (one_of(numbers) for numbers in WORKERS)
            first, ranks = one_of(READERS)
            spread = one_of((1, first * ranks))
            reader = replace(question, tp=first, pp=1, dp=ranks, ep=spread)
            if pp > 1 or not _room(Case(reader)):
                continue
            room *= writers
            question = replace(
                question, prefill_workers=readers, replicas=writers, prefill_tp=first,
                prefill_dp=ranks, prefill_ep=spread,
            )  # fmt: skip
        if room >= 2 * dp:
            drawn = _closed_case if loop == "closed" else _open_case
            yield drawn(question, room, share, number)
            number += 1
            loop, ratio = next(kinds)


def _closed_case(question: Question, room: int, share: float, _: int) -> Case:
    users = int(np.clip((2.0 * room) ** share, 1, 4096))
    count = int(np.clip(users * _WAVES, _LEAST_REQUESTS, max(_MOST_REQUESTS, users * 2)))
    return Case(replace(question, concurrency=users, requests=count), room)


def _open_case(question: Question, room: int, share: float, seed: int) -> Case:
    """Arrivals at a share of the sustained rate, with enough of them to reach steady state
    first.
    """
    share = _SHARES[0] + share * (_SHARES[1] - _SHARES[0])
    idle = Case(replace(question, rate=1e-6), room)
    rate = share * 1e-6 / float(served(idle.resolved).utilisation[0])
    question = replace(question, rate=rate)
    life_s = float(served(Case(question).resolved).e2e_s[0])
    running = rate * life_s
    counted = np.clip(running * _WAVES, _LEAST_AT_A_RATE, _MOST_REQUESTS)
    count = int(counted + (_FILLING + _EMPTYING) * running)
    return Case(replace(question, requests=count, seed=seed), room, share, life_s)


def _room(case: Case) -> int:
    """Number of sequences that a deployment can run at once; 0 if it cannot run."""
    q, resolved = case.question, case.resolved
    if resolved.model.invalid(q.parallelism):
        return 0
    mean = (1.0 + (q.length_ratio or 1.0)) / 2.0
    load = Workload(1.0, q.isl * mean, q.osl * mean)
    engine = as_server(resolved.engine, resolved.system)
    try:
        _, fit = sequences_that_fit(resolved.model, resolved.system, load, q.parallelism, engine)
    except RidgelineError:
        return 0
    return int(min(fit[0], engine.max_sequences * q.dp))


def compare(case: Case) -> Row:
    """One row: the case, its figures by both methods, their ratios, and the reason of a
    difference.
    """
    q, simulated = case.question, simulation(case)
    closed = closed_form(case, simulated["arrivals_per_s"])
    ratios = {f"{name} ratio": closed[name] / simulated[name] for name in LIMITS}
    row = {
        "model": q.model.split("/")[1],
        **{name: getattr(q, name) for name in _NAMED},
        "prefill": f"{q.prefill_workers} x TP{q.prefill_tp} DP{q.prefill_dp}" if case.pools else "",
        "lengths": case.lengths,
        "loop": case.loop,
        "users": q.concurrency or round((q.rate or 0.0) * case.life_s, 1),
        "share": case.share,
        "room": case.room,
        **{f"{name} simulated": simulated[name] for name in LIMITS},
        **{f"{name} closed form": closed[name] for name in LIMITS},
        **ratios,
    }
    return {**row, "reason": reason(case, row, simulated["preemptions"])}


def outside(row: Row) -> list[str]:
    """Names of the figures for which the closed form differs by more than `LIMITS`."""
    return [name for name, limit in LIMITS.items() if abs(row[f"{name} ratio"] - 1.0) > limit]


def reason(case: Case, row: Row, preemptions: float) -> str:
    """The likely reason why a figure is outside the limits; "" if none is."""
    q = case.question
    if not outside(row):
        return ""
    if q.osl < _FEW_GAPS:
        return "short outputs: one or two steps with a prefill dominate TPOT"
    if preemptions:
        return "preemption: sequences are stopped and recomputed"
    if q.engine == "trtllm" and q.isl > 2000:
        return "no chunked prefill: a prompt that does not fit next to the decodes blocks the queue"
    if case.share > _NEAR_ITS_RATE:
        return "near the sustainable rate: the queue length depends on a few arrivals"
    if q.pp > 1:
        return "pipeline: micro-batches with unequal work wait for a stage"
    if row["users"] < _FEW_USERS * q.dp * q.replicas:
        return "few users: their prompts do not arrive as a Poisson stream"
    if row["users"] >= 0.5 * case.room:
        return "near the limit of the cache"
    if case.pools:
        return "pools: prompts queue for prefill workers differently from the closed form's model"
    if q.engine == "sglang":
        return "prefill first: requests prefilled together may or may not end together"
    return "ranks and steps: arrivals group differently from the closed form's model"


def closed_form(case: Case, arrivals_per_s: float) -> dict[str, float]:
    """Figures of the closed form; in an open loop for the arrivals that were drawn."""
    if case.loop == "open":
        case = replace(case, question=replace(case.question, rate=arrivals_per_s))
    load = served(case.resolved)
    per_s = float(load.output_tokens_per_s[0] / load.osl[0])
    return {
        "tpot_s": float(load.tpot_s[0]),
        "requests_per_s": per_s if case.loop == "closed" else float("nan"),
        "ttft_s": float(load.ttft_s[0]),
    }


def simulation(case: Case) -> dict[str, float]:
    """Figures of the simulation."""
    simulated = run(case.resolved).simulation
    per_s = 0.0
    if case.loop == "open":
        simulated = replace(simulated, counted=_in_between(case, simulated))
        arrival = simulated.arrival_s[: np.flatnonzero(simulated.counted)[-1] + 1]
        per_s = arrival.size / float(arrival[-1])
    figures = simulated.summary()
    means = {f"{name}_s": figures[f"{name}_mean_s"] for name in ("tpot", "ttft")}
    others = {name: figures[name] for name in ("requests_per_s", "preemptions")}
    return {**means, **others, "arrivals_per_s": per_s}


def _in_between(case: Case, simulated: Simulation) -> Mask:
    """Mask of requests in an open loop that run entirely in steady state."""
    arrival = simulated.arrival_s
    first, last = _FILLING * case.life_s, float(arrival[-1]) - _EMPTYING * case.life_s
    inside = (arrival >= first) & (arrival <= last)
    return inside if inside.any() else np.ones_like(inside)


def compared(
    drawn: Sequence[Case],
    workers: int = 1,
    progress: Callable[[int, int], None] = lambda done, of: None,
    cancelled: Cancel = never,
) -> list[Row]:
    """`compare` for every case; workers: processes, 0 for one per core.

    Raises:
        Cancelled: `cancelled` returned True before the last case.
    """
    return over_processes(compare, drawn, workers, progress, cancelled, "deployments")


def summary(rows: Sequence[Row]) -> list[Row]:
    """Errors of the closed form relative to the simulation, one row per figure: overall and by
    group.
    """
    kinds = {f"{loop}, lengths {_words(ratio)}": (loop, _words(ratio))
             for loop in LOOPS for ratio in RATIOS}  # fmt: skip
    pooled = [row for row in rows if row["prefill"]]
    rows = [row for row in rows if not row["prefill"]]
    groups = {
        "all": list(rows),
        **{loop: [row for row in rows if row["loop"] == loop] for loop in LOOPS},
        f"osl of {_FEW_GAPS} or more": [row for row in rows if row["osl"] >= _FEW_GAPS],
        **{name: [row for row in rows if (row["loop"], row["lengths"]) == kind]
           for name, kind in kinds.items()},
        **{f"{name}, {loop}": [row for row in rows if (row["engine"], row["loop"]) == (name, loop)]
           for name in ENGINES for loop in LOOPS},
        **{f"prefill pools, {loop}": [row for row in pooled if row["loop"] == loop]
           for loop in LOOPS},
    }  # fmt: skip
    table = []
    for group, chosen in groups.items():
        for name, limit in LIMITS.items():
            ratios = np.array([row[f"{name} ratio"] for row in chosen])
            if not np.isfinite(ratios).any():
                continue
            errors = error_summary(ratios, np.ones_like(ratios))
            inside = np.abs(ratios[np.isfinite(ratios)] - 1.0) <= limit
            table.append(
                {
                    "deployments": group,
                    "figure": name,
                    "count": errors.points,
                    "limit %": 100.0 * limit,
                    "within %": 100.0 * float(inside.mean()),
                    "median %": 100.0 * errors.median,
                    "p90 %": 100.0 * errors.p90,
                    "bias %": 100.0 * errors.bias,
                }
            )
    return table


def exceptions(rows: Sequence[Row]) -> list[Row]:
    """Deployments outside the limits, by reason: count, and the worst of each."""
    table = []
    for shared, members in grouped((row for row in rows if row["reason"]), ("reason",)):
        worst = max(members, key=_furthest)
        name = max(outside(worst), key=lambda name: abs(np.log(worst[f"{name} ratio"])))
        table.append(
            {
                **shared,
                "deployments": len(members),
                "worst": f"{name} x {worst[f'{name} ratio']:.2f}",
                "of": " ".join(
                    [worst["model"], worst["system"], worst["engine"]]
                    + [
                        f"{size} {worst[size]}"
                        for size in ("tp", "pp", "dp", "isl", "osl", "lengths", "loop", "users")
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

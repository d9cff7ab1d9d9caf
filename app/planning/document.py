"""An answer as a document: the output of `ridgeline plan --json`, and the rows of its table."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from app.answers.column import ends
from app.answers.table import finite
from app.planning import demand
from app.planning.answer import Answer
from app.planning.candidates import CHOICES, FACTS, Candidates
from app.planning.families import Family
from app.planning.launch import launch
from app.planning.options import options
from app.planning.probability import meets
from app.planning.safe_or_risky import better_by
from app.planning.shortlist import Plan
from app.planning.targets import FIGURES
from app.planning.track_record import of_choices
from app.question.question import Question, nominal_lengths
from app.scenario import sharing
from app.scenario.format_notes import format_notes
from app.scenario.intervals import beside, single
from app.scenario.served_rows import kept_step_scale
from app.wording import quantities
from genz_core.engine import EngineProfile
from genz_core.serving.kv_capacity import usual_tokens
from genz_core.types import Mask

_WHOLE = (*CHOICES, "devices")
_INTERVALS = ("ttft_s", "tpot_s")
_PREFILL = ("workers", "tp", "pp", "dp", "ep")


def document(answer: Answer) -> dict[str, Any]:
    """The question and the complete answer, in SI units and US dollars; NaN becomes None."""
    found, met = answer.found, meets_targets(answer)
    return {
        "model": answer.model,
        "demand": _demand(answer),
        "targets": [str(target) for target in found.targets],
        "ranked_by": found.ranking.by.name,
        "options": options(found.query),
        "deployments": len(found.candidates),
        "meet_targets": int(met.sum()),
        "undecided": found.undecided,
        "rejected_by_simulation": int((found.feasible & ~met).sum()),
        "plans": [plan_row(answer, plan) for plan in answer.short.plans],
        "gamble": _beside(answer, answer.short.gamble),
        "safe": _beside(answer, answer.short.safe),
        "settling": _settling(answer),
        "fewest_devices": _row(answer, answer.fewest),
        "others": [_other(answer, loser) for loser in answer.losers],
        "changes": [
            {"what": c.what, "words": c.words, "figure": c.figure, "value": finite(c.value)}
            for c in answer.changes
        ],
        "measurement": _measurement(answer),
        "pays": [{"words": one.words, "rows": one.rows()} for one in answer.pays],
        "left_out": [{"what": left.what, "why": left.why} for left in found.left_out],
        "notes": list(dict.fromkeys([*answer.notes, *_of_plans(answer)])),
    }


def _of_plans(answer: Answer) -> Iterator[str]:
    """Notes on weights of the plans that are only stored in their format, and on the user's own
    calibration of their steps.
    """
    families = (answer.short.candidates.of(plan.at) for plan in answer.short.plans)
    for family in families:
        engine = family.resolved.engine
        yield from format_notes(family.resolved.model, family.system, engine.products)
        if kept := kept_step_scale(family.resolved):
            yield f"{engine.name} on {family.system.name}: {kept.sentence}"


def _beside(answer: Answer, plan: Plan | None) -> dict[str, Any] | None:
    """An alternative to the best plan; better_by: relative advantage in the ranked figure."""
    short = answer.short
    if plan is None:
        return None
    share = better_by(answer.found, short, plan, short.plans[0])
    return {**plan_row(answer, plan), "better_by": finite(share)}


def _settling(answer: Answer) -> dict[str, Any] | None:
    found = answer.settling
    if found is None:
        return None
    run = {"command": found.run.command, "points": found.run.points}
    return {"chance": found.chance, "better_by": finite(found.wins), **run, "words": found.words}


def meets_targets(answer: Answer) -> Mask:
    """Whether each candidate meets the targets: simulated, or in closed form where it was not."""
    found, short = answer.found, answer.short
    good = found.feasible & (short.candidates.status == "ok")
    for target in found.targets:
        good &= target.met(short.candidates.columns[target.figure.column])
    good[list(short.rejected)] = False
    good[[plan.at for plan in short.held]] = True
    return good


def _demand(answer: Answer) -> dict[str, Any]:
    query = answer.found.query
    q, trace = query.question, demand.trace_of(query)
    lengths = {"isl": q.isl, "osl": q.osl, "length_ratio": q.length_ratio}
    named = {"words": demand.words(query), **({"trace": trace.name} if trace else {})}
    return {q.kind: getattr(q, q.kind), **lengths, **sharing.shares(q), **named}


def plan_row(answer: Answer, plan: Plan) -> dict[str, Any]:
    """A plan: its description, figures with intervals, margins, probability and launch lines."""
    candidates = answer.short.candidates
    family, row = candidates.of(plan.at), candidates.row(plan.at)
    started = launch(family, row, answer.found.query)
    means = plan.simulated.means if plan.simulated else {}
    known = deployment_row(candidates, plan.at, simulated=plan.simulated is not None)
    return {
        **known,
        "probability": finite(plan.probability),
        "probability_alone": finite(_alone(answer, plan)),
        "probability_validated": family.validated,
        "margins": {
            target.figure.name: None
            if known[target.figure.column] is None
            else finite(target.margin(row[target.figure.column]))
            for target in answer.found.targets
        },
        "percentiles": _percentiles(answer, plan),
        "choices_like_it": of_choices(family),
        **{f"simulated_{name}": finite(value) for name, value in means.items()},
        "launch": "\n".join(started.lines),
        "launch_notes": list(started.notes),
        "launch_files": dict(started.files),
        "launch_servers": [asdict(server) for server in started.servers],
        "launch_model": started.model,
        "launch_version": started.version,
        "launch_checked": started.checked,
        "launch_sources": [dict(source) for source in started.sources],
        "benchmark": started.benchmark,
        "guard": started.guard,
        "notes": list(family.notes),
    }


def deployment_row(candidates: Candidates, at: int, *, simulated: bool = False) -> dict[str, Any]:
    """A candidate: its description, and its figures with intervals where there are any.

    simulated: whether it was simulated; otherwise it has no percentiles.
    """
    family, row = candidates.of(at), candidates.row(at)
    own = ("replicas", "tp", "pp", "dp", "ep", "max_num_seqs")
    figures = {
        f.column: finite(row[f.column]) if simulated or not f.percentile else None
        for f in FIGURES.values()
    }
    q, engine = family.question, family.resolved.engine
    alone = candidates.picked(np.array([at]))
    of = family.evidence(alone.columns)
    found = family.intervals(alone.novelty, of)
    known = {name: single(found[name]) for name in _INTERVALS}
    bounds = {name: row[f"bound_{name}"] for name in _INTERVALS}
    timed = beside({name: row[name] for name in _INTERVALS}, known, bounds)
    return {
        "status": str(candidates.status[at]),
        "kind": family.kind,
        "system": family.system.slug,
        "engine": engine.name,
        **family.formats,
        "devices": int(row["devices"]),
        **{name: int(row[name]) for name in own},
        "max_num_batched_tokens": int(q.max_num_batched_tokens or _step_tokens(engine, q)),
        "prefill": _prefill(family, row),
        "speculation": str(family.speculation) if family.speculation else None,
        "redundant_experts": family.copies,
        "offload": family.spill or None,
        "beyond_measurements": [*family.beyond, *of.categories()],
        **{name: value for name, value in figures.items() if name != "devices"},
        **{end: finite(timed[end]) for name in _INTERVALS for end in ends(name)},
        "not_validated": timed["not_validated"],
        **{name: finite(row[name]) for name in FACTS},
    }


def _step_tokens(engine: EngineProfile, q: Question) -> float:
    """Token budget of a step that the engine chooses itself, 0 for none."""
    if engine.whole_prompts:
        isl, osl, _ = nominal_lengths(q.isl, q.osl, q.length_ratio)
        return float(usual_tokens(engine, isl, osl))
    return engine.chunk_tokens


def _alone(answer: Answer, plan: Plan) -> float:
    """The probability of a plan without the correction for choosing the best of many."""
    one = answer.short.candidates.picked(np.array([plan.at]))
    return float(meets(one, answer.found.targets, answer.found.query.question)[0])


def _prefill(family: Family, row: Mapping[str, float]) -> dict[str, Any] | None:
    if family.prefill is None:
        return None
    return {
        "system": family.prefill.system.slug,
        **{name: int(row[f"prefill_{name}"]) for name in _PREFILL},
    }


def _percentiles(answer: Answer, plan: Plan) -> str:
    if plan.simulated is None:
        return f"none, not simulated: {plan.why}"
    shown = f"simulated, {plan.simulated.requests:,} requests"
    if plan.simulated.share < 1.0:
        shown += f", {quantities.percent(plan.simulated.share)} of the replicas with their load"
    return "; ".join([shown, *(one.words for one in answer.short.undecided.get(plan.at, ()))])


def _row(answer: Answer, at: int | None) -> dict[str, Any] | None:
    if at is None:
        return None
    simulated = answer.short.is_simulated(at)
    return deployment_row(answer.short.candidates, at, simulated=simulated)


def _other(answer: Answer, loser: Any) -> dict[str, Any]:
    family = answer.found.candidates.families[loser.family]
    row: dict[str, Any] = {"family": str(family), "why": loser.why}
    if loser.at is not None:
        row["nearest"] = _row(answer, loser.at)
    return row


def _measurement(answer: Answer) -> dict[str, Any] | None:
    found = answer.measurement
    if found is None:
        return None
    return {
        "figure": found.figure,
        "interval_ratio": finite(found.now),
        "interval_ratio_after": finite(found.then),
        "command": found.command,
        "points": found.points,
        "words": found.words,
    }

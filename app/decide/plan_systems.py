"""The best deployment on each system, one row per system, by the cost of meeting the targets."""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from app.answers.columns import COLUMNS
from app.decide.measured_loads import apart, measured_loads, nearest
from app.planning import answer as answers
from app.planning.answer import Answer
from app.planning.document import deployment_row, plan_row
from app.planning.percentiles import simulate
from app.planning.plan_text import chance, shape, short
from app.planning.space import DEGREES
from app.planning.targets import FIGURES
from app.wording import quantities
from genz_core.common.progress import Cancel, Progress, never, part, silent
from genz_core.errors import RidgelineError

Row = dict[str, Any]


def by_system(answer: Answer, progress: Progress = silent, cancelled: Cancel = never) -> list[Row]:
    """The best deployment on every searched system, or the nearest one and what it lacks.

    Nothing is priced anew: each row is a search among the priced candidates of one system, with the
    best of them simulated if the question says so.

    Returns:
        Of each system `plan_row`, or `deployment_row` of the nearest, with "lacks" ("" for a plan),
        "run" (what differs from the nearest measured run, "" without one) and "run_source"; those
        that meet the targets first, by the ranked figure over its probability.

    Raises:
        Cancelled: between two simulations.
    """
    found = answer.found
    slugs = [family.system.slug for family in found.candidates.families]
    each = list(dict.fromkeys(slugs))
    rows = []
    for number, slug in enumerate(each):
        alone = answer
        if len(each) > 1:
            share = part(progress, number / len(each), (number + 1) / len(each))
            mine = np.array([slugs[number] == slug for number in found.candidates.family])
            if not mine.any():
                continue
            one = replace(found.query, question=replace(found.query.question, top=1))
            priced = found.candidates.picked(mine), ()
            alone = answers.answer(one, share, cancelled, priced=priced, with_changes=False)
        rows.append(_row(alone, slug))
    ranking = found.ranking

    def order(row: Row) -> tuple[bool, float]:
        value, share = (row.get(name) for name in (ranking.by.column, "probability"))
        if value is None:
            return bool(row["lacks"]), math.inf
        known = np.array([math.nan if share is None else share])
        return bool(row["lacks"]), float(ranking.expectation(np.array([value]), known)[0])

    return sorted(rows, key=order)


def _row(answer: Answer, slug: str) -> Row:
    """The best plan of an answer about one system, or the nearest candidate."""
    if answer.short.plans:
        plan = answer.short.plans[0]
        return {**plan_row(answer, plan), "lacks": "", **_run(answer, plan.at)}
    own = answer.found.candidates.families
    losers = [one for one in answer.losers if own[one.family].system.slug == slug]
    near = next((one for one in losers if one.at is not None), None)
    if near is None or near.at is None:
        why = losers[0].why if losers else "nothing could be tried"
        return {"system": slug, "lacks": why, **_NO_RUN}
    row = deployment_row(answer.short.candidates, near.at, simulated=True)
    if not answer.short.is_simulated(near.at):
        row |= _percentiles(answer, near.at)
    return {**row, "lacks": near.why, **_run(answer, near.at)}


def _percentiles(answer: Answer, at: int) -> dict[str, float | None]:
    """The percentiles of a candidate that was not simulated before; none where it cannot run, or
    nothing is to be simulated.
    """
    none: dict[str, float | None] = {f.column: None for f in FIGURES.values() if f.percentile}
    runs = answer.found.candidates.status[at] == "ok"
    if not (runs and answer.found.query.question.simulate):
        return none
    try:
        outcome = simulate(answer.found.candidates, at, answer.found.query)
    except RidgelineError:
        return none
    return {name: outcome.figures.get(name) for name in none}


_NO_RUN = {"run": "", "run_source": ""}


def _run(answer: Answer, at: int) -> dict[str, str]:
    """The measured run nearest to a candidate, described by the differences."""
    family, row = answer.short.candidates.of(at), answer.short.candidates.row(at)
    degrees = np.array([row[name] for name in DEGREES])
    users = max(row["running"] / row["replicas"], 1.0)
    lengths = (family.question.isl, family.question.osl)
    found = nearest(measured_loads(family), degrees, users, lengths)
    if found is None:
        return dict(_NO_RUN)
    return {"run": apart(found, degrees, users, lengths), "run_source": found.source}


def words(row: Row, pending: str = "") -> dict[str, Any]:
    """A row of `by_system` for a reader.

    pending: what is said in place of figures that its simulation will tell.
    """
    if "devices" not in row:
        return {"System": row["system"], "Meets all targets": f"no: {row['lacks']}"}
    cost = row["usd_per_mtok"]
    margins = [share for share in row.get("margins", {}).values() if share is not None]
    money = {
        name: quantities.dollars(row[column]) if cost else None
        for name, column in (
            (COLUMNS["usd_per_mtok"].head, "usd_per_mtok"),
            (COLUMNS["usd_per_hour"].head, "usd_per_hour"),
        )
    }
    return {
        "System": row["system"],
        "Meets all targets": f"{_meets(row)}{f'; {pending}' if pending else ''}",
        COLUMNS["devices"].head: row["devices"],
        "Layout": short(row) if "launch" in row else f"{shape(row)}, {row['engine']}",
        COLUMNS["max_num_seqs"].head: row["max_num_seqs"],
        **money,
        "TTFT P99": _seconds(row["ttft_p99_s"]) or pending or None,
        "TPOT P99": _seconds(row["tpot_p99_s"]) or pending or None,
        "Headroom": quantities.percent(min(margins)) if margins and not row["lacks"] else None,
        "Nearest measured run": f"{row['run']} ({row['run_source']})" if row["run"] else "none",
    }


def _meets(row: Row) -> str:
    """Whether a row meets all targets: with what probability, by the prediction alone, or what it
    lacks; or that there are none.
    """
    if row["lacks"]:
        return f"no: {row['lacks']}"
    if row.get("margins") == {}:
        return "no targets"
    alone = row["probability"] is None
    return f"yes, {quantities.NOT_VALIDATED}" if alone else chance(row)


def _seconds(value: float | None) -> str | None:
    return None if value is None else quantities.seconds(value)

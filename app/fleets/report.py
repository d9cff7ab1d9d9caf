"""A fleet's answer as a document, as table rows, and in sentences."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from app.fleets.answer import FULL, FleetAnswer, OneMore, Runs
from app.planning import demand
from app.planning.document import deployment_row, plan_row
from app.planning.plan_text import chance, shape
from app.wording import quantities

#: Figures of a replica that the document copies from its plan.
_FIGURES = (
    "engine", "weights", "kv", "tp", "pp", "dp", "ep", "max_num_seqs", "speculation",
    "ttft_s", "ttft_p95_s", "ttft_p99_s", "tpot_s", "tpot_p95_s", "tpot_p99_s", "e2e_s",
    "e2e_p95_s", "e2e_p99_s", "utilisation", "memory_bytes", "usable_bytes", "not_validated",
    "probability", "probability_validated", "percentiles", "launch", "launch_notes", "notes",
)  # fmt: skip
_NOTES = (
    "each replica serves at most the load that it could serve alone according to `ridgeline plan`; "
    "its figures are at its assigned load",
    "higher priorities are served first; within a priority the sum of served shares is maximised, "
    "then rent and then the number of devices in use are minimised",
)
_UNPROVEN = "the solver ran out of time: another assignment may serve a little more"


def document(found: FleetAnswer) -> dict[str, Any]:
    """The whole question and answer, SI units and US dollars."""
    q, given = found.question, found.assignment
    return {
        "title": q.title,
        "budget_usd_per_hour": q.budget,
        "usd_per_hour": given.usd_per_hour,
        "proven": given.proven,
        "models": [_model(found, at) for at in range(len(q.models))],
        "deployments": [_deployment(found, run) for run in found.runs],
        "machines": [_machine(found, at) for at in range(len(q.machines))],
        "refusals": [
            {"name": q.models[one.model].name, "machine": q.machines[one.machine].name,
             "why": one.why}
            for one in found.refusals
        ],
        "one_more": [_one_more(found, one) for one in found.more],
        "notes": [*_NOTES, *([] if given.proven else [_UNPROVEN])],
    }  # fmt: skip


def _model(found: FleetAnswer, at: int) -> dict[str, Any]:
    named, share = found.question.models[at], found.assignment.share[at]
    mine = [run for run in found.runs if run.model == at]
    return {
        "name": named.name,
        "tenant": named.tenant,
        "priority": named.priority,
        "model": str(named.query.question.model),
        "demand": demand.words(named.query),
        "load": named.load,
        "unit": named.unit,
        "targets": [str(target) for target in named.targets],
        "served": named.load * (1.0 if share >= FULL else share),
        "share": 1.0 if share >= FULL else share,
        "replicas": sum(run.count for run in mine),
        "devices": sum(run.count * run.replica.devices for run in mine),
        "why": found.unserved.get(at, ""),
    }


def _deployment(found: FleetAnswer, run: Runs) -> dict[str, Any]:
    """Equal replicas: where, how many, actual and possible load of each, and their figures."""
    q, short = found.question, run.answer.short
    if short.plans:
        row = plan_row(run.answer, short.plans[0])
    else:  # not simulated, or not at such a small load
        row = {**deployment_row(short.candidates, 0), "probability": None}
    named, machine = q.models[run.model], q.machines[run.machine]
    return {
        "name": named.name,
        "machine": machine.name,
        "system": machine.system.slug,
        "replicas": run.count,
        "devices": run.count * run.replica.devices,
        "devices_each": run.replica.devices,
        "load_each": run.load,
        "most_each": run.most,
        "unit": named.unit,
        **{name: row.get(name) for name in _FIGURES},
    }


def _machine(found: FleetAnswer, at: int) -> dict[str, Any]:
    machine, placed = found.question.machines[at], found.assignment.placed[at]
    filled = [
        [
            {"name": found.question.models[found.choices[choice][0]].name, "devices": devices,
             "replica_devices": found.choices[choice][2].devices}
            for choice, devices in slots
        ]
        for slots in placed
    ]  # fmt: skip
    in_use = sum(devices for slots in placed for _, devices in slots)
    return {
        "name": machine.name,
        "system": machine.system.slug,
        "devices": machine.devices,
        "count": machine.count,
        "owned": machine.owned,
        "in_use": len(placed),
        "devices_in_use": in_use,
        "devices_idle": machine.devices * len(placed) - in_use,
        "usd_per_hour": machine.usd_per_hour * len(placed),
        "filled": filled,
    }


def _one_more(found: FleetAnswer, one: OneMore) -> dict[str, Any]:
    q, before = found.question, found.assignment
    gains = [
        {"name": q.models[model].name, "share": share, "share_before": before.share[model]}
        for model, share in enumerate(one.shares)
        if abs(share - before.share[model]) > 1e-4
    ]
    rent = one.usd_per_hour - before.usd_per_hour
    machine = q.machines[one.machine]
    return {
        "machine": machine.name,
        "usd_per_hour": machine.usd_per_hour,
        "gains": gains,
        "rent_change_usd_per_hour": rent,
        "words": _brings(gains, rent),
    }


def _brings(gains: list[dict[str, Any]], rent: float) -> str:
    said = [
        f"{gain['name']} {quantities.percent(gain['share_before'])} -> "
        f"{quantities.percent(gain['share'])}"
        for gain in gains
    ]
    if not gains and rent > -0.005:
        return "nothing"
    if abs(rent) >= 0.005:
        more = "for" if rent > 0 else "saves"
        said.append(f"{more} {quantities.dollars(abs(rent))} an hour")
    return ", ".join(said)


# ------------------------------------------------------------------------------- rows and words


def shown_rows(named: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What runs where, with the columns for a terminal."""
    return [
        {
            "name": one["name"],
            "machine": one["machine"],
            "replicas": one["replicas"],
            "each": shape({**one, "replicas": 1}),
            "engine": one["engine"],
            "devices": one["devices"],
            "load_each": quantities.digits(one["load_each"]),
            "most_each": quantities.digits(one["most_each"]),
            "unit": one["unit"],
            "ttft_s": one["ttft_s"],
            "ttft_p95_s": one["ttft_p95_s"],
            "tpot_s": one["tpot_s"],
            "probability": chance(one) if one["probability"] is not None else "",
        }
        for one in named["deployments"]
    ]


def model_rows(named: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Served share of every model, and the reason if it is below one."""
    return [
        {
            "name": one["name"],
            **({"tenant": one["tenant"]} if any(m["tenant"] for m in named["models"]) else {}),
            "priority": one["priority"],
            "load": f"{quantities.digits(one['load'])} {one['unit']}",
            "served": quantities.percent(math.floor(one["share"] * 1e3) / 1e3),
            "replicas": one["replicas"],
            "devices": one["devices"],
            "why": one["why"],
        }
        for one in named["models"]
    ]


def machine_rows(named: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Machines in use of each kind, and the effect of one more."""
    brings = {one["machine"]: one["words"] for one in named["one_more"]}
    return [
        {
            "machine": one["name"],
            "system": one["system"],
            "devices": one["devices"],
            "in use": f"{one['in_use']} of {one['count']}",
            "idle in them": one["devices_idle"],
            "rent an hour": "owned" if one["owned"] else quantities.dollars(one["usd_per_hour"]),
            "gain from one more": brings[one["name"]],
        }
        for one in named["machines"]
    ]


def sentences(named: Mapping[str, Any]) -> Iterator[str]:
    """Refusals and notes in sentences."""
    if named["refusals"]:
        yield "does not run:"
    for one in named["refusals"]:
        yield f"  {one['name']} on {one['machine']}: {one['why']}"
    yield from (f"note: {note}" for note in named["notes"])


def headline(named: Mapping[str, Any]) -> str:
    """One sentence: how many models are served in full, on what, at what rent."""
    full = sum(one["share"] == 1.0 for one in named["models"])
    used = sum(one["in_use"] for one in named["machines"])
    rent = named["usd_per_hour"]
    cost = f" for {quantities.dollars(rent)} an hour" if rent else ""
    return (
        f"{named['title']}: {full} of {len(named['models'])} models served in full, on {used} of "
        f"{sum(one['count'] for one in named['machines'])} machines{cost}"
    )

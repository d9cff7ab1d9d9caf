"""Documents shortened for an assistant: figures with intervals and sources, few rows."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

MOST_ROWS, MOST_SENTENCES, MOST_NAMES = 20, 10, 60
#: Columns of little use in a conversation.
_LONG = (
    "weights_bytes", "kv_bytes", "activations_bytes", "reserve_bytes", "operators", "launch_files",
    "launch_servers", "launch_sources", "beyond_measurements", "percentile_notes",
)  # fmt: skip
_TABLES = (
    "phases", "classes", "findings", "notes", "priced", "runs", "differences", "passed", "outcome",
    "level", "verdicts", "not_judged", "events", "alarms", "drift", "sentences",
)  # fmt: skip


def rows(document: Mapping[str, Any]) -> dict[str, Any]:
    """The first rows without empty columns, and the number of rows."""
    found = document["rows"]
    return {"rows": [row(one) for one in found[:MOST_ROWS]], "count": len(found)}


def row(one: Mapping[str, Any]) -> dict[str, Any]:
    """A row without long columns and without empty ones."""
    return {name: v for name, v in one.items() if name not in _LONG and v not in (None, "", [], {})}


def frontier(document: Mapping[str, Any]) -> dict[str, Any]:
    """The rows of a sweep that no other beats in TPOT and tokens per second and device."""
    gain = "output_tokens_per_s_per_device"
    runs = [one for one in document["rows"] if one["status"] == "ok"]
    known = [one for one in runs if one.get("tpot_s") is not None and one.get(gain) is not None]
    best: list[Any] = []
    for one in sorted(known, key=lambda one: (one["tpot_s"], -one[gain])):
        if not best or one[gain] > best[-1][gain]:
            best.append(one)
    shown = rows({"rows": best or document["rows"]})["rows"]
    return {"frontier": shown, "count": len(document["rows"]), "can_run": len(runs)}


def simulated(document: Mapping[str, Any]) -> dict[str, Any]:
    """Medians and 95th and 99th percentiles."""
    return {
        name: value
        for name, value in row(document).items()
        if not name.endswith(("_mean_s", "_p90_s"))
    }


def planned(document: Mapping[str, Any]) -> dict[str, Any]:
    """The plans with their launch lines, why the others lose, and what would have to change."""
    return {
        "plans": [row(plan) for plan in document["plans"][:3]],
        "deployments": document["deployments"],
        "meet_targets": document["meet_targets"],
        "undecided": document["undecided"],
        "others": [f"{o['family']}: {o['why']}" for o in document["others"][:MOST_SENTENCES]],
        "changes": [change["words"] for change in document["changes"]],
        "measurement": (document["measurement"] or {}).get("words"),
        "notes": document["notes"],
        **({"deployment": document["deployment"]} if document.get("deployment") else {}),
    }


def followed(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document without the replicas over time, and with few columns per window."""
    kept = ("start_s", "requests_per_s", "replicas", "good_share", "ttft_p99_s")
    few = [{name: one[name] for name in kept} for one in document["windows"]]
    return row({**{n: v for n, v in document.items() if n != "course"}, "windows": few})


def fleet(document: Mapping[str, Any]) -> dict[str, Any]:
    """Which models are served and where they run, why others are not, and the effect of one more
    machine.
    """
    shown = [{name: value for name, value in one.items() if not name.startswith("launch")}
             for one in document["deployments"][:MOST_ROWS]]  # fmt: skip
    kept = ("usd_per_hour", "models", "refusals", "one_more", "notes")
    return {**{name: document[name] for name in kept}, "deployments": [row(one) for one in shown]}


def compared(document: Mapping[str, Any]) -> dict[str, Any]:
    """Phases, classes, findings and verdicts; operators are left out."""
    kept = {name: document[name] for name in _TABLES if name in document}
    return {n: v[:MOST_ROWS] if isinstance(v, list) else v for n, v in kept.items()}


def counted(document: Mapping[str, Any]) -> dict[str, Any]:
    """The static table: figures of the first operators, of the whole step, and the storage."""
    kept = ("model", "queries", "batch_size", "total", "storage", "notes")
    shown = rows({"rows": document["rows"]})
    return {**{name: document[name] for name in kept}, **shown}


def imported(documents: list[Mapping[str, Any]]) -> dict[str, Any]:
    """The figures of files, with only the first runs of each."""
    return {"files": [row(one) for one in documents[:MOST_ROWS]], "count": len(documents)}


def named(rows: Sequence[Mapping[str, Any]], column: str) -> dict[str, Any]:
    """The first names of a list."""
    found = [one[column] for one in rows]
    return {"names": found[:MOST_NAMES], "count": len(found)}


def files(document: Mapping[str, Any]) -> dict[str, Any]:
    """The names and sizes of files, and what can be read as text; traces are left to REST."""
    kept = [{name: v for name, v in one.items() if name != "base64"} for one in document["files"]]
    return {"files": kept[:MOST_ROWS], "count": len(kept)}


#: The shortening function by verb.
SHORT: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "estimate": rows, "serve": rows, "sweep": frontier, "simulate": simulated, "plan": planned,
    "scale": followed, "availability": row,
    "sensitivity": row, "economics": row, "ops": counted, "routing": rows, "export": files,
    "tune": row, "fleet": fleet,
}  # fmt: skip

"""A search as rows, as a document and as text: what was tried, why, and the outcomes."""

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from app.answers.table import TableFormat, finite, render
from app.planning.targets import FIGURES
from app.tuning.loop import Tuned, usable_runs
from app.tuning.settings_model import noise
from app.tuning.space import Space, words
from app.tuning.study import Record

#: Largest number of reasons shown for settings that cannot run.
_REASONS = 5


def run_rows(found: Tuned) -> list[dict[str, Any]]:
    """One row per run: its setting, expected and measured goal, and why it was run."""
    goal = found.space.goal
    figures = dict.fromkeys((goal.name, *(t.figure.name for t in found.space.targets)))
    best = found.best
    return [
        {
            "run": record.number,
            **dict(record.setting),
            "status": record.outcome.status,
            **{name: record.outcome.figures.get(name, math.nan) for name in figures},
            "meets_targets": record.outcome.meets(found.space.targets),
            "expected": record.proposal.get("predicted", math.nan),
            "expected_low": record.proposal.get("low", math.nan),
            "expected_high": record.proposal.get("high", math.nan),
            "best": best is not None and record.number == best.number,
            "why": record.outcome.why or record.proposal.get("why", ""),
        }
        for record in found.records
    ]


def document(found: Tuned) -> dict[str, Any]:
    """The search as `ridgeline tune --json` prints it."""
    space, proposal, best = found.space, found.choice.proposal, found.best
    following: dict[str, Any] | None = None
    if proposal is not None:
        following = {
            "setting": dict(space.settings[proposal.at]), "predicted": proposal.predicted,
            "low": proposal.low, "high": proposal.high, "improvement": proposal.improvement,
            "feasible": proposal.feasible, "why": proposal.why,
        }  # fmt: skip
    return {
        "goal": space.goal.name,
        "targets": [str(target) for target in space.targets],
        "settings": len(space.settings) + len(space.refused),
        "cannot_run": [
            {"setting": dict(setting), "why": why} for setting, why in space.refused[:100]
        ],
        "runs": [record.document() for record in found.records],
        "best": best.document() if best else None,
        "next": following,
        "reach": finite(found.choice.reach),
        "level": found.level,
        "stop": found.stop,
        "sentences": sentences(found),
    }


def sentences(found: Tuned) -> list[str]:
    """The result of a search in sentences."""
    space, best, goal = found.space, found.best, found.space.goal
    said = []
    targets = ", ".join(map(str, space.targets))
    count = len(space.settings) + len(space.refused)
    tried = len(found.records)
    if best is None:
        within = f" that meets {targets}" if targets else ""
        said.append(f"no run{within} yet, of {tried:,} of {count:,} settings")
    else:
        value = goal.shown(best.outcome.value(goal))
        said.append(
            f"best of {tried:,} runs of {count:,} settings: run {best.number}, "
            f"{words(best.setting)}: {goal.name} {value}"
        )
    scatter = noise(space, [run for _, run in usable_runs(space, found.records)])
    if math.isfinite(scatter):
        said.append(f"repeat runs of one setting have a standard deviation of {scatter:.1%}")
    if found.stop:
        said.append(f"stopped: {found.stop}")
    if found.choice.proposal is not None:
        at = found.choice.proposal.at
        reach = found.choice.reach
        more = f", which may be {reach:.1%} better" if math.isfinite(reach) else ""
        said.append(f"next would be {words(space.settings[at])}{more}")
    said += _refused(space)
    said += [_failure(record) for record in found.records if record.outcome.why]
    return said


def _refused(space: Space) -> list[str]:
    """Why settings were not tried, the most frequent reasons first."""
    reasons = Counter(why for _, why in space.refused)
    first: dict[str, str] = {}
    for setting, why in space.refused:
        first.setdefault(why, words(setting))
    return [
        f"not tried, {count:,} settings such as {first[why]}: {why}"
        for why, count in reasons.most_common(_REASONS)
    ]


def _failure(record: Record) -> str:
    last = f'; its log ends: "{record.outcome.log[-1]}"' if record.outcome.log else ""
    status = record.outcome.status
    return f"run {record.number} ({words(record.setting)}) {status}: {record.outcome.why}{last}"


def markdown(found: Tuned) -> str:
    """The report: the question, the runs with their reasons, and the logs of failures."""
    space = found.space
    lines = [
        f"# Search for the best {FIGURES[space.goal.name].title}", "",
        *(f"- {sentence}" for sentence in sentences(found)), "",
        "## Runs", "", render(shown_rows(found), TableFormat.markdown), "",
        f"`expected` is the prediction of the goal before the run, with its "
        f"{found.level * 100:g} % interval.", "",
    ]  # fmt: skip
    for record in found.records:
        if record.outcome.log:
            lines += [f"### Log of run {record.number}: {words(record.setting)}", "", "```"]
            lines += [*record.outcome.log, "```", ""]
    return "\n".join(lines)


def shown_rows(found: Tuned) -> list[Mapping[str, Any]]:
    """Rows with formatted figures."""
    shown: list[Mapping[str, Any]] = []
    for row in run_rows(found):
        texts = {
            name: FIGURES[name].shown(value) if name in FIGURES else value
            for name, value in row.items()
            if not name.startswith("expected")
        }
        goal = found.space.goal
        ends = [goal.shown(float(row[f"expected{end}"])) for end in ("", "_low", "_high")]
        texts["expected"] = f"{ends[0]} ({ends[1]} to {ends[2]})"
        shown.append(texts)
    return shown

"""The result of `ridgeline.plan`: the plans as a table, the document, and a short repr."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from app.planning import answer as answers
from app.planning.answer import Answer
from app.planning.document import document
from app.planning.manifests.bundle import Bundle, bundle
from app.planning.plan_text import chance, none_words
from app.question.query import Query
from app.scenario.results import DocumentTable, first_rows
from app.simulation.executor import HERE, Where
from genz_core.common.progress import Cancel, Progress, never, silent

#: Columns of a plan that fit on one line.
BRIEF = (
    "system", "probability", "kind", "engine", "weights", "devices", "replicas", "tp", "pp", "dp",
    "ep", "max_num_seqs", "prefill", "ttft_s", "ttft_p95_s", "tpot_s", "usd_per_hour",
    "usd_per_mtok",
)  # fmt: skip


@dataclass(frozen=True, repr=False, eq=False)
class Planned(DocumentTable):
    """The planner's answer.

    rows: the plans, best first.  best: the first, None where none meets the targets.  Other entries
    of `to_dict` are attributes, too.  gamble: a plan with a better figure whose targets are less
    likely to be met.  safe: the best plan that meets its targets nine times of ten, if the best
    plan is not one.  settling: the user's own run that would settle a close call between both.
    others: the nearest candidate of each other family, and why it loses.  changes: those that would
    allow a plan where there is none.  measurement: the one that would narrow the best plan's
    interval most.

    answer: the engine's own, with every candidate as arrays.
    """

    answer: Answer

    @property
    def rows(self) -> list[dict[str, Any]]:
        return list(self._document["plans"])

    @property
    def best(self) -> dict[str, Any] | None:
        """The best plan."""
        return next(iter(self.rows), None)

    def deployment(self, kind: str, at: int | None = None) -> Bundle:
        """The files that deploy a plan; by default the best one that this kind supports.

        kind: "kubernetes", "helm", "dynamo" or "llm-d".

        Raises:
            InvalidValue: an unknown kind, no plan, or no plan that the kind supports.
        """
        return bundle(self._document, kind, at)

    @cached_property
    def _document(self) -> dict[str, Any]:
        return document(self.answer)

    def __repr__(self) -> str:
        named = self._document
        if not named["plans"]:
            said = "; ".join(change["words"] for change in named["changes"])
            return f"{none_words(named)}{f'; one would with {said}' if said else ''}"
        return first_rows([brief(plan) for plan in named["plans"]], len(named["plans"]))


def brief(plan: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a plan that fit on one line, its prefill pool in words."""
    row = {name: plan[name] for name in BRIEF}
    pool = plan["prefill"]
    row["prefill"] = f"{pool['workers']} x tp{pool['tp']} {pool['system']}" if pool else ""
    row["probability"] = chance(plan)
    return row


def plan(
    query: Query,
    progress: Progress = silent,
    cancelled: Cancel = never,
    where: Where = HERE,
    folder: Path | None = None,
) -> Planned:
    """The best deployments that serve the load of a question within its targets.

    asked: `ask("plan", ...)`.  A choice that is not given means every possible value: all degrees
    that split the model, all engines that run on a system; formats are the checkpoint's.
    where: the deployments are priced.  folder: where priced families are kept, to resume from.

    Raises:
        RidgelineError: an unknown name, or a space with nothing that could be priced.
        Cancelled: `cancelled` returned True.
    """
    return Planned(answers.answer(query, progress, cancelled, where=where, folder=folder))

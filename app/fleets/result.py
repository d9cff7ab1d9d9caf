"""The result of `ridgeline.fleet`: a table of what runs where, the document, and a short repr."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from app.fleets import answer as answers
from app.fleets import report
from app.fleets.answer import FleetAnswer
from app.fleets.fleet_question import fleet_question
from app.question.query import Sources
from app.scenario.results import DocumentTable, first_rows
from genz_core.common.progress import Cancel, Progress, never, silent


@dataclass(frozen=True, repr=False, eq=False)
class Fleet(DocumentTable):
    """A solved fleet question.

    rows: what runs where.  models: served share of each, and the reason if below one.  machines:
    contents of each kind.  refusals: why a model does not run on machines of a kind.  one_more:
    effect of one more machine of each kind.  All entries of `to_dict` are attributes.

    answer: the replicas and figures behind it.
    """

    answer: FleetAnswer

    @property
    def rows(self) -> list[dict[str, Any]]:
        return list(self._document["deployments"])

    @cached_property
    def _document(self) -> dict[str, Any]:
        return report.document(self.answer)

    def __repr__(self) -> str:
        shown = report.shown_rows(self._document)
        return f"{report.headline(self._document)}\n{first_rows(shown, len(shown))}"


def fleet(
    given: Mapping[str, Any],
    sources: Sources = dict,
    progress: Progress = silent,
    cancelled: Cancel = never,
) -> Fleet:
    """Assign the models of a fleet to its machines.

    given: the mapping in a fleet's file, see `app.fleets.fleet_question`.
    sources: resolves texts that name models and systems; by default they open no file.

    Raises:
        RidgelineError: as `fleet_question`.
        Cancelled: `cancelled` returned True.
    """
    return Fleet(answers.answer(fleet_question(given, sources), progress, cancelled))

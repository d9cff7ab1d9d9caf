"""Autoscaling and availability as background jobs of a page: documents and chart data."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from app.question.query import Query
from app.scaling.availability import availability
from app.scaling.scale import scale, shown_figures
from app.scenario.scenario import Resolved
from app.scenario.setup import Setup, resolve_setup
from genz_core.common.progress import Cancel, Progress

Work = tuple[Setup, Query, Mapping[str, Any]]


def follow(work: Work, progress: Progress, cancelled: Cancel) -> tuple[Setup, dict[str, Any]]:
    """The document of `scale`, with its figures as rows, and the setup that it belongs to.

    work: the setup of a page, the question for it, and the extras.

    Raises:
        RidgelineError: as `scale`.
    """
    setup, query, extras = work
    found = scale(query, progress, cancelled, deployment=_deployment(work), **extras)
    return setup, {**found.to_dict(), "rows": shown_figures(found)}


def enough(work: Work, progress: Progress, cancelled: Cancel) -> tuple[Setup, dict[str, Any]]:
    """The document of `availability`; arguments and errors as `follow`."""
    setup, query, extras = work
    found = availability(query, progress, cancelled, deployment=_deployment(work), **extras)
    return setup, found.to_dict()


def _deployment(work: Work) -> Resolved:
    """The resolved setup, with the question of the work."""
    setup, query, _ = work
    return resolve_setup(replace(setup, scenario=query.question))

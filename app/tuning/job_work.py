"""A simulated search as a background job of a page."""

from collections.abc import Mapping
from typing import Any

from app.question.extras import extras_of, read_extras
from app.question.query import ask
from app.tuning import report
from app.tuning.answer import answer
from genz_core.common.progress import Cancel, Progress


def dry_run(given: Mapping[str, Any], progress: Progress, cancelled: Cancel) -> dict[str, Any]:
    """The document of a search that uses the simulator.

    given: values by name, of the question and of the search.

    Raises:
        RidgelineError: as `answer`.
    """
    extras, question = read_extras(extras_of("tune"), given)
    asked = ask("tune", question)
    found = answer(asked, **{**extras, "dry_run": True}, progress=progress, cancelled=cancelled)
    return {**report.document(found), "rows": report.run_rows(found)}

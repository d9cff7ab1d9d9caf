"""A fleet question as a background job of a page."""

from typing import Any

from app.fleets.result import fleet
from genz_core.common.progress import Cancel, Progress
from hardware_db import yaml_document


def assigned(text: str, progress: Progress, cancelled: Cancel) -> dict[str, Any]:
    """The document of a fleet from the text of its file.

    Raises:
        RidgelineError: as `fleet`, or text that is not a YAML mapping.
    """
    given = yaml_document.parse(text, "fleet")
    return fleet(given, progress=progress, cancelled=cancelled).to_dict()

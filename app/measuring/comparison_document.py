"""A comparison of reports with their prediction, as `ridgeline compare --json` prints it."""

from dataclasses import asdict
from typing import Any

from app.measuring.comparison import Compared
from app.measuring.time_report import of_profile


def document(compared: Compared) -> dict[str, Any]:
    """Phases, classes and operators as rows, findings, notes, and what was priced."""
    comparison = compared.comparison
    tables = {name: getattr(comparison, name) for name in ("phases", "classes", "operators")}
    findings = [
        {"kind": f.kind, "phase": f.phase, "seconds": f.seconds, "sentence": f.sentence,
         "operator": f.operator, "kernels": f.kernels}
        for f in comparison.findings
    ]  # fmt: skip
    return {
        "truncated": list(comparison.truncated),
        "checks": [check.document() for check in comparison.checks],
        **{name: table.to_dict("records") for name, table in tables.items()},
        "findings": findings,
        "report": [one.document() for one in of_profile(compared)],
        "notes": list(comparison.notes),
        "joined_share": comparison.joined_share,
        "identity": [one.document() for one in compared.identity],
        **_filled_document(compared),
    }


def _filled_document(compared: Compared) -> dict[str, Any]:
    """What was priced, which fields came from the reports, and contradictions."""
    resolved, filled = compared.resolved, compared.filled
    return {
        "priced": {
            "model": resolved.model.name,
            "system": resolved.system.slug,
            "engine": resolved.engine.name,
            **{name: getattr(resolved.scenario, name) for name in ("tp", "batch", "isl", "osl")},
        },
        "filled": list(map(asdict, filled.fillings)),
        "differences": list(map(asdict, filled.differences)),
    }

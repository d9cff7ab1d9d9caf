"""Artifacts of a run in a folder: reports to read, figures for programs, its inputs.

report.md, operators.md, kernels.md, stakeholder_summary.md, assumptions.md   to read
metrics.json, static_compute.json, env.json, inputs.yaml                      for programs
kernels.parquet                                                               every launch
cmd.txt                                                                       commands that ran
"""

from __future__ import annotations

import importlib.metadata
import json
import math
import platform
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from genz_core.common.cells import markdown_table
from genz_core.common.quantities import percent, seconds
from genz_core.common.short_repr import shortened
from genz_core.errors import MeasurementError
from profilers.runs import stakeholder_summary
from profilers.runs.run_bundle import Material
from profilers.schema import Measurement

#: Packages whose versions env.json states; nothing else of the host is written.
_PACKAGES = ("ridgeline", "torch", "transformers", "numpy", "nvtx", "nvidia-ml-py")
_TOP = 40


def write_artifacts(folder: Path, material: Material) -> list[Path]:
    """Write every artifact that the bundle has data for; returns their paths.

    Raises:
        MeasurementError: the folder cannot be written or the disk is full.
    """
    texts = {
        "report.md": report_text(material),
        "operators.md": operators_text(material.measurement),
        "stakeholder_summary.md": stakeholder_summary.summary_text(material),
        "assumptions.md": assumptions_text(material),
        "metrics.json": _json(metrics_document(material)),
        "static_compute.json": _json(static_document(material.static)),
        "env.json": _json(environment_document(material.measurement)),
        "inputs.yaml": yaml.safe_dump(_plain(material.inputs), sort_keys=False),
    }
    if material.kernels is not None:
        texts["kernels.md"] = kernels_text(material.kernels)
    if material.commands:
        texts["cmd.txt"] = "\n".join(map(shlex.join, material.commands)) + "\n"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in texts.items():
            (folder / name).write_text(content, encoding="utf-8")
        if material.kernels is not None:
            material.kernels.to_parquet(folder / "kernels.parquet", index=False)
            texts["kernels.parquet"] = ""
    except OSError as error:
        reason = error.strerror or error
        raise MeasurementError(f"{folder} cannot be written: {reason}") from None
    return [folder / name for name in texts]


# ------------------------------------------------------------------------------- to read


def report_text(material: Material) -> str:
    """report.md: phases or steps, gaps by operator class, findings, notes."""
    m = material.measurement
    parts = [f"# {m.model or 'Run'} on {stakeholder_summary.device_name(m)}"]
    parts += [_table(rows) for rows in (_phase_rows(material), _step_rows(material)) if rows]
    parts += _prompt_parts(material)
    if not m.phases:  # a stage that no range names
        parts += _stage_parts(material)
    if material.comparison is not None:
        columns = [
            "phase", "class", "bound_s", "predicted_s", "low_s", "high_s", "measured_s", "inside",
            "ratio", "gap_share",
        ]  # fmt: skip
        rows = material.comparison.classes[columns].to_dict("records")
        parts += ["## By operator class", _table(rows)]
        sentences = [f"- {finding.sentence}" for finding in material.comparison.findings]
        parts += ["## Findings", "\n".join(sentences) or "Nothing stands out."]
    if m.notes:
        parts += ["## Notes", "\n".join(f"- {note}" for note in m.notes)]
    return "\n\n".join(parts) + "\n"


def _prompt_parts(material: Material) -> list[str]:
    """The prompts of a run, each with its TTFT and TPOT beside the prediction."""
    rows = [
        {
            **{name: row[name] for name in ("id", "isl", "osl", "status")},
            "TTFT": seconds(row["ttft_s"]),
            "predicted TTFT": seconds(row["ttft_predicted_s"]),
            "TPOT": seconds(row["tpot_s"]),
            "predicted TPOT": seconds(row["tpot_predicted_s"]),
        }
        for row in material.prompts[:_TOP]
    ]
    if not rows:
        return []
    more = len(material.prompts) - len(rows)
    return ["## Prompts", _table(rows), *([f"And {more} more in metrics.json."] if more else [])]


def _stage_parts(material: Material) -> list[str]:
    """Sections on kernels, or else operators, of a run without phases; empty for a sweep, which
    lists its steps.
    """
    if material.kernels is not None and len(material.kernels):
        time_s = float(material.kernels["duration_s"].sum())
        launches = int(material.kernels["count"].sum())
        sentence = f"No phase is named: {launches:,} launches take {seconds(time_s)} in all."
        return [sentence, "## Kernels", kernel_table_text(material.kernels)]
    operators = material.measurement.operators
    if not len(operators):
        return []
    rows = [
        {
            "operator": shortened(str(row["name"])),
            "class": row["kind"],
            "runs": int(row["count"]),
            "time": seconds(float(row["time_s"])),
        }
        for row in operators.nlargest(_TOP, "time_s").to_dict("records")
    ]
    whole = seconds(float(operators["time_s"].sum()))
    return [f"No phase is named: kernels take {whole} in all.", "## Kernels", _table(rows)]


def operators_text(measurement: Measurement) -> str:
    """operators.md: operators by phase, the longest first."""
    table = measurement.operators
    parts = ["# Operators"]
    phases = table["phase"].fillna("no phase")
    for phase in phases.unique():
        rows = table[phases == phase].nlargest(_TOP, "time_s")
        total = float(table["time_s"][phases == phase].sum())
        shown = [
            {
                "operator": shortened(str(row["name"])),
                "class": row["kind"],
                "runs": int(row["count"]),
                "time": seconds(float(row["time_s"])),
                "mean": seconds(float(row["time_s"]) / max(int(row["count"]), 1)),
                "share": percent(float(row["time_s"]) / total) if total else "",
            }
            for row in rows.to_dict("records")
        ]
        parts += [f"## {str(phase).capitalize()}", _table(shown)]
    if len(parts) == 1:
        parts.append("No operator was profiled.")
    return "\n\n".join(parts) + "\n"


def kernels_text(table: pd.DataFrame) -> str:
    """kernels.md: kernels by name, the longest first."""
    shown = kernel_table_text(table) or "No kernel was seen."
    return "\n\n".join(["# Kernels", shown]) + "\n"


def kernel_table_text(table: pd.DataFrame) -> str:
    """A Markdown table of kernels by name, "" for none."""
    grouped = table.groupby("name", observed=True).agg(
        launches=("count", "sum"), time_s=("duration_s", "sum")
    )
    total = float(grouped["time_s"].sum())
    rows = [
        {
            "kernel": shortened(str(name), 120),
            "launches": int(row["launches"]),
            "time": seconds(float(row["time_s"])),
            "share": percent(float(row["time_s"]) / total) if total else "",
        }
        for name, row in grouped.nlargest(_TOP, "time_s").iterrows()
    ]
    return _table(rows)


def assumptions_text(material: Material) -> str:
    """assumptions.md: a list of sentences."""
    lines = [f"- {sentence}" for sentence in material.assumptions]
    return "# Assumptions\n\n" + ("\n".join(lines) or "None.") + "\n"


def _phase_rows(material: Material) -> list[dict[str, Any]]:
    """One row per phase with its statistics and, if there is one, its prediction."""
    rows = []
    compared = {}
    if material.comparison is not None:
        compared = {row["phase"]: row for row in material.comparison.phases.to_dict("records")}
    for name, timing in material.measurement.phases.items():
        row = {
            "phase": name,
            "clock": timing.basis,
            "samples": len(timing.samples_s),
            "median": seconds(timing.median_s),
            "mean": seconds(timing.mean_s),
            "std": seconds(timing.std_s),
            "p90": seconds(timing.percentile_s(90)),
        }
        if name in compared:
            row |= {
                "bound": seconds(compared[name]["bound_s"]),
                "predicted": seconds(compared[name]["predicted_s"]),
                "80 %": _interval(compared[name]),
            }
        rows.append(row)
    return rows


def _step_rows(material: Material) -> list[dict[str, Any]]:
    """One row per step of a sweep, measured and predicted."""
    return [
        {
            **{name: row[name] for name in ("phase", "batch", "length", "status")},
            "median": seconds(row["measured_s"]),
            "spread": percent(row["spread"]),
            "bound": seconds(row["bound_s"]),
            "predicted": seconds(row["predicted_s"]),
            "80 %": _interval(row),
        }
        for row in material.steps
    ]


def _interval(row: Mapping[str, Any]) -> str:
    if math.isnan(row["low_s"]):
        return "not validated"
    return f"{seconds(row['low_s'])} to {seconds(row['high_s'])}"


# ------------------------------------------------------------------------------- for programs


def metrics_document(material: Material) -> dict[str, Any]:
    """metrics.json: statistics by phase, further metrics, steps, and the comparison."""
    phases = {
        name: {
            "basis": timing.basis,
            "samples": len(timing.samples_s),
            "mean_s": timing.mean_s,
            "std_s": timing.std_s,
            **{f"p{p}_s": timing.percentile_s(p) for p in (50, 90, 99)},
        }
        for name, timing in material.measurement.phases.items()
    }
    figures: dict[str, Any] = {"phases": phases, **material.metrics}
    if material.steps:
        figures["steps"] = list(material.steps)
    if material.prompts:
        figures["prompts"] = list(material.prompts)
    if material.comparison is not None:
        figures["comparison"] = {
            name: getattr(material.comparison, name).to_dict("records")
            for name in ("phases", "classes", "operators")
        }
    return figures


def static_document(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """static_compute.json: operators, and FLOPs and bytes of each phase."""
    totals: dict[str, dict[str, float]] = {}
    for row in rows:
        runs = float(row.get("runs", 1.0))
        entry = totals.setdefault(str(row.get("phase", "all")), {"flops": 0.0, "bytes": 0.0})
        for key in entry:
            entry[key] += float(row.get(key, 0.0)) * runs
    return {"totals": totals, "operators": [dict(row) for row in rows]}


def environment_document(measurement: Measurement) -> dict[str, Any]:
    """env.json: versions and the device; no names of hosts or users, no variables, no paths."""
    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    device = measurement.system
    return {
        "python": platform.python_version(),
        "system": platform.system(),
        "machine": platform.machine(),
        "packages": versions,
        "device": device.name if device else None,
        "facts": {key: value for key, value in measurement.facts.items() if _is_fact(value)},
    }


def _is_fact(value: Any) -> bool:
    """Whether a fact is a number or a text that is not a path."""
    return isinstance(value, (int, float)) or (isinstance(value, str) and "/" not in value)


# ------------------------------------------------------------------------------- text


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    """A Markdown table of rows; names of kernels are untrusted and stay text."""
    if not rows:
        return ""
    header = list(rows[0])
    return markdown_table(header, [[_cell(row.get(name)) for name in header] for row in rows])


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}" if math.isfinite(value) else ""
    text = "" if value is None else str(value)
    for mark, escaped in (("\\", "\\\\"), ("<", "&lt;"), (">", "&gt;"), ("`", "'")):
        text = text.replace(mark, escaped)
    return text


def _json(value: Any) -> str:
    return json.dumps(_plain(value), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    """A value as JSON and YAML hold it; NaN and infinity become null."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, (np.generic, np.ndarray)):
        return _plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, (str, int, bool, type(None))) else str(value)

"""Measured endpoints among the kept runs: their result file, and figures for the list."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from app.answers.table import TableFormat, render
from app.measuring import result_table
from app.measuring.run_store import store
from genz_core import Workload
from profilers import DeviceInfo, Measurement, PhaseTiming
from profilers.collect.serving.endpoint import EndpointRun
from profilers.schema import OPERATOR_COLUMNS, table
from profilers.serving_results import ServingMeasurement, read_results

#: `Measurement.source` of such a run, and the key of its result file among its facts.
SOURCE, FILE = "serving", "result_file"
_MOST_SAMPLES = 10_000


def keep(run: EndpointRun, folder: Path, label: str = "", tags: Sequence[str] = ()) -> str:
    """Keep a measured endpoint with all files of its folder; returns its id.

    Raises:
        MeasurementError: nothing can be kept.
    """
    runs = store()
    facts = {"client": run.client, FILE: run.file.relative_to(folder).as_posix()}
    measurement = listed(run.measurement, facts)
    with runs.draft(measurement, label) as draft:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.name.startswith("."):
                target = draft / path.relative_to(folder)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(path.read_bytes())
        (draft / "report.md").write_text(_report(run), encoding="utf-8")
        identity = runs.identity(draft)
    runs.tag(identity, *tags)
    return identity


def results_of(folder: Path, measurement: Measurement) -> list[ServingMeasurement]:
    """The results in the folder of a kept run; none where the run is not a measured endpoint.

    Raises:
        ReportError: the result file is damaged.
    """
    name = measurement.facts.get(FILE)
    if measurement.source != SOURCE or not isinstance(name, str):
        return []
    file = (folder / name).resolve()
    return read_results(file) if file.is_relative_to(folder.resolve()) else []


def listed(found: ServingMeasurement, facts: Mapping[str, Any]) -> Measurement:
    """A result as listed in the store: TTFT and TPOT, and its load.

    facts: in addition to those of its server and load.
    """
    subject, load, lengths = found.subject, found.load, found.lengths
    isl, osl = lengths.isl.typical or lengths.isl_asked, lengths.osl.typical or lengths.osl_asked
    workload = None
    if isl and osl:
        batch = max(round(load.concurrency or load.concurrency_mean or 1), 1)
        workload = Workload(batch, max(round(isl), 1), max(round(osl), 1))
    sent = {name: getattr(load, name) for name in ("concurrency", "rate", "requests")}
    known = {name: value for name, value in sent.items() if value is not None}
    return Measurement(
        source=SOURCE,
        operators=table(OPERATOR_COLUMNS, {}),
        phases={n: t for n in ("ttft", "tpot") if (t := _timing(found, n)).samples_s},
        system=DeviceInfo(name=subject.device) if subject.device else None,
        model=subject.model,
        engine=subject.engine,
        workload=workload,
        facts={**facts, **found.server, **known},
        notes=found.notes,
    )


def _timing(found: ServingMeasurement, name: str) -> PhaseTiming:
    """Samples of a latency: of every listed request, otherwise its median or mean."""
    rows: pd.DataFrame | None = found.requests
    if rows is not None:
        samples = rows.loc[rows["ok"], f"{name}_s"].dropna().to_numpy()[:_MOST_SAMPLES]
        if len(samples):
            return PhaseTiming(name, tuple(map(float, samples)))
    spread = found.decode_tpot_s if name == "tpot" else found.ttft_s
    typical = spread.p50 if spread.p50 is not None else spread.mean
    return PhaseTiming(name, () if typical is None else (typical,))


def _report(run: EndpointRun) -> str:
    """The run as Markdown: its table, and the server's metrics."""
    found = [run.measurement]
    lines = [f"# {result_table.heading(found)}", "", f"client: {run.client}", ""]
    lines += [render(result_table.short_rows(found), TableFormat.markdown), ""]
    lines += [f"- {note}" for note in result_table.notes(found)]
    if run.server is not None:
        rows = [{"figure": k, "value": v} for k, v in sorted(run.server.server.items())]
        lines += ["", "## The server's own figures", ""]
        lines += [render(rows, TableFormat.markdown)]
    return "\n".join(lines) + "\n"

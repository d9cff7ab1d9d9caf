"""Tables of results as CSV: records of serving benchmarks, and Ridgeline's own columns.

vLLM's sweep writes one row per run, with the names of its records (vllm-project/vllm,
vllm/benchmarks/sweep/serve.py at 0031557, `summary.csv`); people keep such tables by hand too.
Ridgeline's own columns are those of `measurement.table`; unknown ones may be left out.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from genz_core.errors import ReportError
from profilers.readers.csv_tables import without_cut_row
from profilers.serving_results import bench_record, fields, vllm_serve
from profilers.serving_results.documents import Content
from profilers.serving_results.fields import Document
from profilers.serving_results.measurement import (
    Lengths,
    MeasuredLoad,
    Percentiles,
    ServingMeasurement,
    Subject,
    Throughput,
)
from profilers.serving_results.spreads import spread

RECORDS, OWN = "vllm bench serve table", "ridgeline table"
_STATISTIC = re.compile(r"(ttft|tpot|itl|e2e)_(mean|std|median|p\d{1,2}(?:\.\d+)?)(_ms|_s|_us)?")
_UNITS = {"_ms": 1e-3, "_us": 1e-6, "_s": 1.0, None: 1.0}
_MOST_ROWS = 100_000
_SEPARATORS = (",", ";", "\t")


def knows_text(head: str) -> bool:
    """Whether a text is a table with latencies or rates of serving."""
    return _kind(_header(head)) is not None


def read_text(content: Content) -> list[ServingMeasurement]:
    """One measurement per row that has figures.

    Raises:
        ReportError: see `Content.text`, or the table is not a CSV.
    """
    header = _header(content.head)
    kind = _kind(header)
    read = _of_record if kind == RECORDS else _of_own
    return [read(row) for row in _rows(content.text)]


def _header(text: str) -> list[str]:
    line = text.lstrip("\ufeff").partition("\n")[0].strip()
    return _split(line, _separator(line))


def _separator(line: str) -> str:
    return max(_SEPARATORS, key=line.count)


def _split(line: str, separator: str) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader([line], delimiter=separator), [])]
    except csv.Error:
        return []


def _kind(header: list[str]) -> str | None:
    names = set(header)
    if any(bench_record.is_statistic(name) for name in names):
        rates = {"duration", "completed", "request_throughput", "output_throughput"}
        return RECORDS if names & rates else None
    known = any(_STATISTIC.fullmatch(name) for name in names)
    return OWN if known or names & {"output_tokens_per_s", "requests_per_s"} else None


def _rows(text: str) -> Iterator[dict[str, str]]:
    stream = io.StringIO(without_cut_row(text).lstrip("\ufeff"), newline="")
    separator = _separator(text.lstrip("\ufeff").partition("\n")[0])
    try:
        for number, row in enumerate(csv.DictReader(stream, delimiter=separator)):
            if number >= _MOST_ROWS:
                raise ReportError(f"the table has more than {_MOST_ROWS:,} rows")
            yield {str(name).strip(): cell for name, cell in row.items() if isinstance(cell, str)}
    except csv.Error as error:
        raise ReportError(f"the table is damaged ({error})") from None


def _of_record(row: dict[str, str]) -> ServingMeasurement:
    found = vllm_serve.measurement(row, RECORDS)
    lengths = replace(
        found.lengths,
        isl_asked=fields.positive(fields.first(row, ("isl", "input_len", "random_input_len"))),
        osl_asked=fields.positive(fields.first(row, ("osl", "output_len", "random_output_len"))),
    )
    load = found.load
    if load.concurrency is None:
        load = replace(load, concurrency=fields.positive(fields.first(row, ("conc",))))
    pools = [f"{name} {row[name]}" for name in ("prefill", "decode") if fields.count(row.get(name))]
    label = found.subject.label or fields.text(" x ".join(pools)) or fields.text(row.get("run"))
    notes = found.notes
    if pools:
        notes = (*notes, f"separate workers: {', '.join(pools)}")
    subject = replace(found.subject, label=label)
    return replace(found, lengths=lengths, load=load, subject=subject, notes=notes)


# ------------------------------------------------------------------------------- our own columns


def _of_own(row: Document) -> ServingMeasurement:
    phase = row.get("phase")
    return ServingMeasurement(
        format=OWN,
        subject=_subject(row),
        load=_load(row),
        lengths=_lengths(row),
        throughput=Throughput(
            *(
                fields.figure(row.get(f"{name}_per_s"))
                for name in ("requests", "input_tokens", "output_tokens", "total_tokens")
            )
        ),
        phase=phase if phase in ("prefill", "decode") else "",
    ).with_latencies(_latencies(row))


def _subject(row: Document) -> Subject:
    degrees = fields.degrees(row, {name: (name,) for name in ("tp", "pp", "dp", "ep")})
    for name, size in re.findall(r"(tp|pp|dp|ep) (\d{1,4})", str(row.get("degrees") or "")):
        degrees.setdefault(name, int(size))
    texts: dict[str, Any] = {
        name: fields.text(row.get(name))
        for name in (
            "tool_version", "engine", "engine_version", "model", "device", "precision",
            "kv_precision", "date", "label",
        )
    }  # fmt: skip
    return Subject(
        tool=fields.text(row.get("tool")) or "table",
        devices=fields.count(row.get("devices")),
        degrees=degrees,
        **texts,
    )


def _load(row: Document) -> MeasuredLoad:
    rate = fields.number_or_infinity(row.get("rate"))
    return MeasuredLoad(
        concurrency=fields.figure(row.get("concurrency")),
        concurrency_mean=fields.figure(row.get("concurrency_mean")),
        rate=rate if rate and rate > 0 else None,
        rate_achieved=fields.positive(row.get("rate_achieved")),
        burstiness=fields.number_or_infinity(row.get("burstiness")),
        requests=fields.count(row.get("requests")),
        completed=fields.count(row.get("completed")),
        errors=fields.count(row.get("errors")),
        duration_s=fields.figure(row.get("duration_s")),
    )


def _lengths(row: Document) -> Lengths:
    isl, osl = (fields.figure(row.get(name)) or None for name in ("isl", "osl"))
    return Lengths(
        Percentiles(isl),
        Percentiles(osl),
        length_ratio=fields.positive(row.get("length_ratio")),
        context=fields.number(row.get("context")),
    )


def _latencies(row: Document) -> dict[str, Percentiles]:
    found: dict[str, dict[str, float]] = {}
    for name, raw in row.items():
        match = _STATISTIC.fullmatch(str(name))
        value = fields.figure(raw) if match else None
        if match and value is not None:
            found.setdefault(f"{match[1]}_s", {})[match[2]] = value * _UNITS[match[3]]
    return {name: spread(entry) for name, entry in found.items()}

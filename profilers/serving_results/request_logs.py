"""Logs of a server or a client with one row per request: its arrival, its first and its last token.

Three forms: JSON lines with `input_toks` and `first_token_ts` (LLMServingSim's bench of vLLM),
tables with `first_chunk_time_us` (BLIS's trace, version 2), and the spans `llm_request` of vLLM's
and SGLang's OpenTelemetry export (OTLP as JSON, one batch per line).  Times of one row are on one
clock; a column on another clock (LLMServingSim's `arrival_time`) only gives the arrivals.  Queueing
time counts in TTFT. Source of the fields: the projects' documentation of these forms, and
OpenTelemetry's semantic conventions for generative AI (attributes `gen_ai.*`).
"""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from genz_core.errors import ReportError
from profilers.readers.csv_tables import without_cut_row
from profilers.serving_results import fields
from profilers.serving_results.documents import Content
from profilers.serving_results.fields import Document
from profilers.serving_results.measurement import ServingMeasurement
from profilers.serving_results.request_rows import Request, RequestRows

LINES, TABLE, SPANS = "request log", "request log (BLIS trace)", "request log (OpenTelemetry)"
_DEFINITIONS = {
    "ttft_s": "from the arrival at the server, or the sending by the client, to the first token",
    "tpot_s": "(last token - first token) / (OSL - 1)",
}
_LINE_KEYS = {"input_toks", "output_toks", "first_token_ts"}
_TABLE_KEYS = {"input_tokens", "output_tokens", "send_time_us", "first_chunk_time_us"}
_SPAN, _LATENCY, _USAGE = "llm_request", "gen_ai.latency.", "gen_ai.usage."
_MODELS = ("gen_ai.response.model", "gen_ai.request.model")


def knows_line(document: Any) -> bool:
    """Whether the first document is a request of a log in JSON lines."""
    return isinstance(document, dict) and document.keys() >= _LINE_KEYS


def knows_spans(document: Any) -> bool:
    """Whether the first document is a batch of spans that includes a request's span."""
    return isinstance(document, dict) and any(True for _ in _requests_of(document))


def knows_text(head: str) -> bool:
    """Whether a text is a table of requests with the times of their pieces."""
    return set(_header(head)) >= _TABLE_KEYS


def read_lines(content: Content) -> list[ServingMeasurement]:
    """The run of a log in JSON lines; errors as `Content.documents`."""
    found = _Log()
    for row in content.documents():
        if isinstance(row, dict):
            found.add(_of_line(row))
    return [found.run(LINES)]


def read_spans(content: Content) -> list[ServingMeasurement]:
    """The run of an OpenTelemetry export; errors as `Content.documents`."""
    found = _Log()
    for batch in content.documents():
        for span in _requests_of(batch):
            told = _attributes(span)
            model = next((told[name] for name in _MODELS if told.get(name)), None)
            found.add(_of_span(span, told), model)
    return [found.run(SPANS)]


def read_text(content: Content) -> list[ServingMeasurement]:
    """The run of a table.

    Raises:
        ReportError: see `Content.text`, or the table is not a CSV.
    """
    found = _Log()
    text = without_cut_row(content.text).lstrip("\ufeff")
    try:
        for row in csv.DictReader(text.splitlines()):
            found.add(_of_row(row), row.get("model"))
    except csv.Error as error:
        raise ReportError(f"the table is damaged ({error})") from None
    return [found.run(TABLE)]


class _Log:
    """Requests collected so far, with the models that they name."""

    def __init__(self) -> None:
        self._rows = RequestRows()
        self._models: Counter[str] = Counter()
        self._arrivals = [math.inf, -math.inf]

    def add(self, request: Request, model: Any = None) -> None:
        self._rows.add(request)
        if name := fields.text(model):
            self._models[name] += 1
        if request.start_s is not None:
            first, last = self._arrivals
            self._arrivals = [min(first, request.start_s), max(last, request.start_s)]

    def run(self, form: str) -> ServingMeasurement:
        """The run; its rate is that of the arrivals, its model the one that most requests name."""
        notes = []
        if len(self._models) > 1:
            notes.append(f"requests of {len(self._models)} models: {', '.join(self._models)[:200]}")
        found = self._rows.run(form, form, _DEFINITIONS, *notes)
        first, last = self._arrivals
        rate = (self._rows.count - 1) / (last - first) if last > first else None
        model = self._models.most_common(1)[0][0] if self._models else None
        return replace(
            found,
            subject=replace(found.subject, model=model),
            load=replace(found.load, rate_achieved=rate),
        )


def _timed(
    start: float | None, zero: float | None, first: float | None, last: float | None,
    isl: float | None, osl: float | None, ok: bool = True,
) -> Request:  # fmt: skip
    """A request that arrived at `start`; its other times [s] are on the clock of `zero`."""
    ttft = None if zero is None or first is None or first < zero else first - zero
    e2e = None if zero is None or last is None or last < zero else last - zero
    gap = None
    if first is not None and last is not None and osl and osl > 1 and last >= first:
        gap = (last - first) / (osl - 1.0)
    return Request(start, isl, osl, ttft, gap, e2e, ok)


def _of_line(row: Document) -> Request:
    at = {name: fields.number(row.get(f"{name}_ts")) for name in
          ("queued", "first_token", "last_token")}  # fmt: skip
    arrival = fields.number(row.get("arrival_time"))
    return _timed(
        at["queued"] if arrival is None else arrival,
        at["queued"], at["first_token"], at["last_token"],
        fields.positive(row.get("input_toks")), fields.positive(row.get("output_toks")),
        at["last_token"] is not None,
    )  # fmt: skip


def _of_row(row: Document) -> Request:
    def seconds(name: str) -> float | None:
        return fields.scaled(fields.positive(row.get(f"{name}_time_us")), 1e-6)

    sent = fields.scaled(fields.number(row.get("send_time_us")), 1e-6)
    isl = fields.positive(row.get("server_input_tokens")) or fields.positive(row["input_tokens"])
    status = str(row.get("status") or "ok").casefold()
    return _timed(
        sent, sent, seconds("first_chunk"), seconds("last_chunk"), isl,
        fields.positive(row["output_tokens"]), status == "ok",
    )  # fmt: skip


# ------------------------------------------------------------------------------- OpenTelemetry


def _requests_of(batch: Any) -> Iterator[Document]:
    """The request spans in a batch of an export."""
    for resource in fields.sequence(fields.at(batch, "resourceSpans")):
        for scope in fields.sequence(fields.at(resource, "scopeSpans")):
            for span in fields.sequence(fields.at(scope, "spans")):
                if isinstance(span, dict) and span.get("name") == _SPAN:
                    yield span


def _attributes(span: Document) -> dict[str, Any]:
    """Attributes by name, each with its value of whichever type."""
    told = {}
    for entry in fields.sequence(span.get("attributes")):
        value = fields.mapping(fields.at(entry, "value"))
        told[str(fields.at(entry, "key"))] = next(iter(value.values()), None)
    return told


def _of_span(span: Document, told: Document) -> Request:
    start = fields.scaled(fields.number(span.get("startTimeUnixNano")), 1e-9)
    first = fields.number(told.get(f"{_LATENCY}time_to_first_token"))
    whole = fields.number(told.get(f"{_LATENCY}e2e"))
    isl, osl = (
        fields.positive(told.get(f"{_USAGE}{side}_tokens")) for side in ("prompt", "completion")
    )
    return _timed(start, 0.0, first, whole, isl, osl, whole is not None)


def _header(text: str) -> list[str]:
    line = text.lstrip("\ufeff").partition("\n")[0].strip()
    try:
        return [cell.strip() for cell in next(csv.reader([line]), [])] if "," in line else []
    except csv.Error:  # a carriage return inside the line, a cell beyond csv's limit
        return []

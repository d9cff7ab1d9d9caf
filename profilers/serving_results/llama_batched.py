"""Results of llama.cpp's `llama-batched-bench`: JSON lines, or its table in a log.

B sequences are prefilled together and then generate in step.
Source: ggml-org/llama.cpp, tools/batched-bench/batched-bench.cpp (2023 to 2026): pp and tg are
tokens of a sequence, pl the sequences, t_pp, t_tg and t the seconds, speed the tokens/s.
"""

from __future__ import annotations

from typing import Any

from profilers.serving_results import fields
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

NAME = "llama-batched-bench"
_NEEDED = {"pp", "tg", "pl", "t_pp", "t_tg"}
_COLUMNS = {
    "PP": "pp", "TG": "tg", "B": "pl", "N_KV": "n_kv", "T_PP s": "t_pp", "S_PP t/s": "speed_pp",
    "T_TG s": "t_tg", "S_TG t/s": "speed_tg", "T s": "t", "S t/s": "speed",
}  # fmt: skip
_DEFINITIONS = {
    "ttft_s": "time to process the prompts of all sequences together, without a server",
    "tpot_s": "time of the generation over its steps, the first token among them",
}


def knows(document: Any) -> bool:
    """Whether a document is a test."""
    return isinstance(document, dict) and document.keys() >= _NEEDED


def knows_text(head: str) -> bool:
    """Whether a text holds the tool's table."""
    return any({"PP", "TG", "T_PP s"} <= set(fields.cells(line)) for line in head.splitlines())


def read(content: Content) -> list[ServingMeasurement]:
    """Every test of JSON lines; errors as `Content.documents`."""
    return [_measurement(test) for test in content.documents() if knows(test)]


def read_text(content: Content) -> list[ServingMeasurement]:
    """Every test of a log's tables; errors as `Content.text`."""
    header: list[str] = []
    found = []
    for line in content.text.splitlines():
        cells = fields.cells(line) if line.lstrip().startswith("|") else []
        if {"PP", "TG", "T_PP s"} <= set(cells):
            header = cells
        elif header and len(cells) == len(header) and cells[0].isdigit():
            row = dict(zip(header, cells, strict=True))
            found.append(_measurement({_COLUMNS.get(k, k): v for k, v in row.items()}))
    return found


def _measurement(test: Document) -> ServingMeasurement:
    prompt, made, batch = (fields.positive(test.get(name)) for name in ("pp", "tg", "pl"))
    prefill, decode, whole = (fields.positive(test.get(name)) for name in ("t_pp", "t_tg", "t"))
    if whole is None and prefill and decode:
        whole = prefill + decode
    return ServingMeasurement(
        format=NAME,
        subject=Subject(tool=NAME, engine="llama.cpp", label=f"batch {batch:g}" if batch else None),
        load=MeasuredLoad(concurrency=batch),
        lengths=Lengths(isl_asked=prompt, osl_asked=made),
        ttft_s=Percentiles(prefill),
        tpot_s=Percentiles(fields.ratio(decode, made)),
        e2e_s=Percentiles(whole),
        throughput=Throughput(
            fields.ratio(batch, whole),
            fields.ratio((batch or 0) * (prompt or 0), whole) or None,
            fields.ratio((batch or 0) * (made or 0), whole) or None,
        ),
        definitions=_DEFINITIONS,
    )

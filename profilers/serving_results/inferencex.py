"""Results of InferenceX (before: InferenceMAX), whose latencies are seconds without a unit.

Two forms are read: the aggregate of a run (agg_*.json, or a list of them), which states hardware,
degrees, precision and rates per GPU; and records like vLLM's without "_ms", whose file name states
the degrees (tep8: tensor and expert parallel 8).
Sources: SemiAnalysisAI/InferenceX, utils/process_result.py at 00e51cc (2025) and its successors
of 2026 (separate degrees of prefill and decode); InferenceX-app, packages/db, the lists of keys.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from profilers.serving_results import bench_record, fields, vllm_serve
from profilers.serving_results.documents import Content
from profilers.serving_results.fields import Document
from profilers.serving_results.measurement import (
    Lengths,
    MeasuredLoad,
    ServingMeasurement,
    Subject,
    Throughput,
)

NAME = "InferenceX"
_ENGINES = {"vllm": "vllm", "sglang": "sglang", "trt": "trtllm", "trtllm": "trtllm"}
_LATENCY = ("median_ttft", "mean_ttft", "median_tpot", "mean_tpot", "p99_ttft")


def knows(document: Any) -> bool:
    """Whether a document is an aggregate or a record, or a list of them."""
    first = document[0] if isinstance(document, list) and document else document
    return isinstance(first, dict) and (_is_aggregate(first) or _is_record(first))


def _is_aggregate(document: Document) -> bool:
    return "tput_per_gpu" in document and ("hw" in document or "conc" in document)


def _is_record(document: Document) -> bool:
    return {"duration", "completed"} <= document.keys() and any(
        name in document for name in _LATENCY
    )


def read(content: Content) -> list[ServingMeasurement]:
    """Every run of a file; errors as `Content.documents`."""
    found = []
    for document in content.documents():
        for entry in document if isinstance(document, list) else [document]:
            if isinstance(entry, dict) and _is_aggregate(entry):
                found.append(_aggregate(entry))
            elif isinstance(entry, dict) and _is_record(entry):
                found.append(_record(entry))
    return found


def _record(record: Document) -> ServingMeasurement:
    found = vllm_serve.measurement(record, NAME)
    return replace(found, subject=replace(found.subject, tool=NAME))


def _aggregate(run: Document) -> ServingMeasurement:
    prefill, decode = (
        fields.count(run.get(f"num_{pool}_gpu")) or 0 for pool in ("prefill", "decode")
    )
    split = bool(run.get("disagg")) and str(run.get("disagg")).casefold() != "false"
    # Under the names of version 1, otherwise those of decode.
    degrees = fields.degrees(run, {name: (name, f"decode_{name}") for name in ("tp", "pp", "ep")})
    devices = prefill + decode or degrees.get("tp", 0) * degrees.get("pp", 1) or None
    framework = (fields.text(run.get("framework")) or "").casefold()
    engine = next((engine for word, engine in _ENGINES.items() if word in framework), None)
    notes: tuple[str, ...] = ()
    if split:
        notes = (f"prefill on {prefill} GPUs and decode on {decode}: rates are of all together",)
    return ServingMeasurement(
        format=NAME,
        subject=Subject(
            tool=NAME,
            engine=engine,
            engine_version=fields.text(run.get("image")),
            model=fields.text(run.get("model")),
            device=fields.text(run.get("hw")),
            devices=devices,
            degrees={} if split else degrees,
            precision=fields.text(run.get("precision")),
            date=fields.text(run.get("date")),
        ),
        load=MeasuredLoad(concurrency=fields.positive(run.get("conc"))),
        lengths=Lengths(
            isl_asked=fields.positive(run.get("isl")), osl_asked=fields.positive(run.get("osl"))
        ),
        throughput=_rates(run, devices, (prefill, decode) if split else None),
        definitions={"tpot_s": bench_record.TPOT_DEFINITION},
        notes=notes,
    ).with_latencies(bench_record.statistics(run))


def _rates(run: Document, devices: int | None, pools: tuple[int, int] | None) -> Throughput:
    """Rates of the deployment from those per GPU; in a split deployment each rate is per GPU of the
    pool that produced it.
    """
    sides = pools or (devices or 0, devices or 0)
    values = [
        fields.scaled(fields.figure(run.get(name)), float(gpus)) or None
        for name, gpus in (
            ("input_tput_per_gpu", sides[0]),
            ("output_tput_per_gpu", sides[1]),
            ("tput_per_gpu", devices or 0),
        )
    ]
    return Throughput(None, *values)

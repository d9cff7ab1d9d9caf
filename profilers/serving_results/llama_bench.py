"""Results of llama.cpp's `llama-bench`: JSON, JSON lines, CSV, SQL, and tables of Markdown in logs.

A test processes a prompt of n tokens (pp), generates n tokens one by one (tg), or both, with
`n_depth` tokens already in the cache; it is repeated five times by default.  No server is involved:
the time of a prompt is read as TTFT and that of a generated token as TPOT, and `definitions` says
so.
Sources: ggml-org/llama.cpp, tools/llama-bench/llama-bench.cpp at 050fc7f (2026; `get_fields`,
`test_gen`, the printers) and its README; examples/llama-bench (2023 to 2025) has the same columns
with fewer settings.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from genz_core.errors import ReportError
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
from profilers.serving_results.samples import distribution

NAME = "llama-bench"
_NEEDED = {"n_prompt", "n_gen", "avg_ts"}
_DEFINITIONS = {
    "ttft_s": "time to process a prompt of ISL tokens in one sequence, without a server",
    "tpot_s": "time of the generation over its tokens, the first one among them",
}
#: Endings of the name of a model type: "llama 7B Q4_0", "qwen2 7B Q4_K - Medium".
_PRECISION = re.compile(r"(?<=\s)((?:I?Q\d|TQ\d|MXFP4|NVFP4|BF16|F16|F32|all F32|mostly ).*)$")
_TEST = re.compile(r"(?:pp(\d+))?(?:\+)?(?:tg(\d+))?(?:\s*@\s*d(\d+))?")
_SPEED = re.compile(r"([\d.,]+)(?:\s*(?:±|\+/-|\+-)\s*([\d.,]+))?")
_BUILD = re.compile(r"build:\s*([0-9a-f]{6,40})\s*\((\d+)\)")
_DEVICE_LINES = (
    re.compile(r"\s*Device \d+:\s*(.+?)(?:,\s*compute capability.*|,\s*VMM.*)?$"),
    re.compile(r"ggml_vulkan:\s*\d+\s*=\s*(.+?)(?:\s*\(\w+\))?\s*\|.*$"),
    re.compile(r"ggml_metal_init:\s*GPU name:\s*(.+)$"),
)
#: The common name of graphics units inside a processor, whatever the driver appends to it, and that
#: unit's name within the processor's.
_NAMELESS = re.compile(r"(?:AMD )?Radeon(?:\(TM\))? Graphics(?: \([^)]*\))?", re.IGNORECASE)
_INSIDE = re.compile(r"Radeon \w*\d{3,4}\w*", re.IGNORECASE)
_FOUND = re.compile(r"(?:found|Found) \d+ .*devices")
_INSERT = re.compile(
    r"INSERT INTO (?:test|llama_bench) \(([^)]*)\) VALUES \((.*)\);", re.IGNORECASE
)


def knows(document: Any) -> bool:
    """Whether a document is a test, or a list of tests."""
    first = document[0] if isinstance(document, list) and document else document
    return isinstance(first, dict) and first.keys() >= _NEEDED


def knows_text(head: str) -> bool:
    """Whether a text is a CSV or SQL of tests, or holds a table of them."""
    lines = head.splitlines()
    return (
        any(_header(line) for line in lines)
        or bool(lines and set(lines[0].replace('"', "").split(",")) >= _NEEDED)
        or "INSERT INTO test (build_commit" in head
        or "INSERT INTO llama_bench (build_commit" in head
    )


def read(content: Content) -> list[ServingMeasurement]:
    """Every test of a JSON file; errors as `Content.documents`."""
    found = []
    for document in content.documents():
        tests = document if isinstance(document, list) else [document]
        found += [_measurement(test) for test in tests if knows(test)]
    return found


def read_text(content: Content) -> list[ServingMeasurement]:
    """Every test of a CSV, SQL or Markdown text; errors as `Content.text`."""
    lines = content.text.splitlines()
    if lines and set(lines[0].replace('"', "").split(",")) >= _NEEDED:
        tests: Iterable[Document] = _of_csv(lines)
    elif any(map(_INSERT.match, lines)):
        tests = _of_sql(lines)
    else:
        tests = _of_tables(lines)
    return [_measurement(test) for test in tests]


# ------------------------------------------------------------------------------- texts


def _of_csv(lines: list[str]) -> Iterator[Document]:
    """Rows under their header.  A row that is shorter than the header is read from both ends: model
    and times are in the last columns, build and machine in the first.

    Raises:
        ReportError: the table is not a CSV, or ends in the middle of a row.
    """
    try:
        header, *rows = csv.reader(lines)
    except csv.Error as error:
        raise ReportError(f"the table is damaged ({error})") from None
    last, first = header[header.index("n_prompt") :], header[: header.index("n_prompt")]
    first = first[: first.index("n_batch")] if "n_batch" in first else first
    for row in filter(None, rows):
        if len(row) == len(header):
            yield dict(zip(header, row, strict=True))
            continue
        ends = dict(zip(reversed(last), reversed(row), strict=False))
        if "T" not in ends.get("test_time", ""):
            raise ReportError("a row of the table is cut off or damaged")
        yield {**dict(zip(first, row, strict=False)), **ends}


def _of_sql(lines: Iterable[str]) -> Iterator[Document]:
    """Rows of INSERT statements.

    Raises:
        ReportError: the values of a statement cannot be read.
    """
    for line in lines:
        match = _INSERT.match(line.strip())
        if match:
            names = [name.strip() for name in match[1].split(",")]
            try:
                values = next(csv.reader([match[2]], quotechar="'", skipinitialspace=True))
            except csv.Error as error:
                raise ReportError(f"a statement is damaged ({error})") from None
            yield dict(zip(names, values, strict=False))


def _header(line: str) -> bool:
    cells = fields.cells(line) if line.lstrip().startswith("|") else []
    return "test" in cells and "t/s" in cells


def _of_tables(lines: Iterable[str]) -> list[Document]:
    """The tests of all tables; the backend lists the devices before a table, and the build is in
    the line after it.
    """
    header: list[str] = []
    devices: list[str] = []
    tests: list[dict[str, Any]] = []
    unbuilt = 0
    for line in lines:
        if _FOUND.search(line):
            devices = []
        elif _header(line):
            header = fields.cells(line)
        elif line.lstrip().startswith("|") and header:
            test = _of_row(dict(zip(header, fields.cells(line), strict=False)), devices)
            tests += [test] if test else []
        elif match := _BUILD.search(line):
            for test in tests[unbuilt:]:
                test |= {"build_commit": match[1], "build_number": match[2]}
            unbuilt = len(tests)
        else:
            names = (pattern.match(line) for pattern in _DEVICE_LINES)
            devices = [*devices, *(match[1] for match in names if match)]
    return list(tests)


def _of_row(row: dict[str, str], devices: list[str]) -> dict[str, Any] | None:
    """A table row under the names of the JSON; None for the separator and for other rows."""
    test, speed = _TEST.fullmatch(row.get("test", "")), _SPEED.fullmatch(row.get("t/s", ""))
    if not test or not speed or not (test[1] or test[2]):
        return None
    return {
        "model_size": _amount(row.get("size")), "model_n_params": _amount(row.get("params")),
        "model_type": row.get("model"), "backends": row.get("backend"),
        "n_gpu_layers": row.get("ngl"), "n_threads": row.get("threads"),
        "type_k": row.get("type_k"), "flash_attn": row.get("fa"),
        "gpu_info": ", ".join(devices) or None,
        "n_prompt": test[1] or 0, "n_gen": test[2] or 0, "n_depth": test[3] or 0,
        "avg_ts": speed[1], "stddev_ts": speed[2],
    }  # fmt: skip


# ------------------------------------------------------------------------------- a test


def _measurement(test: Document) -> ServingMeasurement:
    prompt, made = (fields.count(test.get(name)) or 0 for name in ("n_prompt", "n_gen"))
    depth = fields.count(test.get("n_depth")) or 0
    seconds = _seconds(test, prompt + made)
    speed = fields.positive(test.get("avg_ts"))
    label = "+".join([f"pp{prompt}"] * bool(prompt) + [f"tg{made}"] * bool(made))
    common = ServingMeasurement(
        format=NAME,
        subject=_subject(test, label + (f" @ d{depth}" if depth else "")),
        load=MeasuredLoad(concurrency=1.0, requests=seconds.count),
        lengths=Lengths(
            isl_asked=float(prompt) or None,
            osl_asked=float(made) or None,
            context=float(depth),
        ),
        definitions=_DEFINITIONS,
    )
    return _with_times(common, (prompt, made), seconds, speed)


def _with_times(
    common: ServingMeasurement,
    tokens: tuple[int, int],
    seconds: Percentiles,
    speed: float | None,
) -> ServingMeasurement:
    """The test with its times, depending on what it runs.  tokens: of the prompt, and generated."""
    prompt, made = tokens
    if prompt and made:
        rates = Throughput(total_tokens_per_s=speed)
        return replace(common, e2e_s=seconds, throughput=rates)
    if made:
        rates = Throughput(output_tokens_per_s=speed)
        return replace(common, phase="decode", tpot_s=_over(seconds, made), throughput=rates)
    rates = Throughput(input_tokens_per_s=speed)
    return replace(common, phase="prefill", ttft_s=seconds, throughput=rates)


def _seconds(test: Document, tokens: int) -> Percentiles:
    """Seconds of a repetition, from the samples, from the mean, or from the mean speed."""
    samples = fields.numbers(test.get("samples_ns"))
    mean = fields.scaled(fields.positive(test.get("avg_ns")), 1e-9)
    std = fields.scaled(fields.number(test.get("stddev_ns")), 1e-9)
    if samples is not None and mean is not None:
        spread = distribution(samples * 1e-9)
        return Percentiles(mean, std, spread.minimum, spread.maximum, spread.at, spread.count)
    if mean is not None:
        return Percentiles(mean, std)
    speed, spread_ts = fields.positive(test.get("avg_ts")), fields.number(test.get("stddev_ts"))
    if speed is None or not tokens:
        return Percentiles()
    mean = tokens / speed
    return Percentiles(mean, None if spread_ts is None else mean * spread_ts / speed)


def _over(seconds: Percentiles, tokens: int) -> Percentiles:
    """Seconds per token of a generation."""
    mean, std, least, greatest = (
        fields.scaled(value, 1 / tokens)
        for value in (seconds.mean, seconds.std, seconds.minimum, seconds.maximum)
    )
    at = {percent: value / tokens for percent, value in seconds.at.items()}
    return Percentiles(mean, std, least, greatest, at, seconds.count)


def _subject(test: Document, label: str) -> Subject:
    number, commit = fields.text(str(test.get("build_number") or "")), test.get("build_commit")
    build = " ".join(filter(None, [f"b{number}" if number else None, fields.text(commit)]))
    kind = fields.text(test.get("model_type"))
    path = fields.text(test.get("model_filename"))
    precision = _PRECISION.search(kind) if kind else None
    device, devices = _device(test)
    return Subject(
        tool=NAME,
        tool_version=build or None,
        engine="llama.cpp",
        engine_version=build or None,
        model=re.split(r"[/\\]", path)[-1] if path else kind,
        device=device,
        devices=devices,
        precision=precision[1] if precision else None,
        bits_per_weight=_bits(test),
        kv_precision=fields.text(test.get("type_k")),
        date=fields.text(test.get("test_time")),
        label=label,
    )


def _bits(test: Document) -> float | None:
    """Bits per weight: size of the file over its parameters."""
    size, count = (fields.positive(test.get(name)) for name in ("model_size", "model_n_params"))
    return size * 8.0 / count if size and count else None


#: Units of the columns size and params of a table.
_UNITS = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30,
          "TiB": 2**40}  # fmt: skip


def _amount(cell: str | None) -> float | None:
    """ "4.36 GiB" or "7.62 B" as a number."""
    number, _, unit = (cell or "").strip().partition(" ")
    return fields.scaled(fields.positive(number), _UNITS.get(unit, 1.0))


def _device(test: Document) -> tuple[str | None, int | None]:
    """Name and number of the devices; the processor where no layer was on a GPU."""
    gpus = [name.strip() for name in (fields.text(test.get("gpu_info")) or "").split(",")]
    inside = _INSIDE.search(fields.text(test.get("cpu_info")) or "")
    gpus = [inside[0] if inside and _NAMELESS.fullmatch(name) else name for name in gpus if name]
    layers = fields.number(test.get("n_gpu_layers"))
    if not gpus or layers == 0:
        return fields.text(test.get("cpu_info")), None
    return ", ".join(dict.fromkeys(gpus)), len(gpus)

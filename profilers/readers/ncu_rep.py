"""Nsight Compute reports (.ncu-rep), read without NVIDIA's libraries.

The container: the magic "NVR\\0", a length-prefixed file header, then blocks; a block is a
length-prefixed header (counts of sources and results, session details, strings, payload size)
and a payload of length-prefixed messages, sources first.  The messages are protobuf; NVIDIA ships
their definitions with Nsight Compute (extras/FileFormat/*.proto), and the field numbers here are
theirs.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from genz_core.errors import ReportError
from profilers.readers.columns import label_of
from profilers.readers.ncu_metrics import KernelResult, build_report
from profilers.readers.protobuf import fields, integer, nested, real, text
from profilers.schema import DeviceInfo, Report

FORMAT = "ncu-rep"
MAGIC = b"NVR\0"

MAX_FILE_BYTES = 512 << 20
MAX_STRINGS = 2_000_000
MAX_RESULTS = 100_000
MAX_METRICS = 2_000_000

# Field numbers: BlockHeader, SessionDetails, ProfileResult, MetricResult and its value, NvtxState.
_SOURCES, _RESULTS, _SESSION, _STRINGS, _PAYLOAD_BYTES = 1, 2, 3, 4, 5
_DEVICE, _VERSIONS = 6, 8
_FUNCTION, _DEMANGLED, _GRID, _BLOCK, _METRIC, _NVTX, _CONTEXT, _STREAM = (
    6,
    7,
    10,
    11,
    13,
    21,
    22,
    23,
)
_NAME_ID, _VALUE = 1, 2
_STRING, _FLOAT, _DOUBLE, _UINT32, _UINT64 = 1, 2, 3, 4, 5
_THREADS, _DOMAINS_OF_THREAD, _START_END_DOMAINS, _STACK, _RANGES = 2, 2, 3, 3, 3


@dataclass(slots=True)
class _Contents:
    """The content of all blocks: names, messages of results, devices, versions."""

    strings: list[str] = field(default_factory=list)
    results: list[bytes] = field(default_factory=list)
    devices: list[DeviceInfo] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)


def sniff(head: bytes) -> bool:
    return head.startswith(MAGIC)


def read(path: Path) -> Report:
    """Read a report.

    Raises:
        ReportError: truncated, damaged or foreign.
    """
    size = path.stat().st_size
    if size > MAX_FILE_BYTES:
        raise ReportError(
            f"the report has {size / 1e6:.0f} MB, over {MAX_FILE_BYTES / 1e6:.0f}; "
            "profile fewer kernels (ncu --launch-count)"
        )
    contents = _contents(path.read_bytes())
    metrics = 0
    results = []
    for message in contents.results:
        result = _result(message, contents.strings)
        metrics += len(result.metrics)
        if metrics > MAX_METRICS:
            raise ReportError(f"the report holds over {MAX_METRICS} metrics; profile fewer kernels")
        results.append(result)
    version = re.match(r"[\d.]+", contents.versions.get("Nsight Compute Target", ""))
    return build_report(
        FORMAT,
        label_of(path),
        results,
        tool_version=version.group() if version else None,
        devices=tuple(contents.devices),
        facts={
            name.lower().replace(" ", "_"): contents.versions[name]
            for name in ("CUDA Version", "Display Driver Version")
            if name in contents.versions
        },
    )


def _contents(data: bytes) -> _Contents:
    if not data.startswith(MAGIC):
        raise ReportError("the file is not an Nsight Compute report")
    contents = _Contents()
    _, at = _piece(data, len(MAGIC))
    while at < len(data):
        header, at = _piece(data, at)
        sources, results, payload_bytes = _read_header(header, contents)
        payload = data[at : at + payload_bytes]
        if len(payload) != payload_bytes:
            raise ReportError("the report is cut off; copy it again")
        at += payload_bytes
        if results + len(contents.results) > MAX_RESULTS:
            raise ReportError(f"the report holds over {MAX_RESULTS} kernels; profile fewer")
        pieces = _pieces(payload, sources + results)
        contents.results += [piece for i, piece in enumerate(pieces) if i >= sources]
    return contents


def _piece(data: bytes, at: int) -> tuple[bytes, int]:
    """The length-prefixed bytes at a position, and the position after them."""
    if at + 4 > len(data):
        raise ReportError("the report is cut off; copy it again")
    (length,) = struct.unpack_from("<I", data, at)
    if length > len(data) - at - 4:
        raise ReportError("the report is cut off or damaged; copy it again")
    return data[at + 4 : at + 4 + length], at + 4 + length


def _pieces(payload: bytes, count: int) -> Iterator[bytes]:
    """The first `count` length-prefixed messages of a payload."""
    if count * 4 > len(payload):
        raise ReportError("the report is damaged: a block counts more kernels than it holds")
    at = 0
    for _ in range(count):
        piece, at = _piece(payload, at)
        yield piece


def _read_header(header: bytes, contents: _Contents) -> tuple[int, int, int]:
    """(sources, results, payload size) of a block; its names and session go to `contents`."""
    counts = {_SOURCES: 0, _RESULTS: 0, _PAYLOAD_BYTES: 0}
    for number, value in fields(header):
        if number in counts:
            counts[number] = integer(value)
        elif number == _STRINGS:
            contents.strings += [text(v) for n, v in fields(nested(value)) if n == 1]
        elif number == _SESSION:
            _read_session(nested(value), contents)
    if len(contents.strings) > MAX_STRINGS:
        raise ReportError("the report is damaged: its table of names has no end")
    return counts[_SOURCES], counts[_RESULTS], counts[_PAYLOAD_BYTES]


def _read_session(session: bytes, contents: _Contents) -> None:
    """Keep devices and versions of a session, but not its host name, processor or command line."""
    for number, value in fields(session):
        if number == _VERSIONS:
            pair = {n: text(v) for n, v in fields(nested(value))}
            contents.versions[pair.get(1, "")] = pair.get(2, "")[:200]
        elif number == _DEVICE:
            contents.devices.append(_device(nested(value)))


def _device(message: bytes) -> DeviceInfo:
    index, name, attributes = 0, "", {}
    for number, value in fields(message):
        if number == 1:
            index = integer(value)
        elif number == 2:
            name = text(value)
        elif number == 3:
            pair = dict(fields(nested(value)))
            attributes[text(pair.get(1, b""))] = _value(nested(pair.get(2, b"")))
    return device_of_attributes(index, name, attributes)


def device_of_attributes(
    index: int, name: str, attributes: dict[str, float | str | None]
) -> DeviceInfo:
    """A device from ncu's device__attribute_* metrics.

    Memory bandwidth = 2 x clock x bus width: the bus moves data on both clock edges.
    """

    def number(key: str) -> float | None:
        value = attributes.get(f"device__attribute_{key}")
        return value if isinstance(value, float) and value > 0 else None

    memory_khz, bus_bits = number("max_mem_frequency_khz"), number("fb_bus_width")
    clock_khz, units = number("max_gpu_frequency_khz"), number("multiprocessor_count")
    major, minor = number("compute_capability_major"), number("compute_capability_minor") or 0.0
    return DeviceInfo(
        index=index,
        name=name[:200],
        units=int(units) if units else None,
        memory_bytes_per_s=2e3 * memory_khz * bus_bits / 8 if memory_khz and bus_bits else None,
        clock_hz=clock_khz * 1e3 if clock_khz else None,
        l2_bytes=number("l2_cache_size"),
        compute_capability=f"{major:.0f}.{minor:.0f}" if major else None,
    )


def _result(message: bytes, strings: list[str]) -> KernelResult:
    """A profiled launch from its message.  strings: names of metrics by id."""
    result = KernelResult(name="", full_name="")
    for number, value in fields(message):
        if number == _METRIC:
            name, reading = _metric(nested(value), strings)
            result.metrics[name] = reading
        elif number == _FUNCTION:
            result.name = text(value)
        elif number == _DEMANGLED:
            result.full_name = text(value)
        elif number in (_GRID, _BLOCK):
            extent = ",".join(str(integer(v)) for _, v in fields(nested(value)))
            result.grid, result.block = (
                (extent, result.block) if number == _GRID else (result.grid, extent)
            )
        elif number == _STREAM:
            result.stream = integer(value)
        elif number == _NVTX:
            result.ranges = _nvtx(nested(value))
    return result


def _metric(message: bytes, strings: list[str]) -> tuple[str, float | str | None]:
    name_id, reading = 0, None
    for number, value in fields(message):
        if number == _NAME_ID:
            name_id = integer(value)
        elif number == _VALUE:
            reading = _value(nested(value))
    if name_id >= len(strings):
        raise ReportError("the report is damaged: a metric has no name")
    return strings[name_id], reading


def _value(message: bytes) -> float | str | None:
    """The scalar of a metric; None where it has only instances."""
    reading: float | str | None = None
    for number, value in fields(message):
        if number == _STRING:
            reading = text(value)
        elif number in (_FLOAT, _DOUBLE):
            reading = real(value)
        elif number in (_UINT32, _UINT64):
            reading = float(integer(value))
    return reading


def _nvtx(state: bytes) -> list[str]:
    """Names of the open ranges, outermost first: process-wide ranges, then those of the thread."""
    pushed: list[str] = []
    started: list[str] = []
    for number, value in fields(state):
        if number == _THREADS:
            domains = (nested(v) for n, v in fields(nested(value)) if n == _DOMAINS_OF_THREAD)
            pushed += [name for domain in domains for name in _range_names(domain, _STACK, 1)]
        elif number == _START_END_DOMAINS:
            started += _range_names(nested(value), _RANGES, 2)
    return started + pushed


def _range_names(domain: bytes, ranges_field: int, name_field: int) -> list[str]:
    ranges = [nested(value) for number, value in fields(domain) if number == ranges_field]
    return [text(v) for message in ranges for n, v in fields(message) if n == name_field]

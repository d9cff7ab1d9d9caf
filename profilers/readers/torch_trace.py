"""PyTorch profiler traces: Chrome trace JSON, plain, gzipped, or in a zip with one member.

Events are read one by one; only device activity, launches, operators and annotations are kept.
A kernel is linked to its operator by its "External id", otherwise through its launch: correlation
-> runtime call -> "External id", or the operator around the call on its thread.  Some versions
write the correlation as "External id", which identifies no operator.  A kernel of a CUDA or HIP
graph only has the launch of its graph.  Of the Python stack only calls of nn.Module are kept. Times
of the format are microseconds with three decimals.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from genz_core.errors import ReportError
from profilers.readers.columns import MAX_NAME_CHARS
from profilers.readers.compressed import BrokenOff, content_chunks
from profilers.readers.json_stream import JsonStream
from profilers.readers.torch_header import FACTS
from profilers.readers.torch_host import host_operators
from profilers.readers.torch_tables import TraceEvents, build_report
from profilers.schema import OWN_RUN, Report

#: Most device activities, launches, operators and annotations that one trace may hold.
MAX_EVENTS = 3_000_000
#: Most events that are skipped, initially and per kept event: a trace has many Python frames.
_IGNORED_EVENTS, _IGNORED_PER_KEPT = 1_000_000, 500
#: Most characters of different names and shapes that one trace may hold.
MAX_TEXT_CHARS = 200_000_000

_KERNEL = frozenset({"kernel"})
_COPY = frozenset({"gpu_memcpy", "gpu_memset", "memcpy", "memset"})
_LAUNCH = frozenset(
    {"cuda_runtime", "cuda_driver", "hip_runtime", "hip_driver", "xpu_runtime", "runtime"}
)
_OPERATOR = frozenset({"cpu_op", "operator"})
_ANNOTATION = frozenset({"user_annotation"})
_DEVICE_ANNOTATION = frozenset({"gpu_user_annotation"})
_PYTHON = "python_function"
#: Prefix that the profiler writes before the class and number of a module in its stack.
_MODULE = "nn.Module: "
_KEPT = _KERNEL | _COPY | _LAUNCH | _OPERATOR | _ANNOTATION | _DEVICE_ANNOTATION
_HEADER = (*FACTS, "deviceProperties", "distributedInfo", OWN_RUN)

#: Times beyond these mean damage [us]; some clocks count from 1970.
_MAX_TIME_US = 1e17
_MAX_DURATION_US = 1e13
#: Operators whose plain inputs are kept: whether attention is causal, how long it is.
_VALUED = re.compile(r"attention|attn|::mha")
#: Longer inputs of an operator are lists of many tensors, whose shapes are not useful.
_MAX_SHOWN_CHARS = 2000


def sniff(head: bytes) -> bool:
    """Whether content that starts with `head` is JSON, unlike lines of nsys such as "[1/8]"."""
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:64]
    first, second = start[:1], start[1:].lstrip()[:1]
    return first == b"{" or (first == b"[" and second in (b"{", b"]"))


def read(path: Path) -> Report:
    """Read a trace.

    Raises:
        ReportError: damaged, cut off before its first kernel, hostile, or JSON that is no trace.
    """
    stream = JsonStream(content_chunks(path))
    events = TraceEvents()
    header: dict[str, Any] = {}
    broken: BrokenOff | None = None
    try:
        _read_document(stream, events, header)
    except BrokenOff as error:
        broken = error
        if not events.kept:
            raise
    if not events.kept:
        raise ReportError(
            "the JSON holds no event of the PyTorch profiler, so there is nothing to import"
        )
    report = build_report(path, events, header)
    report = dataclasses.replace(report, host_operators=host_operators(events))
    if broken is None:
        return report
    note = f"the trace is cut off after event {events.seen:,}, and the rest is missing: {broken}"
    if report.kernels.empty:
        raise ReportError(f"{note}, before its first kernel")
    return dataclasses.replace(report, notes=(note, *report.notes), truncated=note)


def _read_document(stream: JsonStream, events: TraceEvents, header: dict[str, Any]) -> None:
    """Add the events of a document, and the fields of its header; errors as `read`."""
    if stream.peek() == "[":
        _keep_events(events, stream.elements())
        return
    has_events = False
    for key in stream.members():
        if key == "traceEvents" and stream.peek() == "[":
            has_events = True
            _keep_events(events, stream.elements())
        else:
            value = stream.value()
            if key in _HEADER:
                header[key] = value
    if not has_events:
        raise ReportError('the JSON has no "traceEvents"; give a file that a profiler exported')


def _keep_events(events: TraceEvents, items: Iterator[Any]) -> None:
    """Add the complete events of kept categories.

    Raises:
        ReportError: something that is not an event, a damaged event, or too many.
    """
    for item in items:
        events.seen += 1
        if events.seen > _IGNORED_EVENTS and events.seen > _IGNORED_PER_KEPT * events.kept:
            raise ReportError(
                f"of the first {events.seen:,} events of the trace {events.kept:,} are of a "
                "PyTorch profiler; give a trace that this profiler wrote"
            )
        try:
            category = item["cat"]
            known = item["ph"] == "X" and (category := category.lower()) in _KEPT
            if not known and not (category == _PYTHON and item["name"].startswith(_MODULE)):
                continue
        except KeyError:
            continue
        except (TypeError, AttributeError):
            raise ReportError(f"event {events.seen} of the trace is not a trace event") from None
        events.kept += 1
        if events.kept > MAX_EVENTS:
            raise ReportError(f"the trace has over {MAX_EVENTS} events; record fewer steps")
        try:
            _keep(events, category, item)
        except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
            raise ReportError(
                f"event {events.seen} of the trace is damaged ({type(error).__name__}: {error})"
            ) from None


def _keep(events: TraceEvents, category: str, item: dict[str, Any]) -> None:
    """Add an event of a kept category."""
    name, start, duration = item["name"], float(item["ts"]), float(item.get("dur", 0.0))
    name = _interned(events, str(name)[:MAX_NAME_CHARS])
    if not (abs(start) < _MAX_TIME_US and 0 <= duration < _MAX_DURATION_US):
        raise ValueError(f"ts {start}, dur {duration}")
    args = item.get("args") or {}
    external, correlation = (
        args.get("External id", args.get("external id")),
        args.get("correlation"),
    )
    if category in _KERNEL:
        place = _ordinal(args.get("device")), _ordinal(args.get("stream"))
        graph = bool(args.get("graph node id") or args.get("graph id"))
        events.names.append(name)
        events.times.append((start, duration, *place))
        events.links.append((external, correlation, graph))
        events.shapes.append((_extent(args.get("grid")), _extent(args.get("block"))))
    elif category in _LAUNCH:
        events.calls[name] += 1
        events.call_us[name] = events.call_us.get(name, 0.0) + duration
        if "ynchronize" in name:
            events.waits.append((start, start + duration))
        if correlation is not None:
            thread, graph = events.thread(item.get("tid")), "GraphLaunch" in name
            events.launches[correlation] = (start, start + duration, external, graph, thread)
    elif category in _OPERATOR:
        values = args.get("Concrete Inputs") if _VALUED.search(name) else None
        shapes, types, values = (
            _compact(events, inputs)
            for inputs in (args.get("Input Dims"), args.get("Input type"), values)
        )
        operator = events.operator((name, shapes, types, values))
        events.operator_calls.add(operator, start, duration, events.thread(item.get("tid")))
        if external is not None:
            events.operators[external] = operator
    elif category == _PYTHON:
        module = _interned(events, name.removeprefix(_MODULE))
        events.module_calls.add(module, start, duration, events.thread(item.get("tid")))
    elif category in _COPY:
        place = _ordinal(args.get("device")), _ordinal(args.get("stream"))
        kind = "memset" if "memset" in category else _copy_kind(name)
        events.copies.append((kind, start, duration, *place, _bytes(args.get("bytes"))))
    elif category in _ANNOTATION:
        events.annotations.append((name, start, start + duration))
    else:
        events.device_annotations.append((name, start, start + duration))


def _ordinal(value: Any) -> int:
    """A device or stream number, -1 where none or an invalid one is given."""
    try:
        number = -1 if value is None or value == "" else int(value)
    except (TypeError, ValueError, OverflowError):
        return -1
    return number if -1 <= number < 2**62 else -1


def _extent(value: Any) -> str | None:
    """The extent of a grid or a block; None where it is not three numbers."""
    try:
        x, y, z = value
        return f"{int(x)},{int(y)},{int(z)}"
    except (TypeError, ValueError, OverflowError):
        return None


def _bytes(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _compact(events: TraceEvents, value: Any) -> str | None:
    """JSON of a list about an operator's inputs."""
    if not value or not isinstance(value, list):
        return None
    shown = repr(value)[:_MAX_SHOWN_CHARS]
    if shown not in events.inputs:
        text = json.dumps(value, separators=(",", ":"))
        events.inputs[_interned(events, shown)] = text if len(text) < _MAX_SHOWN_CHARS else "[]"
    return events.inputs[shown]


def _interned(events: TraceEvents, text: str) -> str:
    """The stored copy of a text, so that equal texts share memory.

    Raises:
        ReportError: the texts of the trace take more than MAX_TEXT_CHARS.
    """
    stored = events.texts.get(text)
    if stored is not None:
        return stored
    events.text_chars += len(text)
    if events.text_chars > MAX_TEXT_CHARS:
        raise ReportError("the trace holds too many different names; record fewer steps")
    events.texts[text] = text
    return text


def _copy_kind(name: str) -> str:
    """ "HtoD" of "Memcpy HtoD (Pageable -> Device)"."""
    words = name.split()
    return words[1][:16] if len(words) > 1 else "copy"

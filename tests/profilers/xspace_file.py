"""XSpace files written by Google's protobuf library from the messages of xplane.proto."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_INT64, _STRING, _MESSAGE = 3, 9, 11
#: message -> fields: name, number, type (or message), repeated.
_SCHEMA: dict[str, list[tuple[str, int, Any, bool]]] = {
    "XStat": [("metadata_id", 1, _INT64, False), ("str_value", 5, _STRING, False)],
    "XEvent": [
        ("metadata_id", 1, _INT64, False),
        ("offset_ps", 2, _INT64, False),
        ("duration_ps", 3, _INT64, False),
    ],
    "XLine": [
        ("id", 1, _INT64, False),
        ("name", 2, _STRING, False),
        ("timestamp_ns", 3, _INT64, False),
        ("events", 4, "XEvent", True),
    ],
    "Metadata": [
        ("id", 1, _INT64, False),
        ("name", 2, _STRING, False),
        ("display_name", 4, _STRING, False),
    ],
    "Entry": [("key", 1, _INT64, False), ("value", 2, "Metadata", False)],
    "XPlane": [
        ("id", 1, _INT64, False),
        ("name", 2, _STRING, False),
        ("lines", 3, "XLine", True),
        ("event_metadata", 4, "Entry", True),
        ("stat_metadata", 5, "Entry", True),
        ("stats", 6, "XStat", True),
    ],
    "XSpace": [("planes", 1, "XPlane", True)],
}


def _space() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="x.proto", package="x", syntax="proto3")
    for name, entries in _SCHEMA.items():
        message = file.message_type.add(name=name)
        for field, number, kind, repeated in entries:
            added = message.field.add(name=field, number=number, label=3 if repeated else 1)
            added.type = kind if isinstance(kind, int) else _MESSAGE
            if isinstance(kind, str):
                added.type_name = f".x.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("x.XSpace"))


def xspace(planes: dict[str, dict[str, list[tuple[str, int, int]]]], device: str = "") -> bytes:
    """An XSpace of planes: line -> (event, offset [ps], duration [ps])."""
    space = _space()()
    for title, lines in planes.items():
        plane = space.planes.add(id=len(space.planes), name=title)
        names = sorted({event for events in lines.values() for event, _, _ in events})
        for number, name in enumerate(names, 1):
            plane.event_metadata.add(key=number, value={"id": number, "name": name})
        if device and title.startswith("/device"):
            plane.stat_metadata.add(key=7, value={"id": 7, "name": "device_type_string"})
            plane.stats.add(metadata_id=7, str_value=device)
        for line, events in lines.items():
            added = plane.lines.add(id=1, name=line, timestamp_ns=1_700_000_000_000_000_000)
            for event, offset, duration in events:
                added.events.add(
                    metadata_id=names.index(event) + 1, offset_ps=offset, duration_ps=duration
                )
    return bytes(space.SerializeToString())

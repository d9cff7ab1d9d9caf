"""MLCommons Chakra execution traces: protocol buffers, each message after its length.

Names and numbers of fields are those of the published schema (mlcommons/chakra,
schema/protobuf/et_def.proto); other fields are skipped when a trace is read.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, BinaryIO

from genz_core.errors import InvalidValue

#: Kinds of nodes and of collectives, by their numbers in the schema.
NODES = ("invalid", "metadata", "load", "store", "compute", "send", "receive", "collective",
         "storage", "batch", "checkpoint")  # fmt: skip
COLLECTIVES = ("all_reduce", "reduce", "all_gather", "gather", "scatter", "broadcast", "all_to_all",
               "reduce_scatter", "reduce_scatter_block", "barrier")  # fmt: skip
VERSION = "0.0.4"
#: Limits of a trace that is read: bytes of one message, and messages.
_LONGEST, _MOST = 16 * 2**20, 5_000_000
_PACKAGE = "ChakraProtoMsg"
#: {message: {field: (number, type)}}; a type in brackets is repeated.
_MESSAGES: Mapping[str, Mapping[str, tuple[int, str]]] = {
    "AttributeProto": {
        "name": (1, "string"), "double_val": (3, "double"), "float_val": (5, "float"),
        "int32_val": (7, "int32"), "int64_val": (9, "int64"), "uint32_val": (11, "uint32"),
        "uint64_val": (13, "uint64"), "sint32_val": (15, "sint32"), "sint64_val": (17, "sint64"),
        "fixed32_val": (19, "fixed32"), "fixed64_val": (21, "fixed64"),
        "sfixed32_val": (23, "sfixed32"), "sfixed64_val": (25, "sfixed64"),
        "bool_val": (27, "bool"), "string_val": (29, "string"),
    },
    "GlobalMetadata": {"version": (1, "string"), "attr": (2, "[AttributeProto]")},
    "Node": {
        "id": (1, "uint64"), "name": (2, "string"), "type": (3, "int32"),
        "ctrl_deps": (4, "[uint64]"), "data_deps": (5, "[uint64]"),
        "start_time_micros": (6, "uint64"), "duration_micros": (7, "uint64"),
        "attr": (10, "[AttributeProto]"),
    },
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a trace.

    kind: one of `NODES`.  after: ids of the nodes that it waits for.  duration_us: whole
    microseconds, 0 where none is stated.  attributes: by name; numbers, texts and booleans.
    """

    id: int
    name: str
    kind: str
    after: tuple[int, ...] = ()
    duration_us: int = 0
    attributes: Mapping[str, float | int | str | bool] = field(default_factory=dict)


def write(file: BinaryIO, nodes: Iterable[Node], about: Mapping[str, float | int | str]) -> None:
    """Write a trace.  about: attributes of the whole trace."""
    metadata = _classes()["GlobalMetadata"](version=VERSION, attr=_attributes(about))
    _put(file, metadata)
    for node in nodes:
        _put(file, _classes()["Node"](
            id=node.id, name=node.name, type=NODES.index(node.kind), data_deps=node.after,
            duration_micros=node.duration_us, attr=_attributes(node.attributes),
        ))  # fmt: skip


def read(content: bytes) -> tuple[dict[str, Any], tuple[Node, ...]]:
    """Attributes of the whole trace, and its nodes.

    Raises:
        InvalidValue: bytes that are not such a trace, with the position of the first error.
    """
    messages = list(_messages(content))
    if not messages:
        raise InvalidValue("the file is empty: a Chakra trace starts with its metadata")
    about = _parsed("GlobalMetadata", messages[0], 0)
    nodes = tuple(_node(_parsed("Node", text, at)) for at, text in enumerate(messages[1:], 1))
    known = {node.id for node in nodes}
    for node in nodes:
        if missing := set(node.after) - known:
            raise InvalidValue(
                f"node {node.id} ({node.name[:40]}) waits for node {min(missing)}, which the trace "
                "does not have: the file is truncated, or belongs to another rank"
            )
    return {"version": about.version, **_values(about.attr)}, nodes


def _node(message: Any) -> Node:
    kind = NODES[message.type] if 0 <= message.type < len(NODES) else "invalid"
    after = tuple(dict.fromkeys((*message.ctrl_deps, *message.data_deps)))
    return Node(message.id, message.name, kind, after, message.duration_micros,
                _values(message.attr))  # fmt: skip


# ------------------------------------------------------------------------------- attributes


def _attributes(values: Mapping[str, Any]) -> list[Any]:
    make = _classes()["AttributeProto"]
    return [make(name=name, **{_field(value): value}) for name, value in values.items()]


def _field(value: Any) -> str:
    """The field that holds a value; the simulators read sizes and counts as 64-bit integers."""
    kinds = {bool: "bool_val", int: "int64_val", float: "double_val", str: "string_val"}
    return kinds[type(value)]


def _values(attributes: Iterable[Any]) -> dict[str, Any]:
    """Values by name; lists and bytes, which are not needed here, are left out."""
    found = {}
    for attribute in attributes:
        stated = [(about.name, value) for about, value in attribute.ListFields()]
        value = next((value for name, value in stated if name != "name"), None)
        if value is not None:
            found[attribute.name] = value
    return found


# ------------------------------------------------------------------------------- bytes


def _put(file: BinaryIO, message: Any) -> None:
    text, rest = message.SerializeToString(), bytearray()
    length = len(text)
    while length > 0x7F:
        rest.append(length & 0x7F | 0x80)
        length >>= 7
    rest.append(length)
    file.write(bytes(rest) + text)


def _messages(content: bytes) -> Iterable[bytes]:
    at, count = 0, 0
    while at < len(content):
        start, length, shift = at, 0, 0
        while True:
            if at >= len(content) or shift > 28:
                raise InvalidValue(
                    f"byte {start:,} is not the length of a message: this is not a Chakra trace"
                )
            byte = content[at]
            at, length, shift = at + 1, length | (byte & 0x7F) << shift, shift + 7
            if byte < 0x80:
                break
        if length > _LONGEST or at + length > len(content):
            raise InvalidValue(
                f"the message at byte {start:,} would have {length:,} bytes and the file has "
                f"{len(content) - at:,} left: it is truncated, or not a Chakra trace"
            )
        count += 1
        if count > _MOST:
            raise InvalidValue(f"the trace has more than {_MOST:,} nodes")
        yield content[at : at + length]
        at += length


def _parsed(name: str, text: bytes, at: int) -> Any:
    from google.protobuf.message import DecodeError

    try:
        return _classes()[name].FromString(text)
    except DecodeError:
        raise InvalidValue(
            f"message {at} of the file is not a {name}: this is not a Chakra trace"
        ) from None


@cache
def _classes() -> Mapping[str, Any]:
    """Classes of the messages, created from `_MESSAGES`."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    proto = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="ridgeline_chakra.proto", package=_PACKAGE, syntax="proto3"
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field_name, (number, said) in fields.items():
            repeated, kind = said.startswith("["), said.strip("[]")
            made = message.field.add(
                name=field_name, number=number,
                label=proto.LABEL_REPEATED if repeated else proto.LABEL_OPTIONAL,
            )  # fmt: skip
            if kind in _MESSAGES:
                made.type, made.type_name = proto.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
            else:
                made.type = getattr(proto, f"TYPE_{kind.upper()}")
        if name == "AttributeProto":
            message.oneof_decl.add(name="value")
            for made in message.field:
                if made.name != "name":
                    made.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
        for name in _MESSAGES
    }

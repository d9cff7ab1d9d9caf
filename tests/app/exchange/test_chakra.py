"""Chakra traces: bytes of the published schema, and refusals."""

from io import BytesIO

import pytest

from app.exchange import chakra
from app.exchange.chakra import Node
from genz_core.errors import InvalidValue

NODES = (
    Node(1, "a", "compute", duration_us=5),
    Node(2, "b", "collective", after=(1,), attributes={"comm_type": 6}),
)


def written(nodes: tuple[Node, ...]) -> bytes:
    file = BytesIO()
    chakra.write(file, nodes, {})
    return file.getvalue()


def test_the_bytes_are_those_of_the_schema() -> None:
    content = written(NODES)
    metadata, one, two = chakra._messages(content)
    assert metadata == b"\x0a\x050.0.4"
    assert one == b"\x08\x01\x12\x01a\x18\x04\x38\x05"  # id, name, COMP_NODE, 5 us
    attribute = b"\x0a\x09comm_type\x48\x06"  # name; int64_val 6, an all-to-all
    assert two == (
        b"\x08\x02" b"\x12\x01b" b"\x18\x07" b"\x2a\x01\x01" b"\x52" + bytes([len(attribute)])
        + attribute
    )  # fmt: skip
    assert content.startswith(b"\x07\x0a")  # a message follows its length


def test_what_is_written_is_read() -> None:
    about, nodes = chakra.read(written(NODES))
    assert about == {"version": "0.0.4"}
    assert nodes == NODES


def test_a_long_message_has_a_length_of_several_bytes() -> None:
    node = Node(1, "n" * 300, "compute")
    assert chakra.read(written((node,)))[1] == (node,)


def test_fields_beyond_the_schema_here_are_skipped() -> None:
    storage = b"\x5a\x02\x08\x01"  # field 11, a message
    content = written(NODES[:1]) + bytes([len(storage) + 2]) + b"\x08\x09" + storage
    assert [node.id for node in chakra.read(content)[1]] == [1, 9]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "empty"),
        (b"\xff" * 9, "not the length"),
        (written(NODES)[:-1], "truncated"),
        (b"\x03\xff\xff\xff", "not a GlobalMetadata"),
        (written(NODES[1:]), "waits for node 1"),
        (b"\xff\xff\xff\x7f", "would have"),
    ],
)
def test_other_bytes_are_refused_with_their_place(content: bytes, said: str) -> None:
    with pytest.raises(InvalidValue, match=said):
        chakra.read(content)

"""The header frame: plain values only, bounded, whatever the bytes say."""

import tracemalloc

import msgpack
import pytest
from hypothesis import given

from protocol.errors import LocalProtocolError, RemoteProtocolError
from protocol.header import find_fault, is_plain, pack, unpack
from protocol.limits import MAX_HEADER_CONTAINERS, MAX_HEADER_DEPTH, MAX_INTEGER
from tests.protocol.strategies import plain_maps


def nested(depth):
    """A map in which ``depth`` containers stand within each other, itself included."""
    value = {}
    for _ in range(depth - 1):
        value = {"x": value}
    return value


@given(plain_maps)
def test_plain_values_survive(value):
    """What `pack` takes, `unpack` returns."""
    assert unpack(pack(value, "TEST")) == value


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ({}, None),
        ({"a": [1, "x", b"y", None, True, 0.5, {"b": ()}]}, None),
        ({"a": MAX_INTEGER, "b": -MAX_INTEGER}, None),
        ({"a": {"b": [0, MAX_INTEGER + 1]}}, "a.b.1 is an integer of more than 63 bits"),
        ({"a": -MAX_INTEGER - 1}, "a is an integer of more than 63 bits"),
        ({"a": {1, 2}}, "a is a builtins.set, not a plain value"),
        ({"a": [{"b": object}]}, "a.0.b is a builtins.type, not a plain value"),
        ({1: 2}, "the map has a key of type int, keys are strings"),
        ({"a": {b"b": 2}}, "a has a key of type bytes, keys are strings"),
        ({"a": {None: 2}}, "a has a key of type NoneType, keys are strings"),
    ],
)
def test_faults_are_found_by_path(value, fault):
    """[wire 34, 35] The path leads to the first value that is not plain."""
    assert find_fault(value) == fault
    assert is_plain(value) is (fault is None)


def test_depth_is_limited_on_both_sides():
    """The deepest legal map passes, one more container does not."""
    assert unpack(pack(nested(MAX_HEADER_DEPTH), "TEST")) == nested(MAX_HEADER_DEPTH)
    with pytest.raises(LocalProtocolError, match="TEST cannot be sent: more than 16 containers"):
        pack(nested(MAX_HEADER_DEPTH + 1), "TEST")
    with pytest.raises(RemoteProtocolError, match="more than 16 containers"):
        unpack(msgpack.packb(nested(MAX_HEADER_DEPTH + 1)))


def test_the_number_of_containers_is_limited_on_both_sides():
    """[wire 31] 64 KiB of empty maps would cost 5 MB and 20 ms to build; 8,192 of them do not."""
    most = {"a": [{}] * (MAX_HEADER_CONTAINERS - 2)}
    assert unpack(pack(most, "TEST")) == most
    for more in ({"a": [{}] * (MAX_HEADER_CONTAINERS - 1)}, {"a": [[]] * (MAX_HEADER_CONTAINERS - 1)}):
        with pytest.raises(
            LocalProtocolError, match="TEST cannot be sent: its header has more than 8192 maps"
        ):
            pack(more, "TEST")
        with pytest.raises(RemoteProtocolError, match="more than 8192 maps and lists"):
            unpack(msgpack.packb(more))


def test_text_that_is_no_text_is_refused():
    """A lone surrogate has no UTF-8."""
    with pytest.raises(LocalProtocolError, match="TEST cannot be sent"):
        pack({"a": "\ud800"}, "TEST")


BOMBS = {
    "array32 that declares 4 billion": b"\xdd\xff\xff\xff\xff",
    "map32 that declares 4 billion": b"\xdf\xff\xff\xff\xff",
    "bin32 that declares 4 GiB": b"\xc6\xff\xff\xff\xff",
    "str32 that declares 4 GiB": b"\xdb\xff\xff\xff\xff",
    "ext32 that declares 4 GiB": b"\xc9\xff\xff\xff\xff\x01",
    "array32 as large as the frame, nested": b"\xdd\x00\x00\xff\xff" * 1000,
    "arrays that declare 16,384 each, 1,000 within each other": b"\xdc\x40\x00" * 1000 + b"\0" * 60_000,
    "array16 nested in map": b"\x81\xa1a" + b"\xdc\x0f\xff" * 1000,
    "map16 nested": b"\xde\xff\xff\xa1a" * 1000,
    "10,000 arrays within each other": b"\x91" * 10_000 + b"\x00",
    "10,000 maps within each other": b"\x81\xa1a" * 10_000 + b"\x00",
    "1,000 arrays within each other, complete": b"\x91" * 1000 + b"\x00",
    "a key twice": b"\x82\xa1a\x01\xa1a\x02",
    "a key twice, deep": b"\x81\xa1b\x92\x00\x82\xa1a\x01\xa1a\x01",
    "integer key": b"\x81\x01\x02",
    "byte-string key": b"\x81\xc4\x01a\x02",
    "array key": b"\x81\x91\x01\x02",
    "map key": b"\x81\x80\x02",
    "nil key": b"\x81\xc0\x02",
    "float key": b"\x81\xcb" + b"\0" * 8 + b"\x02",
    "ext type": b"\x81\xa1a\xd4\x05x",
    "timestamp": b"\x81\xa1a\xd6\xff\x00\x00\x00\x00",
    "uint64 above 63 bits": b"\x81\xa1a\xcf\x80\x00\x00\x00\x00\x00\x00\x00",
    "int64 below 63 bits": b"\x81\xa1a\xd3\x80\x00\x00\x00\x00\x00\x00\x00",
    "invalid UTF-8": b"\x81\xa1a\xa2\xff\xfe",
    "invalid UTF-8 key": b"\x81\xa1\xff\x02",
    "surrogate in UTF-8": b"\x81\xa1a\xa3\xed\xa0\x80",
    "never used byte": b"\xc1",
    "nothing": b"",
    "no map": b"\x90",
    "an integer": b"\x05",
    "cut map": b"\x82\xa1a\x01",
    "two maps": b"\x80\x80",
    "pickle": b"\x80\x04\x95\x1a\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93\x94.",
    "65,537 bytes": b"\x81\xa1a\xc5\xff\xf7" + b"\0" * 65531,
}


@pytest.mark.parametrize("frame", BOMBS.values(), ids=BOMBS.keys())
def test_hostile_bytes_cost_nothing(frame):
    """[wire 31, 35] [complaints 49] Each is refused as malformed, and no more than 1 MB is allocated."""
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError) as caught:
            unpack(frame)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert caught.value.code == "malformed"
    assert peak < 1_000_000


def test_the_walk_before_unpacking_is_needed():
    """A truncated header of legal size, for which msgpack alone allocates tens of megabytes."""
    tracemalloc.start()
    with pytest.raises(ValueError, match="incomplete"):
        msgpack.unpackb(BOMBS["arrays that declare 16,384 each, 1,000 within each other"])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak > 10_000_000


def test_large_headers_are_refused_by_their_size():
    """Before anything looks at them."""
    with pytest.raises(RemoteProtocolError, match="header of 65537 bytes, 65536 are allowed"):
        unpack(b"\x80" * 65537)


def test_errors_do_not_grow_with_what_the_peer_sent():
    """They must fit into an ERROR message."""
    with pytest.raises(RemoteProtocolError) as caught:
        unpack(msgpack.packb({"x" * 10_000: 2**63}))
    assert len(str(caught.value)) == 500

"""The written specification and the code say the same: every table of protocol/README.md is parsed."""

import re
import types
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
import pytest

from protocol import limits, messages, session
from protocol.codec import TYPES
from protocol.errors import RemoteProtocolError
from protocol.tensors import Tensor

TEXT = (Path(__file__).parents[2] / "protocol" / "README.md").read_text()
NAMED = {
    messages.UInt: "uint",
    messages.Crc32: "crc32",
    messages.Hash: "hash",
    messages.Id: "bytes16",
    messages.Text: "text",
    messages.Rows: "rows",
    Annotated[bytes, msgspec.Meta(max_length=16)]: "bytes up to 16",
    Annotated[str, msgspec.Meta(max_length=limits.MAX_NAME_BYTES)]: "text up to 128",
    dict[str, Any]: "map",
    dict[str, str]: "map of text",
    dict[str, float]: "map of float",
    tuple[str, ...]: "list of text",
    bool: "bool",
    float: "float",
    type(None): "nil",
}
WORDS = {None: "nil", True: "true", False: "false"}


def table(head: str) -> list[list[str]]:
    """The rows of the table whose head starts with these cells."""
    lines = TEXT.splitlines()
    found = [number for number, line in enumerate(lines) if line.startswith(f"| {head} |")]
    assert len(found) == 1, f"table {head!r}: {len(found)} found"
    rows = []
    for line in lines[found[0] + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def written_type(annotation: Any) -> str:
    """An annotation in the words of the specification."""
    if annotation in NAMED:
        return NAMED[annotation]
    if get_origin(annotation) is Literal:
        return " or ".join(f'`"{value}"`' for value in get_args(annotation))
    if get_origin(annotation) in (Union, types.UnionType):
        return " or ".join(map(written_type, get_args(annotation)))
    raise AssertionError(f"the specification has no word for {annotation}")


def written_default(field: msgspec.structs.FieldInfo) -> str:
    """A field's default in the words of the specification; empty if it must be given."""
    if field.required:
        return ""
    default = field.default
    if default is msgspec.NODEFAULT:
        default = field.default_factory()
    if isinstance(default, bool) or default is None:
        return f" ? = {WORDS[default]}"
    if isinstance(default, int):
        return f" ? = {default}"
    return (
        {"": ' ? = `""`', (): " ? = `[]`"}.get(default, f' ? = `"{default}"`')
        if default != {}
        else " ? = `{}`"
    )


def test_title_names_the_version() -> None:
    """Title and version table carry the version of the code."""
    assert f"protocol, version {limits.MAJOR}.{limits.MINOR}\n" in TEXT.partition("\n\n")[0] + "\n"
    values = [limits.MAGIC.decode(), str(limits.MAJOR), str(limits.MINOR)]
    assert table("part") == [
        [name, value] for name, value in zip(("magic", "major", "minor"), values, strict=True)
    ]


def test_every_message_with_direction_and_tensor() -> None:
    """The table of messages is the closed set of types, who sends them, and what they carry."""
    expected = []
    for name, kind in TYPES.items():
        sides = (kind in messages.FROM_AGENT, kind in messages.FROM_SERVER)
        direction = {(True, False): "agent", (False, True): "server", (True, True): "both"}[sides]
        tensors = [f"`{tensor}`" for tensor in messages.TENSORS.get(kind, ())]
        tensors += [f"`{tensor}` ?" for tensor in messages.OPTIONAL_TENSORS.get(kind, ())]
        expected.append([name, direction, ", ".join(tensors)])
    assert [row[:3] for row in table("message | from")] == expected


def test_every_field_with_type_and_default() -> None:
    """Each field of each message stands in the text, in order, with its type and default."""
    expected = [
        [f"{name} `{field.encode_name}`", written_type(field.type) + written_default(field)]
        for name, kind in TYPES.items()
        for field in msgspec.structs.fields(kind)
    ]
    assert [row[:2] for row in table("field | type")] == expected


def test_header_fields() -> None:
    """The header's table holds the session fields, then the message and the tensors."""
    expected = [[f"`{f.encode_name}`", written_type(f.type)] for f in msgspec.structs.fields(messages.Header)]
    rows = [row[:2] for row in table("header field | type")]
    assert rows == [*expected, ["`message`", "map"], ["`tensors`", "list"]]


def test_tensor_fields() -> None:
    """The entries of tensors, with the whitelist of dtypes."""
    dtypes = " or ".join(f'`"{dtype}"`' for dtype in limits.DTYPES)
    expected = [
        [f"`{field.encode_name}`", dtypes if field.name == "dtype" else written_type(field.type)]
        for field in msgspec.structs.fields(Tensor)
    ]
    assert [row[:2] for row in table("tensor field | type")] == expected


def test_every_limit() -> None:
    """Each number of limits.py that bounds the wire, and those that WELCOME carries."""
    elsewhere = {"MAGIC", "MAJOR", "MINOR", "DTYPES", "CHUNK_BYTES", "MAX_TENSOR_BYTES"}
    numbers = {
        name: value for name, value in vars(limits).items() if name.isupper() and name not in elsewhere
    }
    numbers.update(msgspec.structs.asdict(limits.Limits()))
    assert {row[0].strip("`"): row[1] for row in table("limit | value")} == {
        name: str(value) for name, value in numbers.items()
    }


def test_every_state() -> None:
    """The table of states is the enumeration."""
    assert [row[0] for row in table("state | meaning")] == [state.value for state in session.State]


def test_every_transition() -> None:
    """The table of order is `session.RULES`, row by row."""
    expected = [
        [
            session.name(rule.message),
            ", ".join(state.value for state in rule.states),
            rule.next.value if rule.next else "same",
            rule.role or "both",
        ]
        for rule in session.RULES
    ]
    assert table("message | legal in") == expected


def test_types_outside_a_session() -> None:
    """The sentence about messages without a session names exactly those types."""
    found = re.search(r"Outside a session \(empty id, number 0\) stand: ([A-Z, ]+)\.", TEXT)
    assert found
    assert found[1].split(", ") == [session.name(kind) for kind in session.OUTSIDE]


def test_every_feature() -> None:
    """The table of features, with the version since which each exists; none is newer than this one."""
    features = messages.FEATURES
    rows = [[name, f"{limits.MAJOR}.{minor}"] for name, minor in features.items()]
    assert [row[:2] for row in table("feature | since")] == rows
    assert max(features.values()) <= limits.MINOR


def test_every_error_code() -> None:
    """The table of errors is the closed set of codes."""
    codes = get_args(messages.Error.__annotations__["code"])
    assert [row[0] for row in table("code | cause")] == list(codes)


def test_heartbeats_are_those_of_the_sockets() -> None:
    """The ZMTP heartbeat times in the text are those the sockets set."""
    from protocol.transport import pump

    every, timeout = pump.HEARTBEAT_MS // 1000, pump.HEARTBEAT_TIMEOUT_MS // 1000
    assert f"every {every} s, {timeout} s without an answer" in TEXT.replace("\n", " ")


@pytest.mark.parametrize("kind", TYPES.values(), ids=TYPES.keys())
def test_every_type_is_ordered_and_documented(kind: type[messages.Message]) -> None:
    """Each type is legal somewhere, is sent by somebody, and its record says what it is for."""
    assert any(rule.message is kind for rule in session.RULES)
    assert kind in messages.FROM_AGENT + messages.FROM_SERVER
    assert kind.__doc__


def test_codes_of_raised_errors_exist() -> None:
    """Every code that the protocol raises is one that ERROR can carry."""
    codes = set(get_args(messages.Error.__annotations__["code"]))
    package = Path(limits.__file__).parent
    raised = {
        code
        for path in package.glob("*.py")
        for code in re.findall(r'RemoteProtocolError\(\s*"(\w+)"', path.read_text())
    }
    assert raised and raised <= codes
    assert RemoteProtocolError("malformed", "x").code in codes

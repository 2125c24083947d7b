"""A plain mapping into a settings record, with every fault and not only the first.

`msgspec.convert` stops at the first wrong value and names it in its own words. Here each key is converted
alone, so that a person who wrote three mistakes reads three messages, each with its dotted path.
"""

import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from edge_fed.errors import Fault, nearest

Record = TypeVar("Record", bound=msgspec.Struct)
_WRONG = object()
UNKNOWN_KEY = "unknown key"
LONG = 1e7  # bounds above it read better as 1e+12
MAX_DEPTH = 14
"""Tables and lists within each other: what WELCOME, two maps further out, can carry to agents."""


def convert(tree: object, kind: type[Record], faults: list[Fault], path: str = "") -> Record | None:
    """Converts ``tree`` into ``kind``.

    Args:
        tree: Plain values as TOML gives them.
        kind: A record of settings.
        faults: What is wrong is appended here.
        path: Dotted path of ``tree`` itself.

    Returns:
        The record, or None if a value is wrong or missing (an unknown key alone does not prevent it).
    """
    if deep := too_deep(tree):
        why = f"stands in more than {MAX_DEPTH} tables and lists within each other"
        faults.append(Fault(_join(path, deep), why, "write it flatter"))
        return None
    value = _convert(tree, kind, faults, path)
    return None if value is _WRONG else typing.cast(Record, value)


def too_deep(tree: object) -> str | None:
    """The dotted path of a value that is nested deeper than `MAX_DEPTH`; None: there is none."""
    level = [("", tree)]
    for depth in range(MAX_DEPTH + 1):
        level = [(_join(path, key), below) for path, value in level for key, below in _below(value)]
        if depth == MAX_DEPTH and level:
            return level[0][0]
    return None


def describe(kind: Any) -> str:
    """What a value may be, in words: ``a whole number from 1 to 100``."""
    return _words(inspect.type_info(kind))


def _convert(value: Any, kind: Any, faults: list[Fault], path: str) -> Any:
    kind = _required(kind) if value is not None else kind
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _record(value, kind, faults, path)
    if origin is tuple and isinstance(value, list | tuple):
        items = tuple(_convert(v, inner[0], faults, _join(path, str(i))) for i, v in enumerate(value))
        return _whole(items, items)
    if origin is dict and inner[1] is not Any and isinstance(value, Mapping):
        table = {k: _convert(v, inner[1], faults, _join(path, k)) for k, v in value.items()}
        return _whole(table, table.values())
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        faults.append(Fault(path, f"is {show(value)}, expected {describe(kind)}", _hint(value, kind)))
        return _WRONG


def _below(value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, list | tuple):
        yield from ((str(index), item) for index, item in enumerate(value))


def _required(kind: Any) -> Any:
    """``T`` of ``T | None``; anything else as it is."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        options = [option for option in typing.get_args(kind) if option is not type(None)]
        return options[0] if len(options) == 1 else kind
    return kind


def _record(value: Any, kind: type[msgspec.Struct], faults: list[Fault], path: str) -> Any:
    if not isinstance(value, Mapping):
        faults.append(Fault(path, f"is {show(value)}, expected a table"))
        return _WRONG
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    for key in (key for key in value if key not in fields):
        faults.append(Fault(_join(path, key), UNKNOWN_KEY, nearest(key, fields)))
    found = {
        field.name: _convert(value[name], field.type, faults, _join(path, name))
        for name, field in fields.items()
        if name in value
    }
    for name, field in fields.items():
        if field.required and name not in value:
            found[name] = _WRONG
            faults.append(Fault(_join(path, name), "is missing", f"expected {describe(field.type)}"))
    return kind(**found) if _whole(True, found.values()) is True else _WRONG


def _whole(result: Any, parts: Iterable[Any]) -> Any:
    """``result``, unless one of its parts is wrong."""
    return _WRONG if any(part is _WRONG for part in parts) else result


def show(value: object) -> str:
    """A value as its file shows it, cut where it is long."""
    text = {True: "true", False: "false"}[value] if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _hint(value: Any, kind: Any) -> str:
    allowed = [v for v in _literals(inspect.type_info(kind)) if isinstance(v, str)]
    hint = nearest(value, allowed) if isinstance(value, str) and allowed else ""
    return hint if hint.startswith("did you mean") else ""  # all of them stand in what was expected


def _literals(info: inspect.Type) -> Iterator[Any]:
    if isinstance(info, inspect.LiteralType):
        yield from info.values
    elif isinstance(info, inspect.UnionType):
        for part in info.types:
            yield from _literals(part)


def _words(info: inspect.Type) -> str:
    match info:
        case inspect.UnionType():
            return " or ".join(_words(t) for t in info.types if not isinstance(t, inspect.NoneType))
        case inspect.LiteralType():
            return (
                "one of " + ", ".join(f'"{v}"' for v in info.values) if len(info.values) > 1 else _only(info)
            )
        case inspect.IntType():
            return "a whole number" + _bounds(info)
        case inspect.FloatType():
            return "a number" + _bounds(info)
        case inspect.BoolType():
            return "true or false"
        case inspect.StrType():
            return "text"
        case inspect.VarTupleType() | inspect.ListType():
            return f"a list, each {_words(info.item_type)}"
        case inspect.DictType() | inspect.StructType():
            return "a table"
    return "a value"


def _only(info: inspect.LiteralType) -> str:
    return f'"{info.values[0]}"'


def _bounds(info: inspect.IntType | inspect.FloatType) -> str:
    low = f" of at least {_number(info.ge)}" if info.ge is not None else ""
    low = f" above {_number(info.gt)}" if info.gt is not None else low
    high = f" at most {_number(info.le)}" if info.le is not None else ""
    high = f" below {_number(info.lt)}" if info.lt is not None else high
    joint = " and" if low and high else " of" if high.startswith(" at") else ""
    return low + joint + high


def _number(bound: float) -> str:
    """A whole number to its last digit (2**63 - 1 is no 9.2e18); of others six digits, if there are many."""
    if isinstance(bound, int) or (bound == int(bound) and abs(bound) <= LONG):
        return str(int(bound))
    return f"{bound:g}"


def _join(path: str, key: str) -> str:
    key = key or '""'  # TOML allows an empty key, and a fault needs a place
    return f"{path}.{key}" if path else key

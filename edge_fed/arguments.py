"""Free-form ``args`` tables of families and policies, read into a typed record, errors by name."""

import math
from typing import Any, TypeVar

import msgspec

from edge_fed.errors import nearest

Record = TypeVar("Record", bound=msgspec.Struct)


def read_args(kind: type[Record], args: dict[str, Any], owner: str) -> Record:
    """Builds the record ``kind`` from ``args``; what is not named keeps the record's default.

    Args:
        kind: A frozen struct whose fields are the allowed names, with their bounds.
        args: As written in the configuration.
        owner: Whose arguments these are, for the message, e.g. ``gridworld``.

    Raises:
        ValueError: An unknown name, a wrong type or a value out of bounds; the message names it.
    """
    known = kind.__struct_fields__
    for name, value in args.items():
        if name not in known:
            raise ValueError(f"{owner} has no argument {name!r}; {nearest(name, known)}")
        if any(isinstance(number, float) and not math.isfinite(number) for number in _leaves(value)):
            raise ValueError(f"{owner} argument {name!r} must be finite, not {value!r}")
    try:
        return msgspec.convert(args, kind)
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at `$.")
        name = path.rstrip("`")
        found = args.get(name.partition("[")[0])
        raise ValueError(f"{owner} argument {name!r}: {problem}, found {found!r}") from None


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in _leaves(item)]
    return [value]

"""Settings from a TOML file and ``--set`` into one record, or every fault with its place.

A key that the file leaves out has the value of the few-shot experiment (`edge_fed.config`), with one
exception: a file that names its own ``[[agents]]`` and no ``[onboarding]`` announces no onboarders.
"""

import difflib
import re
import tomllib
import types
import typing
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from edge_fed.config import Agents, RunConfig
from edge_fed.errors import ConfigError, Fault, nearest
from edge_fed.program.conversion import UNKNOWN_KEY, convert
from edge_fed.program.toml_lines import key_lines, line_of
from edge_fed.validation import check_run

Config = TypeVar("Config", bound=RunConfig)
Tree = dict[str, Any]
DEFAULTS = "built-in few-shot configuration"


def load_config(path: Path | str | None, sets: Sequence[str] = ()) -> RunConfig:
    """Reads the configuration of a server.

    Args:
        path: TOML file; None: the few-shot configuration.
        sets: ``a.b=value`` overrides, see `assign`.

    Raises:
        ConfigError: Lists every fault.
    """
    if path is None:
        return load("", RunConfig, check_run, sets, DEFAULTS)
    path = Path(path)
    return load(read(path), RunConfig, check_run, sets, str(path), path.stem)


def load(
    text: str,
    kind: type[Config],
    check: Callable[[Config], list[Fault]],
    sets: Sequence[str] = (),
    source: str = "configuration",
    name: str = "",
) -> Config:
    """Turns a TOML text into a checked record.

    Args:
        text: The file's content; empty: all defaults.
        kind: `RunConfig` or a child of it.
        check: Finds what needs two fields or a table; called if each field alone is right.
        sets: Overrides.
        source: Name of the file, for messages.
        name: The run's name if the text gives none.

    Raises:
        ConfigError: Lists every fault.
    """
    tree = parse(text, source)
    if name:
        tree.setdefault("name", name)
    if "agents" in tree:
        tree.setdefault("onboarding", {})
    faults: list[Fault] = []
    changed = [path for path in (assign(tree, kind, setting, faults) for setting in sets) if path]
    config = convert(tree, kind, faults)
    if kind is RunConfig:
        faults = [_scenario_key(fault) for fault in faults]
    if config is not None:
        faults += check(config)
    else:
        faults += _unknown(tree, kind, check, faults)
    if config is None or faults:
        lines = key_lines(text)
        faults = [_beside_link(fault) for fault in faults]
        raise ConfigError([_placed(fault, lines, changed) for fault in faults], source)
    return config


def _unknown(
    tree: Tree, kind: type[Config], check: Callable[[Config], list[Fault]], faults: Sequence[Fault]
) -> list[Fault]:
    """Names that exist nowhere, in a tree with values of wrong types: they are wrong whatever those mean.

    Other faults of the check may follow from what is left out here, so that they must wait.
    """
    for fault in faults:
        _remove(tree, fault.path.split("."))
    rest = convert(tree, kind, [])
    known = {fault.path for fault in faults}
    found = check(rest) if rest is not None else []
    return [fault for fault in found if fault.message.startswith("unknown ") and fault.path not in known]


def _remove(place: Any, path: Sequence[str]) -> None:
    """Takes one key out of a tree; an entry of a list stays, for the others keep their numbers."""
    *parents, last = path
    for part in parents:
        if isinstance(place, list) and part.isdecimal() and int(part) < len(place):
            place = place[int(part)]
        elif isinstance(place, dict):
            place = place.get(part)
        else:
            return
    if isinstance(place, dict):
        place.pop(last, None)


def read(path: Path, known: Collection[str] = ()) -> str:
    """Reads a text file.

    Args:
        path: The file.
        known: Other names that the user may have meant (the scenario library).

    Raises:
        ConfigError: It is missing or no UTF-8 text; the hint names the nearest file or name.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ConfigError([Fault(str(path), "no such file", _nearest_file(path, known))], "file") from None
    except UnicodeDecodeError as error:
        fault = Fault(str(path), f"is no UTF-8 text (byte {error.start})", "save it as UTF-8")
        raise ConfigError([fault], "file") from None
    except OSError as error:
        fault = Fault(str(path), f"cannot be read: {error.strerror}", "name a TOML file")
        raise ConfigError([fault], "file") from None


def parse(text: str, source: str = "configuration") -> Tree:
    """Parses TOML.

    Raises:
        ConfigError: With the line where the parser stopped.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        place = re.search(r"\(at line (\d+), column (\d+)\)", message)
        line = int(place[1]) if place else len(text.splitlines()) or 1
        what = re.sub(r"\s*\(at .*\)$", "", message)
        fault = Fault("TOML", f"{what[:1].lower()}{what[1:]}", "correct that line", line)
        raise ConfigError([fault], source) from None
    except ValueError:  # Python reads no integer of more than 4,300 digits
        fault = Fault("TOML", "a number has thousands of digits", "a whole number has at most 64 bits")
        raise ConfigError([fault], source) from None
    except RecursionError:
        fault = Fault("TOML", "brackets within brackets without end", "write lists and tables side by side")
        raise ConfigError([fault], source) from None


def assign(tree: Tree, kind: type[msgspec.Struct], setting: str, faults: list[Fault]) -> str | None:
    """Applies one override ``a.b=value`` to ``tree`` in place.

    The value is read as TOML, else taken as text; ``agents.0.goals`` indexes lists. Where the file leaves
    out what is indexed, the defaults of ``kind`` are written out first.

    Returns:
        The dotted path that was set, or None after a fault.
    """
    try:
        setting.encode()
    except UnicodeEncodeError:  # bytes of the command line that are no text
        faults.append(Fault("--set", f"{setting!r} is no UTF-8 text", "write --set algorithm.rounds=20"))
        return None
    path, equals, text = setting.partition("=")
    path = path.strip()
    if not equals or not all(path.split(".")):
        faults.append(Fault("--set", f"{setting!r} is no override", "write --set algorithm.rounds=20"))
        return None
    *parents, last = path.split(".")
    place: Any = tree
    known: Any = kind
    walked: list[str] = []
    for part in parents:
        place, known = _enter(place, known, part, ".".join([*walked, part]), faults)
        walked.append(part)
        if place is None:
            return None
    field = _fields(known).get(last) if isinstance(place, dict) else None
    value = _value(text.strip(), field.type if field else None)
    return path if _put(place, last, value, path, faults) else None


def _enter(place: Any, known: Any, part: str, path: str, faults: list[Fault]) -> tuple[Any, Any]:
    """One step down the tree and the types; (None, None) after a fault."""
    if isinstance(place, list):
        if not _index(place, part, path, faults):
            return None, None
        below, kind = place[int(part)], _item(known)
    else:
        fields = _fields(known)
        if fields and part not in fields:
            faults.append(Fault(path, UNKNOWN_KEY, f"{nearest(part, fields)}; given by --set"))
            return None, None
        field = fields.get(part)
        if part not in place:
            default = field.default if field and field.default is not msgspec.NODEFAULT else None
            place[part] = msgspec.json.decode(msgspec.json.encode(default)) if default is not None else {}
        below, kind = place[part], field.type if field else None
    if not isinstance(below, dict | list):
        faults.append(Fault(path, "is no table or list, nothing can be set below it", "given by --set"))
        return None, None
    return below, kind


def _put(place: Any, last: str, value: Any, path: str, faults: list[Fault]) -> bool:
    if isinstance(place, list):
        if not _index(place, last, path, faults):
            return False
        place[int(last)] = value
    else:
        place[last] = value
    return True


def _index(place: list[Any], part: str, path: str, faults: list[Fault]) -> bool:
    if part.isdecimal() and len(part) < 10 and int(part) < len(place):
        return True
    valid = f"0 to {len(place) - 1}" if place else "none: the list is empty"
    faults.append(Fault(path, f"{part!r} is no index of this list", f"valid: {valid}; given by --set"))
    return False


def _value(text: str, kind: Any) -> Any:
    """The text as a TOML value, unless only the text itself fits (``--set onboarding.goals=6``)."""
    try:
        value = tomllib.loads(f"value = {text}")["value"] if "\n" not in text else text
    except (ValueError, RecursionError):  # no TOML, digits without end, brackets without end
        return text
    return text if kind is not None and not _fits(value, kind) and _fits(text, kind) else value


def _fits(value: Any, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind)
    except (msgspec.ValidationError, RecursionError):
        return False
    return True


def _fields(known: Any) -> dict[str, Any]:
    """The fields of a record type, also of an optional one; empty for anything else."""
    options = (
        typing.get_args(known) if typing.get_origin(known) in (typing.Union, types.UnionType) else [known]
    )
    for option in options:
        if isinstance(option, type) and issubclass(option, msgspec.Struct):
            return {field.encode_name: field for field in msgspec.structs.fields(option)}
    return {}


def _item(known: Any) -> Any:
    return typing.get_args(known)[0] if typing.get_origin(known) is tuple else None


def _placed(fault: Fault, lines: dict[str, int], changed: Sequence[str]) -> Fault:
    """Adds the line, or the remark that the command line gave the value."""
    if any(fault.path == path or fault.path.startswith(path + ".") for path in changed):
        hint = f"{fault.hint}; given by --set" if fault.hint else "given by --set"
        return msgspec.structs.replace(fault, hint=hint)
    return msgspec.structs.replace(fault, line=fault.line or line_of(fault.path, lines))


def _scenario_key(fault: Fault) -> Fault:
    if fault.path in ("timeline", "expect") and fault.message == UNKNOWN_KEY:
        hint = "the file is a scenario; run it with: python -m scenarios run FILE"
        return Fault(fault.path, "belongs to scenarios, not to a server", hint)
    return fault


def _beside_link(fault: Fault) -> Fault:
    """A key of ``[[agents]]`` that stands in the table of its link."""
    inside = re.fullmatch(r"agents\.\d+\.link\.(\w+)", fault.path)
    if inside and inside[1] in Agents.__struct_fields__:
        hint = f"{inside[1]} is a key of [[agents]]; write it beside link"
        return msgspec.structs.replace(fault, message="unknown key of a link", hint=hint)
    return fault


def _nearest_file(path: Path, known: Collection[str]) -> str:
    """The name that was probably meant: one that is known, or a file beside the missing one."""
    try:
        files = {p.name: str(p) for p in path.parent.iterdir() if p.suffix == ".toml"}
    except OSError:
        return f"the folder {path.parent} does not exist"
    names = {**{name: name for name in known}, **files}
    for wanted in (path.name, path.stem):
        if close := difflib.get_close_matches(wanted, names, n=1):
            return f"did you mean {names[close[0]]!r}?"
    listed = ", ".join(known) or ", ".join(sorted(files))
    return f"known: {listed}" if listed else f"no .toml file in {path.parent}"

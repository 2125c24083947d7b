"""The flags of ``python -m agent`` that change one agent alone: the run records them as its overrides."""

import argparse
from typing import Any

import msgspec

from agent.flag_values import count, seconds
from edge_fed.config import Device, Overrides, changed
from edge_fed.errors import Fault, nearest
from edge_fed.profiles import LINK_BOUNDS, PRESETS
from edge_fed.program.conversion import UNKNOWN_KEY, convert
from protocol.codec import encode
from protocol.errors import LocalProtocolError
from protocol.messages import Header, Register

FLAG_OF = {"compute_delay_s": "--compute-delay"}  # the others have the name of their setting


def add_own(own: argparse._ArgumentGroup) -> None:
    """The flags, but ``--device``."""
    own.add_argument("--inner-batch", type=count, metavar="N")
    own.add_argument("--hessian-batch", type=count, metavar="N")
    own.add_argument("--outer-batch", type=count, metavar="N")
    own.add_argument("--curvature", metavar="NAME", help="estimator of the exact variant")
    own.add_argument("--env-arg", action="append", default=[], metavar="KEY=VALUE", help="of its environment")
    own.add_argument("--compute-delay", type=seconds, metavar="S", help="added to each local step")
    own.add_argument(
        "--link", action="append", default=[], metavar="KEY=VALUE",
        help="emulated link: " + ", ".join(LINK_BOUNDS),
    )  # fmt: skip
    own.add_argument("--profile", choices=tuple(PRESETS), help="emulated link by name; --link goes over it")
    own.add_argument("--completeness", metavar="PART", help="least part of the local steps that it does")
    own.add_argument(
        "--responsiveness", action="append", default=[], metavar="KEY=VALUE",
        help="seconds before it begins to work in a round, log-normal: median_s, spread",
    )  # fmt: skip


def overrides_of(p: argparse.ArgumentParser, chosen: argparse.Namespace, device: Device | None) -> Overrides:
    """This agent's own settings, checked as far as that is possible without the server."""
    tree: dict[str, Any] = {
        "args": _pairs(p, "--env-arg", chosen.env_arg),
        "inner_batch": chosen.inner_batch,
        "hessian_batch": chosen.hessian_batch,
        "outer_batch": chosen.outer_batch,
        "curvature": chosen.curvature,
        "compute_delay_s": chosen.compute_delay,
        "link": _pairs(p, "--link", chosen.link) or None,
        "profile": chosen.profile,
        "completeness": None if chosen.completeness is None else _value(chosen.completeness),
        "responsiveness": _pairs(p, "--responsiveness", chosen.responsiveness) or None,
        "device": None if device is None else msgspec.to_builtins(device),
    }
    faults: list[Fault] = []
    overrides = convert({name: value for name, value in tree.items() if value is not None}, Overrides, faults)
    if overrides is None or faults:  # an unknown key alone gives a record
        wrong = _link_faults(tree.get("link") or {})
        others = [_of_flag(fault) for fault in faults if fault.path != "link.profile"]
        p.error("; ".join([*others, *wrong]))
    if wrong := _link_faults(overrides.link or {}):
        p.error("; ".join(wrong))
    try:
        encode(Header(), Register(agent=chosen.goal, incarnation=bytes(16), overrides=changed(overrides)))
    except LocalProtocolError as error:
        p.error(f"the settings of this agent cannot be sent: {error}")
    return overrides


def _link_faults(link: dict[str, Any]) -> list[str]:
    """Keys that no link has, and numbers beyond its bounds."""
    found = []
    for key, value in link.items():
        if key == "profile":
            found.append("--link has no 'profile'; use --profile")
        elif key not in LINK_BOUNDS:
            found.append(f"--link has no {key!r}; {nearest(key, LINK_BOUNDS)}")
        elif isinstance(value, float) and not LINK_BOUNDS[key][0] <= value <= LINK_BOUNDS[key][1]:
            low, high = LINK_BOUNDS[key]
            found.append(f"--link {key}={value:g}: expected a number from {low:g} to {high:g}")
    return found


def _of_flag(fault: Fault) -> str:
    if fault.message == UNKNOWN_KEY:
        flag, _, key = _flag(fault.path).partition(" ")
        return f"{flag} has no {key!r}; {fault.hint}"
    return f"{_flag(fault.path)} {fault.message}"


def _flag(path: str) -> str:
    setting, _, below = path.partition(".")
    flag = FLAG_OF.get(setting, "--" + setting.replace("_", "-"))
    return f"{flag} {below}".rstrip()


def _pairs(p: argparse.ArgumentParser, option: str, pairs: list[str]) -> dict[str, Any]:
    found = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not key or not equals:
            p.error(f"{option} {pair!r}: write {option} key=value")
        found[key] = _value(text)
    return found


def _value(text: str) -> Any:
    """A TOML value, else the text itself."""
    import tomllib

    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):  # no TOML, digits without end, brackets without end
        return text

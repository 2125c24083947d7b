"""``python -m server keygen DIR``: the server's keys, keys for agents, and the allow-list."""

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from edge_fed.program.allow_list import parse_agents
from edge_fed.program.exit_codes import ExitCode, ProgramError
from edge_fed.program.flags import Flags
from edge_fed.program.keys import (
    AGENTS,
    ALLOW_LIST,
    SERVER_KEY,
    AllowFile,
    agent_key_name,
    exists,
    make_private_folder,
    read_server_secret,
    write_new_secret,
)
from protocol.transport import make_pair, public_of

MOST = 10_000  # key files that one command makes
SERVER_TEXT = """\
# edge_fed: the secret key of a server. Who has it can pose as the server: keep it here, mode 0600.
# public key, which every agent's key file names: {public}
secret = {secret}
"""
AGENT_TEXT = """\
# edge_fed: the secret key of {who}. Who has it can act as {who}: keep it on one device, mode 0600.
# public key, which the server's {list} names: {public}
secret = {secret}
# public key of the server
server = {server}
"""
LIST_TEXT = """\
# edge_fed: who may connect. One line a key:  KEY WHO [WHO ...]   # comment
#   WHO    an agent id, a range or a list of them (0   3-5   0,3-5): may train or onboard as these
#          onboard: may onboard any goal, but not train
# A running server reads this file again when it changes, or at once on SIGHUP. Take a line out to revoke
# a key: its session ends, and it does not come in again.
"""
EPILOG = """\
files in DIR (mode 0700; files 0600):
  server.key         secret key of the server; stays with the server
  allowed.txt        public keys that may connect, and as which agents; a text file, edit it at will
  agents/*.key       one file a device: its secret key and the server's public key. Copy it there
                     (scp -p DIR/agents/agent-0.key device:) and delete it here

then:
  python -m server --keys DIR --bind tcp://0.0.0.0:5555
  python -m agent --keys agent-0.key --goal 0 --server tcp://HOST:5555

again for more agents: only what is new is made; a secret that exists is never overwritten.
"""


class Holder(NamedTuple):
    """Somebody who gets a key."""

    name: str
    who: str
    rights: str


def parser() -> argparse.ArgumentParser:
    """The flags."""
    flags = Flags(
        prog="python -m server keygen",
        description="Makes keys, so that server and agents know each other and nobody listens or intrudes.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    flags.add_argument("folder", type=Path, metavar="DIR", help="where; made if it is not there")
    flags.add_argument(
        "--agents", type=_agents, default=frozenset(), metavar="IDS", help="one key each, e.g. 0-8 or 0,3-5"
    )
    flags.add_argument(
        "--onboarders", type=_names, default=(), metavar="NAMES",
        help="one key each that may onboard any goal but not train, e.g. laptop,phone",
    )  # fmt: skip
    return flags


def main(argv: Sequence[str]) -> int:
    """Runs the command; returns the exit code."""
    options = parser().parse_args(argv)
    try:
        made = keygen(options.folder, options.agents, options.onboarders)
    except ProgramError as error:
        hint = f"\n  {error.hint}" if error.hint else ""
        print(f"error: {error.message}{hint}", file=sys.stderr)
        return int(error.code)
    for line in made:
        print(line)
    return 0


def keygen(folder: Path, agents: frozenset[int], onboarders: Sequence[str] = ()) -> list[str]:
    """Makes what is missing of the server's keys, and keys for new holders.

    Args:
        folder: Of the keys.
        agents: Ids that get a key each.
        onboarders: Names that get a key each, for onboarding any goal.

    Returns:
        Lines for people: what was made and what to do next.

    Raises:
        ProgramError: A secret exists, or something cannot be written; then no agent's key was made.
    """
    holders = [
        *(Holder(agent_key_name(agent), f"agent {agent}", str(agent)) for agent in sorted(agents)),
        *(Holder(f"{name}.key", f"the onboarder {name}", "onboard") for name in onboarders),
    ]
    secret = folder / SERVER_KEY
    taken = [folder / AGENTS / h.name for h in holders if os.path.lexists(folder / AGENTS / h.name)]
    if taken or (not holders and os.path.lexists(secret)):
        raise exists(taken[0] if taken else secret)
    make_private_folder(folder)
    older = _older(folder, agents)
    lines = [] if os.path.lexists(secret) else _new_server(secret)
    server = public_of(read_server_secret(folder))
    if holders:
        make_private_folder(folder / AGENTS)
    _list(folder / ALLOW_LIST, [_new_holder(folder, holder, server) for holder in holders])
    lines += [f"made {folder / AGENTS / holder.name}, the key of {holder.who}" for holder in holders]
    return [*lines, *older, *_next(folder, holders)]


def _older(folder: Path, agents: frozenset[int]) -> list[str]:
    """Lines about agents that keep an earlier key besides their new one."""
    if not os.path.lexists(folder / ALLOW_LIST):
        return []
    rights = AllowFile(folder).read().all()
    found = [(agent, right.line) for right in rights for agent in sorted(agents & right.agents)]
    return [
        f"note: {ALLOW_LIST}, line {line}, still lets an earlier key act as agent {agent}; "
        "take it out to revoke that key"
        for agent, line in found
    ]


def _new_server(path: Path) -> list[str]:
    public, secret = make_pair()
    write_new_secret(path, SERVER_TEXT.format(public=public, secret=secret))
    return [f"made {path}, the secret key of the server; its public key: {public}"]


def _new_holder(folder: Path, holder: Holder, server: str) -> str:
    """Makes a key file; returns its line of the allow-list."""
    public, secret = make_pair()
    text = AGENT_TEXT.format(who=holder.who, list=ALLOW_LIST, public=public, secret=secret, server=server)
    write_new_secret(folder / AGENTS / holder.name, text)
    return f"{public} {holder.rights}  # {holder.name}\n"


def _list(path: Path, lines: list[str]) -> None:
    """Adds lines to the allow-list with one write: a server may read it meanwhile."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "r+b", buffering=0) as file:
            old = file.read() or b""
            head = "" if old else LIST_TEXT
            gap = "\n" if old and not old.endswith(b"\n") else ""
            file.write((head + gap + "".join(lines)).encode("ascii"))
            os.fsync(file.fileno())
    except OSError as error:
        raise ProgramError(ExitCode.USAGE, f"{path} cannot be written: {error.strerror}") from error


def _next(folder: Path, holders: list[Holder]) -> list[str]:
    where = shlex.quote(str(folder))
    lines = [f"allow-list: {folder / ALLOW_LIST}"]
    if holders:
        lines.append("copy each agent's file to its device and delete it here; nothing else has to go there")
    return [*lines, f"next: python -m server --keys {where} --bind tcp://0.0.0.0:5555"]


def _agents(text: str) -> frozenset[int]:
    try:
        ids = parse_agents(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if len(ids) > MOST:
        raise argparse.ArgumentTypeError(f"{text} are {len(ids)} agents; at most {MOST} at a time")
    return ids


def _names(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    for name in names:
        if not (name.isascii() and name.replace("-", "").replace("_", "").isalnum() and len(name) <= 64):
            raise argparse.ArgumentTypeError(f"{name[:40]!r}: a name has letters, digits, - and _")
        if name.startswith("agent-"):
            raise argparse.ArgumentTypeError(f"{name}: names with agent- in front are those of agents")
    if len(set(names)) < len(names):
        raise argparse.ArgumentTypeError(f"{text}: a name stands twice")
    return names

"""Who may connect: the server's keys, its allow-list as it changes, and the log of those who are refused."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from edge_fed.program.allow_list import AllowList
from edge_fed.program.exit_codes import ProgramError
from edge_fed.program.keys import AllowFile, Stamp, read_server_secret
from edge_fed.program.log import Logger
from protocol.transport import KINDS, Guard, Kind
from server.quiet import Quiet

LOOK_S = (
    1.0  # between two looks at the allow-list; a changed one counts when it has stood still from look to look
)
NEXT = {
    "server_key": "its file names another server key: give it a file that was made with this server's keys",
    "plain_peer": "give it a key file: python -m server keygen DIR --agents ID",
    "garbage": "",
    "broken_off": "normal once in a while; often: a stranger who scans ports, or an agent without keys",
}


class Doorkeeper:
    """Reads keys and allow-list, answers whether a key may connect, and says whom it refused.

    Args:
        folder: Of the keys.
        logger: Where lines go.

    Attributes:
        folder: Of the keys.
        allowed: The allow-list as it was read last without an error.
        changed: Called with each new allow-list.

    Raises:
        ProgramError: Keys or allow-list cannot be used.
    """

    def __init__(self, folder: Path, logger: Logger) -> None:
        self.folder = folder
        self._secret = read_server_secret(folder)
        self._file = AllowFile(folder)
        self._taken = self._seen = self._tried = self._file.stamp()
        self.allowed = self._file.read()
        self.changed: Callable[[AllowList], object] = lambda _allowed: None
        self._logger = logger
        self._quiet = Quiet()
        self._revoked: set[str] = set()  # while this process ran
        self._timer: asyncio.TimerHandle | None = None
        if not len(self.allowed):
            self._logger.warning(f"{self._file.path} lists nobody: no agent can connect")

    @property
    def guard(self) -> Guard:
        """For the server's socket."""
        return Guard(self._secret, self.admits, self.failed)

    def watch(self) -> None:
        """Looks at the allow-list from now on; needs a running event loop."""
        self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._look)

    def close(self) -> None:
        """Looks no more."""
        if self._timer is not None:
            self._timer.cancel()

    def admits(self, key: str, address: str) -> bool:
        """Whether a public key may connect, by the allow-list as it is now."""
        if self.allowed.rights(key) is None:
            self._take_additions()
        if self.allowed.rights(key) is not None:
            return True
        who = f"refused a connection from {address or 'this machine'}: the key {key}"
        if key in self._revoked:
            self._say("revoked", f"{who} was revoked", "")
        else:
            self._say("unlisted", f"{who} is not listed", f"to let it in, add it to {self._file.path}")
        return False

    def failed(self, kind: Kind) -> None:
        """A handshake failed."""
        if kind in NEXT:  # unlisted keys are named by `admits`, which knows them
            self._say(kind, f"a handshake failed: {KINDS[kind]}", NEXT[kind])

    def read_again(self) -> None:
        """Reads the allow-list now, because somebody said so; one with an error changes nothing."""
        self._taken = self._file.stamp()
        allowed = self._read()
        if allowed is not None:
            self._take(allowed)

    def _look(self) -> None:
        stamp, before = self._file.stamp(), self._seen
        self._seen = stamp
        if stamp != self._taken and stamp == before:  # else it may be half written
            self._take_settled(stamp)
        self.watch()

    def _take_settled(self, stamp: Stamp) -> None:
        allowed = self._read()
        if self._file.stamp() != stamp:  # written while it was read: the next looks will see
            return
        self._taken = stamp
        if allowed is not None and len(self.allowed) and not len(allowed):
            text = f"the allow-list lists nobody now, the earlier one holds: {len(self.allowed)} keys"
            self._logger.warning(text, hint=f"to shut everybody out, type: kill -HUP {os.getpid()}")
        elif allowed is not None:
            self._take(allowed)

    def _take_additions(self) -> None:
        """Takes a list that only adds at once: half written or not, it revokes nobody."""
        stamp = self._file.stamp()
        if stamp in (self._taken, self._tried):  # a flood of strangers makes no flood of reads
            return
        self._tried = stamp
        try:
            allowed = self._file.read()
        except ProgramError:  # if it is still there when the file has settled, it is said then
            return
        if allowed.extends(self.allowed):
            self._taken = stamp
            self._take(allowed)

    def _read(self) -> AllowList | None:
        try:
            return self._file.read()
        except ProgramError as error:
            text = f"the allow-list is not read again, the earlier one holds: {error.message}"
            self._logger.error(text, hint=error.hint)
            return None

    def _take(self, allowed: AllowList) -> None:
        self._revoked |= self.allowed.keys() - allowed.keys()
        self._revoked -= allowed.keys()
        self.allowed = allowed
        self._logger.info(f"the allow-list was read again: {len(allowed)} keys")
        self.changed(allowed)

    def _say(self, kind: str, text: str, hint: str) -> None:
        count = self._quiet.heard(kind, asyncio.get_running_loop().time())
        if count is not None:
            more = {"times": count} if count > 1 else {}
            self._logger.warning(text, **more, **({"hint": hint} if hint else {}))

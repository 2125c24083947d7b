"""The allow-list: which public key may act as which agent. Pure: text in, rights out.

    KEY  WHO [WHO ...]      # anything behind a # that follows a space is a comment

``WHO`` is an agent id, a range or a list of them (``0``, ``3-5``, ``0,3-5``), which may train or onboard, or
the word ``onboard``: any goal, but never training.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from edge_fed.program.exit_codes import ExitCode, ProgramError

KEY_LENGTH = 40  # 32 bytes in Z85 (ZeroMQ RFC 32)
Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
VALUES = {letter: value for value, letter in enumerate(Z85)}
LARGEST = [2**32 // 85**power % 85 for power in range(4, -1, -1)]
LARGEST[-1] -= 1  # five digits hold four bytes: up to 2**32 - 1
MAX_AGENTS = 1_000_000  # per line; a range of more is a slip of the finger
HINT = "correct it; a line is: KEY WHO, e.g. KEY 0,3-5 or KEY onboard; see SECURITY.md"


class Rights(NamedTuple):
    """What one key may do.

    Attributes:
        agents: Ids that it may use, to train or to onboard.
        onboard: It may onboard any goal.
        line: Where the list says so.
    """

    agents: frozenset[int]
    onboard: bool
    line: int = 0

    def __str__(self) -> str:
        ids = ", ".join(map(str, sorted(self.agents)[:8])) + (", ..." if len(self.agents) > 8 else "")
        parts = [f"agents {ids}"] if self.agents else []
        return "; ".join([*parts, *(["onboarding any goal"] if self.onboard else [])]) or "nothing"


class AllowList:
    """Public keys with their rights; an empty list lets nobody in."""

    def __init__(self, rights: Mapping[str, Rights]) -> None:
        self._rights = dict(rights)

    def __len__(self) -> int:
        return len(self._rights)

    def rights(self, key: str) -> Rights | None:
        """What a public key may do; None: it is not listed."""
        return self._rights.get(key)

    def keys(self) -> frozenset[str]:
        """Who is listed."""
        return frozenset(self._rights)

    def all(self) -> list[Rights]:
        """What is listed, in order."""
        return list(self._rights.values())

    def extends(self, earlier: "AllowList") -> bool:
        """Whether all that an earlier list allows is allowed by this one."""
        nothing = Rights(frozenset(), False)
        pairs = [(self._rights.get(key, nothing), old) for key, old in earlier._rights.items()]
        return all(new.agents >= old.agents and new.onboard >= old.onboard for new, old in pairs)

    def may(self, key: str, agent: int, role: Literal["train", "onboard"]) -> bool:
        """Whether a public key may act as this agent in this role."""
        rights = self._rights.get(key)
        return rights is not None and (agent in rights.agents or (role == "onboard" and rights.onboard))


def parse_allow_list(text: str, name: str) -> AllowList:
    """Reads an allow-list.

    Args:
        text: Its content.
        name: Its file, for errors.

    Raises:
        ProgramError: A line is wrong; names the line.
    """
    rights: dict[str, Rights] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = _words(line)
        if not words:
            continue
        try:
            key = check_key(words[0])
            if key in rights:
                raise ValueError(f"the key is listed already in line {rights[key].line}; keep one line a key")
            if len(words) == 1:
                raise ValueError("who is missing behind the key: agent ids or the word onboard")
            rights[key] = _rights(words[1:], number)
        except ValueError as error:
            raise ProgramError(ExitCode.AUTHENTICATION, f"{name}, line {number}: {error}", HINT) from None
    return AllowList(rights)


def check_key(text: str) -> str:
    """Returns the text if it is a key in Z85.

    Raises:
        ValueError: It is none; the message quotes it no further than a public key's beginning.
    """
    if len(text) != KEY_LENGTH:
        raise ValueError(f"{text[:8]!r}... has {len(text)} characters; a key has {KEY_LENGTH}")
    digits = [VALUES.get(letter, -1) for letter in text]
    if -1 in digits:
        wrong = text[digits.index(-1)]
        raise ValueError(f"{text[:8]!r}... has the character {wrong!r}, which no key has")
    for at in range(0, KEY_LENGTH, 5):
        if digits[at : at + 5] > LARGEST:
            raise ValueError(f"{text[:8]!r}... is no key: characters {at + 1} to {at + 5} are out of range")
    return text


def parse_agents(text: str) -> frozenset[int]:
    """Agent ids from ``0,3-5``.

    Raises:
        ValueError: It is no list of ids.
    """
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        ends = (first, last if dash else first)
        if not all(end.isascii() and end.isdecimal() and len(end) < 19 for end in ends):
            raise ValueError(f"{part[:40]!r} is neither an agent id nor a range nor the word onboard")
        low, high = map(int, ends)
        if high < low or high - low >= MAX_AGENTS:
            raise ValueError(f"{part[:40]!r} is no range of agents; write e.g. 3-5")
        found.update(range(low, high + 1))
    return frozenset(found)


def _words(line: str) -> list[str]:
    words: list[str] = []
    for word in line.split():
        if word.startswith("#"):  # keygen makes no public key that begins so
            break
        words.append(word)
    return words


def _rights(words: list[str], line: int) -> Rights:
    ids = [parse_agents(word) for word in words if word != "onboard"]
    return Rights(frozenset().union(*ids), "onboard" in words, line)

"""Lines that a stranger can cause as often as it likes: one at once, then ever fewer, with a count. Pure."""

import math

FIRST_S = 10.0  # pause after the first line of a kind
LONGEST_S = 600.0


class Quiet:
    """Decides which of many equal events get a line."""

    def __init__(self) -> None:
        self._kinds: dict[str, tuple[float, float, int]] = {}

    def heard(self, kind: str, now: float) -> int | None:
        """Notes one event of a kind.

        Returns:
            How many there were since the last line, this one included, if it gets a line; else None.
        """
        until, pause_s, count = self._kinds.get(kind, (-math.inf, FIRST_S, 0))
        if now < until:
            self._kinds[kind] = (until, pause_s, count + 1)
            return None
        calm = now >= until + pause_s and not count  # nothing came for long: as if it were the first
        pause_s = FIRST_S if calm else min(2 * pause_s, LONGEST_S)
        self._kinds[kind] = (now + pause_s, pause_s, 0)
        return count + 1

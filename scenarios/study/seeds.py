"""Seeds as people write them: a number of them, or ranges."""

from edge_fed.config import Goals, parse_goals
from edge_fed.errors import ConfigError, Fault

MOST = 10_000
"""Seeds of one study."""

LARGEST = 2**63 - 1
"""A run seed is at most this."""

HINT = f'write ranges like "0-9" or "1000-1039,7", at most {MOST:,} seeds'


def parse_seeds(text: Goals, where: str, source: str) -> tuple[int, ...]:
    """Turns ``"0-9"``, ``"1000-1039,7"`` or a list into ascending seeds.

    Args:
        text: What was written.
        where: Which key or flag, for messages.
        source: Which file, for messages.

    Raises:
        ConfigError: It is no such list or empty, a seed is named twice or too large, or there are too many.
    """
    try:
        seeds = parse_goals(text) if text else ()
    except ValueError as error:
        raise ConfigError([Fault(where, str(error).replace("goal", "seed"), HINT)], source) from None
    if not seeds:
        raise ConfigError([Fault(where, "names no seed", HINT)], source)
    if len(seeds) > MOST or seeds[-1] > LARGEST:
        what = f"names {len(seeds):,} seeds" if len(seeds) > MOST else f"{seeds[-1]} is more than {LARGEST}"
        raise ConfigError([Fault(where, what, HINT)], source)
    return seeds


def first_seeds(count: str, where: str, source: str) -> tuple[int, ...]:
    """Seeds 0 to count - 1.

    Raises:
        ConfigError: There is none, or there are too many.
    """
    number = int(count) if len(count) < 10 else MOST + 1
    if not 1 <= number <= MOST:
        raise ConfigError([Fault(where, f"is {count}", f"give 1 to {MOST:,} seeds, or ranges")], source)
    return tuple(range(number))

"""What happens in the life of a device, and what it is told to do."""

import msgspec

from agent.news import News
from edge_fed.params import F8


class Started(msgspec.Struct, frozen=True):
    """The program runs, for the first time or again."""


class Acted(msgspec.Struct, frozen=True):
    """A batch was played with the policy at hand.

    Attributes:
        returns: ``[n]``.
        overridden: Actions that a shield changed; None: there is no shield.
    """

    returns: F8
    overridden: int | None = None


class Learned(msgspec.Struct, frozen=True):
    """A learning step was tried.

    Attributes:
        factor: The part of it that was taken; 0: none.
        before: Mean return of its batch.
        trials: Mean return with each of `edge_fed.meta.careful.FACTORS`.
        episodes: Spent on the trials.
    """

    factor: float
    before: float
    trials: tuple[float, ...]
    episodes: int


class Onboarded(msgspec.Struct, frozen=True):
    """The initialization was adapted anew.

    Attributes:
        factor: The part of the step that was taken; of several steps the mean.
        anew: Returns of the result, ``[k]``.
        kept: Returns of the policy at hand, ``[k]``.
        episodes: Spent on all of it.
    """

    factor: float
    anew: F8
    kept: F8
    episodes: int


class Act(msgspec.Struct, frozen=True):
    """Play so many episodes with the policy at hand."""

    episodes: int


class Learn(msgspec.Struct, frozen=True):
    """Try a step from the batch that was just played, so many episodes for each part of it."""

    episodes: int


class Onboard(msgspec.Struct, frozen=True):
    """Adapt the shared initialization with so many episodes per inner step, then compare."""

    episodes: int
    steps: int
    comparison: int


class Take(msgspec.Struct, frozen=True):
    """Go on with what the re-onboarding made."""


class Tell(msgspec.Struct, frozen=True):
    """Say it."""

    news: News


class End(msgspec.Struct, frozen=True):
    """All episodes are played."""


Event = Started | Acted | Learned | Onboarded
Work = Act | Learn | Onboard
Command = Work | Take | Tell | End

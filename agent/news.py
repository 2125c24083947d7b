"""What a living device says: one line for each thing it does, with what, why and figures."""

from typing import TYPE_CHECKING, Any

import msgspec

from edge_fed.drift import Cusum, Reference

if TYPE_CHECKING:  # its events carry news
    from agent.life_events import Learned, Onboarded


class News(msgspec.Struct, frozen=True):
    """One line.

    Attributes:
        episode: After so many.
        what: One word or two.
        why: For people, with the figures that matter.
        figures: For machines.
    """

    episode: int
    what: str
    why: str
    figures: dict[str, Any] = {}

    def __str__(self) -> str:
        return f"episode {self.episode}: {self.what}: {self.why}"

    def plain(self) -> dict[str, Any]:
        """One flat object."""
        return {"episode": self.episode, "what": self.what, "why": self.why, **self.figures}


def started(episode: int, episodes: int) -> News:
    """The program runs."""
    what = "goes on" if episode else "begins"
    return News(episode, what, f"acts with its own policy until episode {episodes}", {"until": episodes})


def changed(episode: int, change: str) -> News:
    """The simulation is another one."""
    return News(episode, "change", f"the simulated environment gets {change}", {"change": change})


def measured(episode: int, reference: Reference, run_length: float) -> News:
    """There is a reference."""
    why = (
        f"return {reference.mean:.3f}, sd {reference.sd:.3f}, of {reference.episodes} episodes; alarm above "
        f"CUSUM {reference.threshold:.1f}, without drift every {run_length:g} episodes or more"
    )
    figures = {"run_length": run_length, **msgspec.to_builtins(reference)}
    return News(episode, "reference", why, figures)


def alarm(episode: int, reference: Reference, cusum: Cusum) -> News:
    """The CUSUM is above its threshold."""
    began = episode - cusum.episodes
    mean = cusum.total / cusum.episodes
    why = (
        f"returns fell from {reference.mean:.3f} to {mean:.3f} since about episode {began}; CUSUM "
        f"{cusum.value:.1f} is above {reference.threshold:.1f}"
    )
    figures = {
        "began": began,
        "reference": reference.mean,
        "return": mean,
        "cusum": cusum.value,
        "threshold": reference.threshold,
    }
    return News(episode, "alarm", why, figures)


def poor(episode: int, cost: int, spent: int, budget: int) -> News:
    """A re-onboarding cannot be paid."""
    why = f"it would cost {cost} episodes, {budget - spent} of the budget of {budget} are left"
    return News(episode, "no re-onboarding", why, {"cost": cost, "spent": spent, "budget": budget})


def learned(episode: int, event: "Learned") -> News:
    """A step was tried."""
    tried = f"return {event.before:.3f}, with 1/4, 1/2, all of it " + ", ".join(
        f"{trial:.3f}" for trial in event.trials
    )
    figures = {"factor": event.factor, "return": event.before, "trials": list(event.trials)}
    if event.factor:
        return News(episode, "step taken", f"{event.factor:g} of it; {tried}", figures)
    why = f"no part of it is better by more than a standard error; {tried}"
    return News(episode, "step not taken", why, figures)


def onboarded(episode: int, event: "Onboarded", *, better: bool) -> News:
    """The initialization was adapted anew."""
    anew, kept = float(event.anew.mean()), float(event.kept.mean())
    made = f"{event.factor:g} of the step" if event.factor else "the initialization itself"
    compared = f"{made}, return {anew:.3f}; the policy at hand {kept:.3f} ({event.anew.size} episodes each)"
    figures = {
        "factor": event.factor,
        "return": anew,
        "kept_return": kept,
        "taken": better,
        "episodes": event.episodes,
    }
    goes_on = "goes on with the new policy" if better else "keeps the policy at hand"
    return News(episode, "re-onboarding", f"{goes_on}: {compared}", figures)


def ended(episode: int, alarms: int, onboardings: int, tried: int, taken: int, spent: int) -> News:
    """The life is over."""
    why = (
        f"{alarms} alarms, {onboardings} re-onboardings, {taken} of {tried} learning steps taken; "
        f"{spent} episodes were trials and re-onboardings"
    )
    figures = {"alarms": alarms, "onboardings": onboardings, "tried": tried, "taken": taken, "spent": spent}
    return News(episode, "end", why, figures)

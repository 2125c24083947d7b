"""The life of a device after its adaptation, as decisions: an event in, commands out. No clock, no files.

    act      a batch of episodes with its own policy; returns make a reference first, then go to the CUSUM
    learn    a policy-gradient step from that batch, which is tried before it is taken
    onboard  after an alarm: adapt the shared initialization anew, try the result beside the policy at hand,
             go on with the better one and a new reference

Every episode counts, also those that adapt and try. After a learning step the old reference stands until the
new one is complete: the step made returns better, so the old one is a lower bound.
"""

from typing import Annotated

import msgspec
import numpy as np

from agent import life_events as e
from agent import news
from edge_fed import drift
from edge_fed.meta.careful import FACTORS, TRIAL_SHARE, split
from edge_fed.params import F8

Count = Annotated[int, msgspec.Meta(ge=0, lt=10**18)]  # as the flags bound a life


class Habits(msgspec.Struct, frozen=True, kw_only=True):
    """How a device lives; numbers of episodes unless said otherwise.

    Attributes:
        episodes: Of the whole life.
        batch: Played at once where it does not learn.
        learn: Of one learning step, its trials included; 0: it does not learn.
        onboard: Of each inner step of a re-onboarding, its trials included.
        inner_steps: Of a re-onboarding.
        reference: At least so many make one.
        run_length: From one false alarm to the next, on average.
        fall: Of the mean return, in standard deviations, that an alarm is to find soonest.
        budget: At most so many may be spent on trials and re-onboardings; None: any number.
        change_at: When the simulated environment changes; None: it does not.
        change: What changes then, for people.
    """

    episodes: int
    batch: int = 10
    learn: int = 0
    onboard: int = 100
    inner_steps: int = 1
    reference: int = 100
    run_length: float = drift.RUN_LENGTH
    fall: float = drift.FALL
    budget: int | None = None
    change_at: int | None = None
    change: str = ""

    @property
    def comparison(self) -> int:
        """Episodes of the new policy, and of the one at hand, after a re-onboarding: a fifth in all."""
        return max(int(self.onboard * TRIAL_SHARE / 2), 1)

    @property
    def onboarding_cost(self) -> int:
        """Episodes of one re-onboarding."""
        return self.inner_steps * self.onboard + 2 * self.comparison


class State(msgspec.Struct, kw_only=True):
    """What survives a restart.

    Attributes:
        episode: Played so far.
        spent: Of these, on trials and re-onboardings.
        sample: Returns of the reference in the making; None: none is.
        reference: What returns are compared with; None: nothing yet.
        cusum: Of the returns since then.
        alarmed: Whether a re-onboarding is due.
        changed: Whether the simulated environment is another one by now.
        alarms, onboardings, tried, taken: Counts; the last two of learning steps.
    """

    episode: Count = 0
    spent: Count = 0
    sample: list[drift.Finite] | None = msgspec.field(default_factory=list)
    reference: drift.Reference | None = None
    cusum: drift.Cusum = drift.Cusum()
    alarmed: bool = False
    changed: bool = False
    alarms: Count = 0
    onboardings: Count = 0
    tried: Count = 0
    taken: Count = 0


class Life:
    """Decides what the device does next.

    Args:
        habits: How it lives.
        state: From where it goes on; changed by every event.
    """

    def __init__(self, habits: Habits, state: State) -> None:
        self.habits = habits
        self.state = state

    def handle(self, event: e.Event) -> list[e.Command]:
        """The commands that follow; the last is what to do next, the others are done at once."""
        match event:
            case e.Started():
                return [e.Tell(news.started(self.state.episode, self.habits.episodes)), *self._next()]
            case e.Acted():
                return self._acted(event.returns)
            case e.Learned():
                return self._learned(event)
            case e.Onboarded():
                return self._onboarded(event)

    def _next(self) -> list[e.Command]:
        state, habits = self.state, self.habits
        commands: list[e.Command] = []
        if state.episode >= habits.episodes:
            counts = (state.alarms, state.onboardings, state.tried, state.taken, state.spent)
            return [e.Tell(news.ended(state.episode, *counts)), e.End()]
        if self._change_in() == 0:
            state.changed = True
            commands.append(e.Tell(news.changed(state.episode, habits.change)))
        if state.alarmed and self._affordable(habits.onboarding_cost):
            return [*commands, e.Onboard(habits.onboard, habits.inner_steps, habits.comparison)]
        if state.alarmed:
            commands.append(
                e.Tell(news.poor(state.episode, habits.onboarding_cost, state.spent, habits.budget or 0))
            )
            self._begin_anew()
        wanted = split(habits.learn)[0] if self._may_learn() else habits.batch
        ends = (habits.episodes - state.episode, self._change_in() or wanted)
        return [*commands, e.Act(min(wanted, *ends))]

    def _acted(self, returns: F8) -> list[e.Command]:
        commands = self._watch(returns)
        self.state.episode += returns.size
        if self.state.alarmed:
            return [*commands, *self._next()]
        commands += self._measure(returns)
        if self._may_learn() and returns.size == split(self.habits.learn)[0]:
            return [*commands, e.Learn(split(self.habits.learn)[1])]
        return [*commands, *self._next()]

    def _watch(self, returns: F8) -> list[e.Command]:
        """Feeds the CUSUM."""
        state = self.state
        if state.reference is None:
            return []
        state.cusum, taken = drift.follow(state.reference, state.cusum, returns)
        if taken is None:
            return []
        state.alarmed = True
        state.alarms += 1
        return [e.Tell(news.alarm(state.episode + taken, state.reference, state.cusum))]

    def _measure(self, returns: F8) -> list[e.Command]:
        """Goes on with a reference in the making."""
        state, habits = self.state, self.habits
        if state.sample is None:
            return []
        state.sample.extend(returns.tolist())
        if len(state.sample) < habits.reference:
            return []
        state.reference = drift.measure(np.array(state.sample), habits.run_length, habits.fall)
        state.sample, state.cusum = None, drift.Cusum()
        return [e.Tell(news.measured(state.episode, state.reference, habits.run_length))]

    def _learned(self, event: e.Learned) -> list[e.Command]:
        state = self.state
        state.episode += event.episodes
        state.spent += event.episodes
        state.tried += 1
        if event.factor:
            state.taken += 1
            state.sample = []
        return [e.Tell(news.learned(state.episode, event)), *self._next()]

    def _onboarded(self, event: e.Onboarded) -> list[e.Command]:
        state = self.state
        state.episode += event.episodes
        state.spent += event.episodes
        state.onboardings += 1
        self._begin_anew()
        better = bool(event.anew.mean() >= event.kept.mean())
        take: list[e.Command] = [e.Take()] if better else []
        return [*take, e.Tell(news.onboarded(state.episode, event, better=better)), *self._next()]

    def _begin_anew(self) -> None:
        """From here on returns are those of another policy or another environment."""
        state = self.state
        state.alarmed, state.sample, state.reference, state.cusum = False, [], None, drift.Cusum()

    def _may_learn(self) -> bool:
        learn = self.habits.learn
        return learn > 0 and self._affordable(len(FACTORS) * split(learn)[1])

    def _affordable(self, episodes: int) -> bool:
        return self.habits.budget is None or self.state.spent + episodes <= self.habits.budget

    def _change_in(self) -> int | None:
        """Episodes until the environment changes; None: it will not."""
        if self.habits.change_at is None or self.state.changed:
            return None
        return max(self.habits.change_at - self.state.episode, 0)

"""The life of a device, as events: references, alarms, re-onboardings, learning, budgets, restarts."""

import msgspec
import numpy as np
import pytest

from agent import life_events as e
from agent.life import Habits, Life, State
from edge_fed.meta.careful import split

GOOD, BAD = np.linspace(1.0, 3.0, 10), np.full(10, -1.0)
HABITS = Habits(episodes=1000, reference=40)
STARTED = e.Started()


def life(state: State | None = None, **habits: object) -> Life:
    """A life with some habits of its own."""
    return Life(msgspec.structs.replace(HABITS, **habits), state or State())


def told(commands: list[e.Command]) -> list[str]:
    """What of each piece of news."""
    return [command.news.what for command in commands if isinstance(command, e.Tell)]


def live(made: Life, *batches: np.ndarray) -> list[e.Command]:
    """Starts, plays batches that the life asks for; returns what follows the last."""
    commands = made.handle(STARTED)
    for batch in batches:
        assert isinstance(commands[-1], e.Act) and commands[-1].episodes == batch.size
        commands = made.handle(e.Acted(batch))
    return commands


def alarmed(**habits: object) -> tuple[Life, list[e.Command]]:
    """A life whose returns fell."""
    made = life(**habits)
    return made, live(made, *[GOOD] * 4, BAD)


def onboarded(anew: float, kept: float, episodes: int = 120) -> e.Onboarded:
    """A re-onboarding with these returns."""
    return e.Onboarded(0.5, np.full(10, anew), np.full(10, kept), episodes)


def test_the_first_episodes_are_the_reference() -> None:
    """It is measured once, of at least so many, and then nothing happens while returns stay."""
    made = life()
    commands = live(made, *[GOOD] * 4)
    assert told(commands) == ["reference"] and made.state.sample is None
    assert made.state.reference is not None and made.state.reference.episodes == 40
    for _ in range(20):
        commands = made.handle(e.Acted(GOOD))
        assert commands == [e.Act(10)]


def test_a_fall_is_an_alarm_with_its_figures() -> None:
    """It names the episode, when the fall began, both returns, and asks for a re-onboarding at once."""
    made, commands = alarmed()
    assert told(commands) == ["alarm"] and commands[-1] == e.Onboard(100, 1, 10)
    (alarm,) = (command.news for command in commands if isinstance(command, e.Tell))
    assert 40 < alarm.episode <= 50 and alarm.figures["began"] == 40
    assert alarm.figures["return"] == pytest.approx(-1.0) and alarm.figures["reference"] == pytest.approx(2.0)
    assert "fell from 2.000 to -1.000 since about episode 40" in str(alarm)
    assert made.state.alarmed and made.state.episode == 50


@pytest.mark.parametrize(("anew", "kept", "taken"), [(2.0, 1.0, True), (1.0, 2.0, False), (0.0, 0.0, True)])
def test_the_better_policy_goes_on_with_a_new_reference(anew: float, kept: float, taken: bool) -> None:
    """What was adapted anew is taken only if it is no worse than the policy at hand."""
    made, _ = alarmed()
    commands = made.handle(onboarded(anew, kept))
    assert (e.Take() in commands) is taken and told(commands) == ["re-onboarding"]
    assert commands[-1] == e.Act(10) and not made.state.alarmed
    assert (made.state.episode, made.state.spent, made.state.onboardings) == (170, 120, 1)
    assert made.state.reference is None and made.state.sample == []
    for _ in range(4):  # what was a fall is the reference now
        commands = made.handle(e.Acted(BAD))
    assert told(commands) == ["reference"]
    assert made.handle(e.Acted(BAD)) == [e.Act(10)]


def test_a_budget_that_is_used_up_ends_re_onboardings_not_the_life() -> None:
    """The alarm is told, and why nothing follows; a new reference is measured, or it would ring for ever."""
    made, commands = alarmed(budget=119)
    assert told(commands) == ["alarm", "no re-onboarding"] and commands[-1] == e.Act(10)
    assert made.state.sample == [] and not made.state.alarmed and made.state.spent == 0
    made, commands = alarmed(budget=120)
    assert commands[-1] == e.Onboard(100, 1, 10)
    assert made.handle(onboarded(2.0, 1.0)) and made.state.spent == 120
    assert made.habits.onboarding_cost == 120


def test_the_environment_changes_between_batches_at_its_episode() -> None:
    """The batch before is cut so that it ends there; the news comes once."""
    made = life(change_at=25, change="goal=3")
    commands = live(made, GOOD, GOOD)
    assert commands == [e.Act(5)] and not made.state.changed
    commands = made.handle(e.Acted(GOOD[:5]))
    assert told(commands) == ["change"] and made.state.changed and made.state.episode == 25
    assert commands[-1] == e.Act(10)
    assert told(made.handle(e.Acted(GOOD))) == []


def test_the_life_ends_at_its_last_episode() -> None:
    """The last batch is cut, and a life that is over does nothing when it is started again."""
    made = life(episodes=25)
    commands = live(made, GOOD, GOOD)
    assert commands == [e.Act(5)]
    assert told(made.handle(e.Acted(GOOD[:5]))) == ["end"]
    again = Life(made.habits, made.state).handle(STARTED)
    assert told(again) == ["goes on", "end"] and again[-1] == e.End()


def test_learning_tries_a_step_after_each_of_its_batches() -> None:
    """Four fifths of M are played, the rest tries; a step that is taken begins a new reference."""
    n, k = split(50)
    returns = np.linspace(1.0, 3.0, n)
    made = life(learn=50)
    commands = live(made, returns)
    assert commands[-1] == e.Learn(k) and n + 3 * k == 50
    assert told(commands) == ["reference"]
    commands = made.handle(e.Learned(0.0, 2.0, (1.0, 1.0, 1.0), 3 * k))
    assert told(commands) == ["step not taken"] and commands[-1] == e.Act(n)
    assert made.state.sample is None and made.state.spent == 3 * k and made.state.episode == 50
    made.handle(e.Acted(returns))
    assert told(made.handle(e.Learned(0.25, 2.0, (3.0, 1.0, 1.0), 3 * k))) == ["step taken"]
    assert made.state.sample == [] and made.state.reference is not None  # the old one stands meanwhile
    assert (made.state.tried, made.state.taken) == (2, 1)


def test_nothing_is_learned_from_a_batch_that_alarms_is_cut_or_cannot_be_paid() -> None:
    """A fall is re-onboarded; a shorter batch is only played; without a budget it only acts."""
    n, _ = split(50)
    made = life(learn=50)
    live(made, np.linspace(1.0, 3.0, n))
    made.handle(e.Learned(0.0, 2.0, (), 9))
    assert isinstance(made.handle(e.Acted(np.full(n, -1.0)))[-1], e.Onboard)
    cut = life(learn=50, change_at=20)
    assert live(cut, np.linspace(1.0, 3.0, 20))[-1] == e.Act(n)
    assert live(life(learn=50, budget=5))[-1] == e.Act(10)


def test_a_life_goes_on_from_what_was_kept() -> None:
    """Plain values and back, in the middle of an alarm: the same commands follow."""
    made, commands = alarmed()
    kept = msgspec.convert(msgspec.json.decode(msgspec.json.encode(made.state)), State)
    again = Life(made.habits, kept)
    assert told(again.handle(STARTED)) == ["goes on"]
    assert again.handle(STARTED)[-1] == commands[-1]
    assert again.state == made.state

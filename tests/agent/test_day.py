"""A device beside its server: it says where it is, and leaves by name for the rest of a day that is spent."""

from typing import Any

from agent import events as e
from edge_fed.params import crc32
from edge_fed.program.exit_codes import ExitCode
from protocol import messages as m
from tests.agent.scripted import LIMITS, Agent, ServerSide, of, params, sent, texts, trained

WHY = "the daily budget of 20 trajectories has 5 left, round 2 needs 18; back at 2026-12-01T00:00Z"
HOURS = 3600.0


def spent(agent: Agent, server: ServerSide, hours: float = 10.0) -> list[e.Command]:
    """A device that is asked for round 2 and has too little left of its day."""
    agent.join(server)
    (work,) = of(agent.tell(server.theta(2)), e.Train)
    commands = agent.tell(e.Spent(work.number, WHY, hours * HOURS))
    server.hear(commands)
    return commands


def test_a_device_whose_day_is_spent_says_bye_with_the_time_of_its_return() -> None:
    """One message; the program lives on, and says in its log why nothing happens."""
    agent, server = Agent(), ServerSide()
    commands = spent(agent, server)
    assert [message.reason for message in sent(commands)] == [WHY]
    assert WHY in texts(commands) and not of(commands, e.Exit)
    (told,) = of(commands, e.Tell)
    assert (told.name, told.fields["for_s"]) == ("away", 10 * HOURS)


def test_nobody_is_bothered_until_then() -> None:
    """No message, whatever the socket finds; the wait is named every hour, and no patience runs out."""
    agent, server = Agent(), ServerSide()
    agent.join(server)
    (work,) = of(agent.tell(server.theta(2)), e.Train)
    crossed = [server.theta(3), server.say(m.Shutdown(outcome="finished", reason="over"))]
    agent.tell(e.Spent(work.number, WHY, 10 * HOURS))
    commands = agent.run_until(5 * HOURS)
    for event in (e.Reachable(), e.NotSent(m.Bye()), *crossed):
        commands += agent.tell(event)
    commands += agent.run_until(4.9 * HOURS)
    assert sent(commands) == [] and not agent.machine.ended
    assert texts(commands).count("registering again in") == 10


def test_it_comes_back_by_itself_and_goes_on() -> None:
    """The same run, nothing built again; if the server is gone, its patience begins only then."""
    agent, server = Agent(), ServerSide()
    spent(agent, server)
    later = ServerSide(b"t" * 16)
    commands = agent.run_until(10 * HOURS)
    (register,) = sent(commands, m.Register)
    assert register.known_run == later.session.run
    later.hear(commands)
    commands = agent.tell(later.welcome(last_counted=1))
    assert of(commands, e.Build) == []
    later.hear(commands)
    assert len(sent(commands, m.Ready)) == 1
    (work,) = of(agent.tell(later.theta(40)), e.Train)
    assert [update.round for update in sent(agent.tell(trained(work)), m.Update)] == [40]
    lonely = Agent(give_up_after_s=60.0)
    spent(lonely, ServerSide())
    assert not of(lonely.run_until(10 * HOURS + 59, alone=True), e.Exit)
    (end,) = of(lonely.run_until(2, alone=True), e.Exit)
    assert end.code is ExitCode.SERVER_GONE


def test_the_budget_of_work_that_nobody_wants_any_more_is_no_news() -> None:
    """A newer question has replaced it; that one finds out for itself."""
    agent, server = Agent(), ServerSide()
    agent.join(server)
    (work,) = of(agent.tell(server.theta(2)), e.Train)
    agent.tell(server.theta(3))
    assert agent.tell(e.Spent(work.number, WHY, 1.0)) == []


def test_a_stop_ends_a_device_that_is_away() -> None:
    """At once, with nobody to say BYE to."""
    agent, server = Agent(), ServerSide()
    spent(agent, server)
    commands = agent.tell(e.Stop("got SIGTERM", ExitCode.TERMINATED), 100.0)
    assert sent(commands) == [] and of(commands, e.Exit)[0].code is ExitCode.TERMINATED


def test_heartbeats_say_where_a_device_is_for_as_long_as_a_round_takes() -> None:
    """Twenty leases long the server answers, and the session stands; when the work ends, nothing is said."""
    agent, server = Agent(), ServerSide()
    agent.join(server)
    (work,) = of(agent.tell(server.theta(1)), e.Train)
    lease_s, interval_s = LIMITS["lease_s"], LIMITS["heartbeat_s"]
    for beat in range(int(20 * lease_s / interval_s)):
        text = f"step {beat} of 3000, episode 1 of 20"
        commands = agent.tell(e.Tick(0, 0.0, text), interval_s)
        assert [message.message for message in sent(commands, m.Heartbeat)] == [text]
        server.hear(commands)
        commands = agent.tell(server.say(m.Heartbeat(phase="running")))
        assert sent(commands) == [] and of(commands, e.Log) == []
    server.hear(agent.tell(trained(work)))
    (idle,) = sent(agent.tell(e.Tick(0, 0.0, "old"), interval_s), m.Heartbeat)
    assert idle.message == ""


FINAL = m.Evaluate(round=150, crc32=crc32(params()))
OVER = m.Shutdown(outcome="finished", reason="the run is complete")


def saving(**built: Any) -> tuple[Agent, ServerSide]:
    """A device that trains, and wants a policy of its own at the end."""
    agent, server = Agent(overrides={"device": {"saves": True}}), ServerSide()
    agent.join(server, **built)
    return agent, server


def test_a_device_saves_its_own_policy_when_the_server_is_gone() -> None:
    """It has the final parameters: for as many days as it takes it says nothing, then ends as the run did."""
    agent, server = saving()
    (work,) = of(agent.tell(server.say(FINAL, params=params())), e.Evaluate)
    commands = agent.tell(server.say(OVER))
    assert not agent.machine.ended and "adapting the final parameters to this device" in texts(commands)
    for event in (e.NotSent(m.Bye()), e.Reachable()):
        commands += agent.tell(event, 1.0)
    commands += agent.run_until(100 * HOURS, alone=True)
    assert sent(commands) == [] and of(commands, e.StopWork) == [] and not agent.machine.ended
    (end,) = of(agent.tell(e.Measured(work.number, (), 0)), e.Exit)
    assert (end.code, end.why) == (ExitCode.OK, "the server ended (finished): the run is complete")


def test_a_policy_that_is_saved_before_the_run_ends_is_no_report() -> None:
    """Nobody waits for its figures: it has none; the end is that of any agent."""
    agent, server = saving()
    (work,) = of(agent.tell(server.say(FINAL, params=params())), e.Evaluate)
    assert sent(agent.tell(e.Measured(work.number, (), 0))) == []
    (end,) = of(agent.tell(server.say(OVER)), e.Exit)
    assert end.code is ExitCode.OK


def test_what_goes_wrong_with_saving_is_the_exit_code() -> None:
    """The disk, the plant, a stop, or a server that never sent the parameters: by name, and not 0."""

    def ended(event: e.Event) -> e.Exit:
        agent, server = saving()
        agent.tell(server.say(FINAL, params=params()))
        agent.tell(server.say(OVER))
        (end,) = of(agent.tell(event), e.Exit)
        assert isinstance(end, e.Exit)
        return end

    full = ended(e.Measured(2, (), 0, "the policy cannot be saved to p.npz: no space"))
    assert full.code is ExitCode.FAILED and "complete, but the policy cannot be saved to p.npz" in full.why
    for refused in (False, True):
        assert ended(e.Failed(2, "the plant burns", refused=refused)).code is ExitCode.FAILED
    assert ended(e.Stop("got SIGTERM", ExitCode.TERMINATED)).code is ExitCode.TERMINATED
    agent, server = saving()
    (end,) = of(agent.tell(server.say(OVER)), e.Exit)
    assert end.code is ExitCode.FAILED and end.why.endswith("but the final parameters were not sent to save")
    assert "--onboard" in end.hint


def test_a_device_that_onboards_ends_as_any_onboarder() -> None:
    """Its rows are what it is there for; what it saves it saves with them."""
    agent, server = Agent(overrides={"device": {"saves": True}}), ServerSide()
    agent.join(server, role="onboard")
    (end,) = of(agent.tell(server.say(OVER)), e.Exit)
    assert end.code is ExitCode.STOPPED and "had not measured its rows yet" in end.why

"""The agent's decisions as lists of events, without a loop, a socket or a clock."""

import math

import msgspec
import pytest

from agent import events as e
from agent.contact import NAME_AGAIN_S
from edge_fed.params import crc32
from edge_fed.program.exit_codes import ExitCode
from protocol import messages as m
from protocol.limits import MINOR
from tests.agent.scripted import INITIAL, LIMITS, RUN, Agent, ServerSide, of, params, sent, texts, trained

# --- registration --------------------------------------------------------------------------------------


def test_first_tick_registers_with_everything_the_server_must_know() -> None:
    """REGISTER goes out at once, outside any session, with goal, role, overrides and incarnation."""
    agent = Agent(overrides={"inner_batch": 20}, take_over=True)
    (register,) = sent(agent.tell(e.Tick()), m.Register)
    assert (register.agent, register.role, register.incarnation) == (3, "auto", b"i" * 16)
    assert register.overrides == {"inner_batch": 20} and register.take_over and register.known_run is None
    assert agent.machine.phase == "registering"


def test_welcome_builds_and_ready_follows() -> None:
    """WELCOME starts one build; READY says what was built; then the agent is idle."""
    agent, server = Agent(), ServerSide()
    server.hear(agent.tell(e.Tick()))
    commands = agent.tell(server.welcome())
    (build,) = of(commands, e.Build)
    assert build.run == RUN and build.role == "train" and build.config["name"] == "few-shot"
    assert agent.machine.phase == "building" and not sent(commands)
    commands = agent.tell(agent.built(build, stateful=True))
    (ready,) = server.hear(commands)
    assert isinstance(ready, m.Ready) and ready.initial_sha256 == INITIAL and ready.stateful
    assert ready.state_tag == 0 and agent.machine.phase == "idle"
    assert [c.name for c in of(commands, e.Tell)] == ["ready"]


def test_what_is_built_is_built_for_the_role_that_the_server_gives() -> None:
    """Whoever asks for no role may train or onboard: some things only the one or the other needs."""
    agent, server = Agent(), ServerSide()
    server.hear(agent.tell(e.Tick()))
    (build,) = of(agent.tell(server.welcome("onboard")), e.Build)
    assert build.role == "onboard"


@pytest.mark.parametrize("limit", [("lease_s", math.nan), ("heartbeat_s", 0.0), ("chunk_bytes", 2.0**40)])
def test_limits_that_nobody_can_keep_are_refused(limit: tuple[str, float]) -> None:
    """A server that says such limits in WELCOME is left with the code of a refusal, and the limit by name."""
    agent, server = Agent(), ServerSide()
    server.hear(agent.tell(e.Tick()))
    received = server.welcome()
    message = msgspec.structs.replace(received.message, limits={**LIMITS, limit[0]: limit[1]})
    (end,) = of(agent.tell(e.Received(received.header, message, {})), e.Exit)
    assert end.code == ExitCode.REFUSED and limit[0] in end.why


def test_ready_declares_the_state_that_the_server_counted() -> None:
    """The state tag is the server's last counted round if that state is at hand, else 0."""
    for tags, expected in ((frozenset({7, 9}), 7), (frozenset({9}), 0)):
        agent, server = Agent(), ServerSide()
        server.hear(agent.tell(e.Tick()))
        (build,) = of(agent.tell(server.welcome(last_counted=7)), e.Build)
        (ready,) = server.hear(agent.tell(agent.built(build, tags=tags, stateful=True)))
        assert isinstance(ready, m.Ready) and ready.state_tag == expected


def test_other_initial_parameters_are_said_and_sent() -> None:
    """A machine that computes other initial parameters warns; the server decides."""
    agent, server = Agent(), ServerSide()
    server.hear(agent.tell(e.Tick()))
    (build,) = of(agent.tell(server.welcome()), e.Build)
    commands = agent.tell(agent.built(build, initial="f" * 64))
    assert "other initial parameters" in texts(commands)
    assert sent(commands, m.Ready)[0].initial_sha256 == "f" * 64


def test_a_repeated_welcome_changes_nothing() -> None:
    """Two REGISTERs get two WELCOMEs of one session; the second neither builds nor sends READY again."""
    agent, server = Agent(), ServerSide()
    server.hear(agent.tell(e.Tick()))
    first = server.welcome()
    server.hear(agent.run_until(0.2))  # asks again before the answer is there
    (build,) = of(agent.tell(first), e.Build)
    assert not of(agent.tell(server.welcome()), e.Work)
    assert len(sent(agent.tell(agent.built(build)), m.Ready)) == 1


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("goal_in_use", ExitCode.SUPERSEDED),
        ("quarantined", ExitCode.REFUSED),
        ("version", ExitCode.REFUSED),
        ("unknown_goal", ExitCode.REFUSED),
        ("wrong_run", ExitCode.REFUSED),
        ("overrides", ExitCode.REFUSED),
        ("dimension", ExitCode.REFUSED),
        ("schema", ExitCode.REFUSED),
        ("environment", ExitCode.REFUSED),
        ("finished", ExitCode.REFUSED),
        ("shutting_down", ExitCode.REFUSED),
    ],
)
def test_each_rejection_ends_with_its_code_and_both_values(reason: str, code: ExitCode) -> None:
    """REJECT ends the program at once; the last line has reason, message, expected and received.

    [complaints 58]
    """
    agent, server = Agent(), ServerSide()
    server.hear(agent.tell(e.Tick()))
    reject = msgspec.convert(
        {"t": "REJECT", "reason": reason, "message": "why it is so", "expected": "A1", "received": "B2"},
        m.Reject,
    )
    commands = agent.tell(server.say(reject))
    (end,) = of(commands, e.Exit)
    assert end.code is code and agent.machine.ended
    assert all(part in end.why for part in (reason, "why it is so", "A1", "B2"))
    assert agent.tell(e.Tick(), after=60.0) == []


def test_another_major_version_is_refused_with_both_versions() -> None:
    """A server of another major ends the program with the code for refusals."""
    (end,) = of(Agent().tell(e.PeerVersion(2, 5)), e.Exit)
    assert end.code is ExitCode.REFUSED and "2.5" in end.why and f"1.{MINOR}" in end.why


# --- rounds --------------------------------------------------------------------------------------------


def test_a_round_from_theta_to_commit() -> None:
    """THETA is worked on, UPDATE echoes its checksum, ACK(held) keeps it, the commit forgets it."""
    agent, server = Agent(), ServerSide()
    agent.join(server)
    commands = agent.tell(server.theta(1, 2.0, last_counted=0))
    (work,) = of(commands, e.Train)
    assert (work.round, work.params.tolist()) == (1, [2.0] * 3) and agent.machine.phase == "training"
    commands = agent.tell(trained(work))
    (update,) = server.hear(commands)
    assert isinstance(update, m.Update)
    assert (update.round, update.theta_crc32, update.trajectories) == (1, crc32(params(2.0)), 100)
    assert of(commands, e.Send)[0].tensors["delta"].tolist() == [0.25] * 3
    assert [c.name for c in of(commands, e.Tell)] == ["trained", "sent"]
    assert agent.tell(server.say(m.Ack(round=1, outcome="held"))) == []
    for _ in range(3):
        server.hear(agent.run_until(1.0))
        assert sent(agent.tell(server.say(m.Heartbeat(phase="running")))) == []
    (work,) = of(agent.tell(server.theta(2, 3.0, last_counted=1)), e.Train)
    assert (work.round, work.last_counted, agent.machine.phase) == (2, 1, "training")


def test_a_repeated_theta_is_idempotent_while_training_and_after() -> None:
    """The same question is worked on once: repeated in training, after the answer and after its receipt."""
    agent, server = Agent(), ServerSide()
    agent.join(server)
    (work,) = of(agent.tell(server.theta(1)), e.Train)
    assert agent.tell(server.theta(1)) == []
    server.hear(agent.tell(trained(work)))
    assert agent.tell(server.theta(1)) == []
    agent.tell(server.say(m.Ack(round=1, outcome="held")))
    assert agent.tell(server.theta(1)) == []


def test_an_older_theta_is_dropped() -> None:
    """[wire 14] Parameters of an earlier round than the one held, or of a committed one, start nothing."""
    agent, server = Agent(), ServerSide()
    agent.join(server)
    (work,) = of(agent.tell(server.theta(5)), e.Train)
    assert not of(agent.tell(server.theta(4)), e.Work)
    committed = server.theta(6)
    header = msgspec.structs.replace(committed.header, committed=6)
    assert not of(agent.tell(e.Received(header, committed.message, committed.tensors)), e.Work)
    assert len(sent(agent.tell(trained(work)), m.Update)) == 1


def test_a_newer_theta_replaces_the_round_at_work() -> None:
    """The server went on without this agent: the old result is dropped, the new round is worked on.

    [wire 14]
    """
    agent, server = Agent(), ServerSide()
    agent.join(server)
    (old,) = of(agent.tell(server.theta(1)), e.Train)
    (new,) = of(agent.tell(server.theta(2)), e.Train)
    assert sent(agent.tell(trained(old))) == []
    (update,) = server.hear(agent.tell(trained(new)))
    assert isinstance(update, m.Update) and update.round == 2


def test_a_torn_theta_starts_nothing_and_is_not_held() -> None:
    """A wrong checksum is dropped and named; HEARTBEAT shows the server that the round is not held.

    [wire 2]
    """
    agent, server = Agent(), ServerSide()
    agent.join(server)
    bad = m.Theta(round=1, crc32=1, deadline_s=60.0)
    commands = agent.tell(server.say(bad, params=params()))
    assert not of(commands, e.Work) and "crc32" in texts(commands)
    (beat,) = sent(agent.run_until(1.0), m.Heartbeat)
    assert beat.round == 0


def test_a_control_variate_is_worked_with_and_echoed() -> None:
    """THETA's goes to the work; UPDATE's theta_crc32 is of both tensors; another one is another work."""
    agent, server = Agent(), ServerSide()
    agent.join(server, features=("control",), stateful=True)
    (work,) = of(agent.tell(server.theta(1, 2.0, control=0.5, control_reset=True)), e.Train)
    assert (work.control.tolist(), work.control_reset, work.state_reset) == ([0.5] * 3, True, False)
    (update,) = server.hear(agent.tell(trained(work)))
    assert isinstance(update, m.Update)
    assert update.theta_crc32 == crc32(params(2.0), params(0.5)) != crc32(params(2.0))
    assert not of(agent.tell(server.theta(1, 2.0, control=0.5, control_reset=True)), e.Work)
    for changed in ({"control": 0.25, "control_reset": True}, {"control": 0.25, "control_reset": False}):
        (again,) = of(agent.tell(server.theta(1, 2.0, **changed)), e.Train)
        assert (again.control.tolist(), again.control_reset) == ([0.25] * 3, changed["control_reset"])


def test_a_torn_control_variate_starts_nothing() -> None:
    """Its bytes are under THETA's checksum like those of the parameters."""
    agent, server = Agent(), ServerSide()
    agent.join(server, features=("control",))
    only_params = crc32(params(1.0))
    commands = agent.tell(server.theta(1, 1.0, control=0.5, crc32=only_params))
    assert not of(commands, e.Work) and "crc32" in texts(commands)
    swapped = crc32(params(0.5), params(1.0))
    assert not of(agent.tell(server.theta(1, 1.0, control=0.5, crc32=swapped)), e.Work)
    (beat,) = sent(agent.run_until(1.0), m.Heartbeat)
    assert beat.round == 0


@pytest.mark.parametrize(
    ("features", "control", "part"), [(("control",), None, "without"), ((), 0.5, "with a")]
)
def test_a_control_variate_against_the_features_starts_nothing(
    features: tuple[str, ...], control: float | None, part: str
) -> None:
    """WELCOME has said whether the run has one: no update is computed without it, or with one too many."""
    agent, server = Agent(), ServerSide()
    agent.join(server, features=features)
    commands = agent.tell(server.theta(1, control=control))
    assert not of(commands, e.Work) and part in texts(commands)


@pytest.mark.parametrize(("outcome", "reason"), [("late", ""), ("refused", "not finite")])
def test_an_update_that_does_not_count_is_forgotten(outcome: str, reason: str) -> None:
    """ACK(late) and ACK(refused) end the update; nothing of it is sent to a restarted server."""
    agent, server = Agent(), ServerSide()
    agent.join(server)
    (work,) = of(agent.tell(server.theta(1)), e.Train)
    server.hear(agent.tell(trained(work)))
    ack = msgspec.convert({"t": "ACK", "round": 1, "outcome": outcome, "reason": reason}, m.Ack)
    commands = agent.tell(server.say(ack))
    assert "does not count" in texts(commands) and reason in texts(commands)
    _, commands = rejoin(agent, agent.tell(server.say(m.Error(code="unknown_session"))))
    assert sent(commands, m.Ready) and not sent(commands, m.Update)


def test_a_conflict_ends_the_update() -> None:
    """ERROR(conflict) means that the server holds another update of this round; ours is not repeated."""
    agent, server = Agent(), ServerSide()
    agent.join(server)
    (work,) = of(agent.tell(server.theta(1)), e.Train)
    server.hear(agent.tell(trained(work)))
    commands = agent.tell(server.say(m.Error(code="conflict", message="another crc32")))
    assert "another crc32" in texts(commands)
    beats = agent.run_until(1.0)
    server.hear(beats)
    assert not sent(agent.tell(server.say(m.Heartbeat(phase="running"))), m.Update)


def test_rounds_of_milliseconds_do_not_fill_the_screen() -> None:
    """At most one line a second at level info; the others are there at level debug."""
    agent, server = Agent(), ServerSide()
    agent.join(server)
    levels = []
    for round_ in range(1, 31):
        (work,) = of(agent.tell(server.theta(round_)), e.Train)
        lines = of(agent.tell(trained(work), after=0.1), e.Log)
        assert [line.text for line in lines] == [f"round {round_} trained"]
        levels.append(lines[0].level)
    assert levels.count("info") == 3 and levels[0] == "info"


# --- the session is lost and found ----------------------------------------------------------------------


def rejoin(agent: Agent, commands: list[e.Command], **welcome: int) -> tuple[ServerSide, list[e.Command]]:
    """A restarted server welcomes an agent that has just sent REGISTER."""
    server = ServerSide(b"t" * 16)
    server.hear(commands)
    return server, agent.tell(server.welcome(**welcome))


def test_a_restarted_server_gets_register_ready_and_the_pending_update() -> None:
    """unknown_session: register, READY without building again, then the update that is not committed.

    [wire 20]
    """
    agent, server = Agent(), ServerSide()
    agent.join(server)
    (work,) = of(agent.tell(server.theta(1)), e.Train)
    (first,) = server.hear(agent.tell(trained(work)))
    agent.tell(server.say(m.Ack(round=1, outcome="held")))
    commands = agent.tell(server.say(m.Error(code="unknown_session")))
    (register,) = sent(commands, m.Register)
    assert register.known_run == RUN
    restarted, commands = rejoin(agent, commands)
    assert not of(commands, e.Work)
    ready, update = restarted.hear(commands)
    assert isinstance(ready, m.Ready) and update == first


def test_the_restarted_server_asks_again_and_gets_the_kept_update_once() -> None:
    """THETA of the pending round needs no new training, and the update is not sent twice."""
    agent, server = Agent(), ServerSide()
    agent.join(server)
    (work,) = of(agent.tell(server.theta(1)), e.Train)
    server.hear(agent.tell(trained(work)))
    restarted, commands = rejoin(agent, agent.tell(server.say(m.Error(code="unknown_session"))))
    assert len(sent(commands, m.Update)) == 1
    restarted.hear(commands)
    assert agent.tell(restarted.theta(1)) == []


def test_other_agent_state_means_new_work_for_the_same_round() -> None:
    """The same round and parameters with another state tag give another update: it is computed again."""
    agent, server = Agent(), ServerSide()
    agent.join(server)
    (work,) = of(agent.tell(server.theta(1)), e.Train)
    server.hear(agent.tell(trained(work)))
    restarted, commands = rejoin(agent, agent.tell(server.say(m.Error(code="unknown_session"))))
    restarted.hear(commands)
    (again,) = of(agent.tell(restarted.theta(1, state_reset=True)), e.Train)
    assert again.state_reset and again.round == 1


def test_a_committed_update_is_not_sent_to_a_restarted_server() -> None:
    """WELCOME says what is committed; an update up to there has met its fate."""
    agent, server = Agent(), ServerSide()
    agent.join(server)
    (work,) = of(agent.tell(server.theta(1)), e.Train)
    server.hear(agent.tell(trained(work)))
    commands = agent.tell(server.say(m.Error(code="unknown_session")))
    restarted = ServerSide(b"t" * 16)
    restarted.committed = 1
    restarted.hear(commands)
    commands = agent.tell(restarted.welcome(last_counted=1))
    assert sent(commands, m.Ready) and not sent(commands, m.Update)


def test_training_goes_on_while_the_session_is_lost() -> None:
    """A result that comes without a session waits, and is sent after READY."""
    agent, server = Agent(), ServerSide()
    agent.join(server)
    (work,) = of(agent.tell(server.theta(1)), e.Train)
    register = agent.tell(server.say(m.Error(code="unknown_session")))
    assert not of(register, e.StopWork)
    assert sent(agent.tell(trained(work))) == []
    _, commands = rejoin(agent, register)
    assert [type(message) for message in sent(commands)] == [m.Ready, m.Update]


def test_a_lost_update_is_sent_again_when_the_server_has_heard_what_came_after_it() -> None:
    """First in, first out: without ACK, an answer that names a later message proves the loss."""
    agent, server = Agent(), ServerSide()
    agent.join(server)
    (work,) = of(agent.tell(server.theta(1)), e.Train)
    server.hear(agent.run_until(1.0))  # one heartbeat is unanswered when the update goes out
    (update,) = server.hear(agent.tell(trained(work)))
    before = server.session.received - 1
    for _ in range(3):  # it is on a slow way, however many answers to earlier heartbeats come
        assert sent(agent.tell(server.say(m.Heartbeat(phase="running", heard=before)))) == []
    assert len(server.hear(agent.run_until(1.0))) == 1
    heard = server.session.received
    assert sent(agent.tell(server.say(m.Heartbeat(phase="running", heard=heard)))) == [update]


def test_a_slow_link_costs_one_registration_and_no_second_update() -> None:
    """The silent server was alive: patience doubles, and the update on its way is not sent again."""
    agent, server = Agent(), ServerSide()
    agent.join(server)
    (work,) = of(agent.tell(server.theta(1)), e.Train)
    server.hear(agent.tell(trained(work)))
    before = server.session.received - 1
    (register,) = [x for x in server.hear(agent.run_until(5.0)) if isinstance(x, m.Register)]
    assert [type(x) for x in server.hear(agent.tell(server.welcome()))] == [m.Ready]
    agent.tell(server.say(m.Heartbeat(phase="running", heard=before)))
    assert not sent(agent.run_until(9.9), m.Register) and sent(agent.run_until(0.2), m.Register) == [register]


def test_heartbeats_name_the_last_message_that_came() -> None:
    """So the server knows what is still on its way."""
    agent, server = Agent(), ServerSide()
    agent.join(server)
    agent.tell(server.theta(1))
    (beat,) = server.hear(agent.run_until(1.0))
    assert beat.heard == server.session.sent > 0


def test_a_send_that_fails_is_a_fact() -> None:
    """Nobody takes messages: no retry in a tight loop; when a server is found, register, then send again."""
    agent, server = Agent(), ServerSide()
    agent.join(server)
    (work,) = of(agent.tell(server.theta(1)), e.Train)
    (update,) = sent(agent.tell(trained(work)), m.Update)
    assert sent(agent.tell(e.NotSent(update))) == [] and agent.machine.phase == "connecting"
    commands = agent.run_until(0.9)
    assert sent(commands) == []
    commands = agent.tell(e.Reachable())
    server.session.receive(of(commands, e.Send)[0].header, sent(commands)[0], 0.0)
    commands = agent.tell(server.welcome())
    assert [type(message) for message in sent(commands)] == [m.Ready, m.Update]


def test_messages_of_an_earlier_server_are_dropped() -> None:
    """What still arrives from the session before changes nothing."""
    agent, server = Agent(), ServerSide()
    agent.join(server)
    late = server.theta(1)
    restarted, commands = rejoin(agent, agent.tell(server.say(m.Error(code="unknown_session"))))
    restarted.hear(commands)
    assert not of(agent.tell(late), e.Work)


# --- liveness ------------------------------------------------------------------------------------------


def test_heartbeats_carry_phase_progress_and_the_held_round() -> None:
    """An idle wire carries one heartbeat per interval, also while training."""
    agent, server = Agent(), ServerSide()
    agent.join(server)
    agent.tell(server.theta(4))
    agent.tell(e.Tick(progress=3), after=1.0)
    (beat,) = sent(agent.tell(e.Tick(progress=3), after=1.0), m.Heartbeat)
    assert (beat.phase, beat.progress, beat.round) == ("training", 3, 4)


def test_a_silent_server_is_named_and_then_registered_with_again() -> None:
    """[wire 28] Silence beyond the lease ends the session on this side; the same session may come back."""
    agent, server = Agent(), ServerSide()
    agent.join(server)
    commands = agent.run_until(4.9)
    server.hear(commands)
    assert "waiting for a sign of life of the server" in texts(commands)
    commands = agent.run_until(0.2)
    assert "registering again" in texts(commands) and sent(commands, m.Register)
    server.hear(commands)
    commands = agent.tell(server.welcome())
    assert [type(message) for message in sent(commands)] == [m.Ready]
    assert not of(commands, e.Work)


def test_a_stopped_process_blames_nobody() -> None:
    """A tick that comes far too late (SIGSTOP, suspend) extends the server's lease by that time."""
    agent, server = Agent(), ServerSide()
    agent.join(server)
    commands = agent.tell(e.Tick(late_s=600.0), after=601.0)
    assert sent(commands, m.Heartbeat) and not sent(commands, m.Register)


def test_after_a_stop_no_old_word_of_the_server_is_repeated() -> None:
    """Round 29 is long over when this process goes on: the next answer comes before a wait is named."""
    agent, server = Agent(), ServerSide()
    agent.join(server)
    agent.tell(server.say(m.Heartbeat(phase="running", message="round 29")))
    commands = agent.tell(e.Tick(late_s=600.0), after=601.0)
    assert "waiting" not in texts(commands)
    agent.tell(server.say(m.Heartbeat(phase="running", message="round 44")))
    text = texts(agent.run_until(1.9))
    assert "round 44" in text and "29" not in text


@pytest.mark.parametrize(
    ("address", "keys", "flags"),
    [
        ("tcp://127.0.0.1:5555", "", ""),
        ("tcp://127.0.0.1:5555", "a.key", " --keys DIR"),
        ("tcp://127.0.0.1:6000", "", " --bind tcp://127.0.0.1:6000"),
        ("ipc:///tmp/x", "", " --bind ipc:///tmp/x"),
        ("tcp://10.0.0.7:6000", "a.key", " --bind tcp://0.0.0.0:6000 --keys DIR (on that machine)"),
        ("tcp://10.0.0.7:6000", "", " --bind tcp://0.0.0.0:6000 --insecure (on that machine)"),
    ],
)
def test_the_hint_binds_where_the_agent_looks(address: str, keys: str, flags: str) -> None:
    """A server that was started as the hint says is found by this agent."""
    agent = Agent(give_up_after_s=7.0, address=address, key_file=keys)
    end = of(agent.run_until(8.0, alone=True), e.Exit)[0]
    assert end.hint == f"start the server with: python -m server{flags}"


@pytest.mark.parametrize("role", ["train", "onboard"])
def test_an_agent_of_a_run_is_waited_for_with_the_resume_of_that_run(role: m.Role) -> None:
    """A new server would lead another run and refuse it."""
    agent, server = Agent(give_up_after_s=7.0, address="tcp://127.0.0.1:5555"), ServerSide()
    agent.join(server, role)
    end = of(agent.run_until(20.0, alone=True), e.Exit)[0]
    assert end.hint == "go on with run few-shot (72727272): python -m server --resume runs/<its folder>"


def test_a_training_goal_that_comes_too_late_is_told_that_it_onboards() -> None:
    """Goal 3 trains in few-shot; goal 7 does not, and whoever asked to onboard knows."""
    for plan, told in (({}, True), ({"agent": 7}, False), ({"role": "onboard"}, False)):
        agent, server = Agent(**plan), ServerSide()
        server.hear(agent.tell(e.Tick()))
        text = texts(agent.tell(server.welcome("onboard")))
        assert ("its training is over: onboarding instead" in text) == told


def test_no_server_is_named_every_two_seconds_and_given_up() -> None:
    """Before first contact: a named wait at least every 2 s with what to do, then the exit code."""
    agent = Agent(give_up_after_s=7.0)
    commands = agent.run_until(8.0, alone=True)
    named = [c for c in of(commands, e.Log) if "waiting for" in c.text]
    assert len(named) == 3 and "giving up in 5 s" in named[0].text
    hint = "start the server with: python -m server --bind tcp://0.0.0.0:1 --insecure (on that machine)"
    assert named[0].fields["hint"] == hint
    (end,) = of(commands, e.Exit)
    assert end.code is ExitCode.SERVER_GONE and "python -m server" in end.hint and "tcp://here:1" in end.why
    assert agent.now - 100.0 >= 7.0 and agent.machine.phase == "ended"


def test_nobody_for_an_onboarder_names_serve_and_resume() -> None:
    """An onboarder may come after the run: its hint is --serve or --resume."""
    commands = Agent(role="onboard", give_up_after_s=3.0).run_until(4.0, alone=True)
    assert "--serve or --resume" in of(commands, e.Exit)[0].hint


def test_a_server_that_dies_is_given_up_after_the_same_patience() -> None:
    """[complaints 11] After contact the patience counts from the server's last word."""
    agent, server = Agent(give_up_after_s=20.0), ServerSide()
    agent.join(server)
    commands = agent.run_until(21.0)
    (end,) = of(commands, e.Exit)
    assert end.code is ExitCode.SERVER_GONE
    gaps = [c for c in of(commands, e.Log) if "waiting for" in c.text or "giving up" in c.text]
    assert len(gaps) >= 7  # at least one line every two seconds after the lease


def test_unanswered_registrations_come_ever_more_rarely() -> None:
    """A server that hears but does not answer is not flooded."""
    assert 4 <= len(sent(Agent().run_until(10.0), m.Register)) <= 6


def test_a_server_that_appears_is_met_at_once() -> None:
    """While nobody is there the socket tells when somebody is: REGISTER goes out in the same moment.

    [wire 19]
    """
    agent = Agent()
    (register,) = sent(agent.tell(e.Tick()), m.Register)
    assert agent.tell(e.NotSent(register)) == [] and agent.machine.phase == "connecting"
    assert sent(agent.tell(e.Reachable(), after=0.01), m.Register) == [register]
    assert agent.machine.phase == "registering"
    assert agent.tell(e.Reachable()) == []


def test_a_ready_that_did_not_leave_registers_again() -> None:
    """READY has no receipt: if the socket refuses it, the registration starts over."""
    agent, server = Agent(), ServerSide()
    server.hear(agent.tell(e.Tick()))
    (build,) = of(agent.tell(server.welcome()), e.Build)
    (ready,) = sent(agent.tell(agent.built(build)), m.Ready)
    agent.tell(e.NotSent(ready))
    assert sent(agent.tell(e.Reachable()), m.Register)


def test_a_long_idle_wait_says_what_the_server_waits_for() -> None:
    """Waiting for work is named within 2 s, and again later, in the server's own words."""
    agent, server = Agent(), ServerSide()
    agent.join(server)
    said = []
    for _ in range(int(NAME_AGAIN_S) + 3):
        said += agent.run_until(1.0)
        said += agent.tell(
            server.say(m.Heartbeat(phase="joining", message="the server waits for agents 4, 5"))
        )
    assert texts(said).count("the server waits for agents 4, 5") == 2


def test_ping_is_answered_at_once() -> None:
    """PING asks whether this process lives; the answer does not wait for the work."""
    agent, server = Agent(), ServerSide()
    agent.join(server)
    agent.tell(server.theta(1))
    (pong,) = server.hear(agent.tell(server.say(m.Ping())))
    assert isinstance(pong, m.Pong) and agent.machine.phase == "training"


# --- endings -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "code"),
    [("finished", ExitCode.OK), ("failed", ExitCode.STOPPED), ("stopped", ExitCode.STOPPED)],
)
def test_shutdown_ends_with_the_code_of_its_outcome(outcome: str, code: ExitCode) -> None:
    """[complaints 10] SHUTDOWN stops the work, says why, and answers nothing."""
    agent, server = Agent(), ServerSide()
    agent.join(server)
    agent.tell(server.theta(1))
    shutdown = msgspec.convert({"t": "SHUTDOWN", "outcome": outcome, "reason": "all done"}, m.Shutdown)
    commands = agent.tell(server.say(shutdown))
    assert [type(c) for c in commands] == [e.StopWork, e.Exit]
    assert commands[-1].code is code and "all done" in commands[-1].why  # type: ignore[attr-defined]


def test_superseded_ends_and_never_comes_back() -> None:
    """[wire 16] A displaced agent has its own code and does not register again."""
    agent, server = Agent(), ServerSide()
    agent.join(server)
    (end,) = of(agent.tell(server.say(m.Superseded(message="by another process"))), e.Exit)
    assert end.code is ExitCode.SUPERSEDED
    assert agent.run_until(60.0) == []


@pytest.mark.parametrize("code", [ExitCode.OK, ExitCode.INTERRUPTED, ExitCode.TERMINATED])
def test_leaving_says_bye(code: ExitCode) -> None:
    """A signal or the supervisor's leave: BYE, then the end with that code."""
    agent, server = Agent(), ServerSide()
    agent.join(server)
    commands = agent.tell(e.Stop("somebody wants it", code))
    (bye,) = server.hear(commands)
    assert isinstance(bye, m.Bye) and bye.reason == "somebody wants it"
    assert of(commands, e.Exit)[0].code is code


def test_leaving_without_a_session_says_nothing() -> None:
    """Without a server there is nobody to say BYE to."""
    commands = Agent().tell(e.Stop("SIGINT", ExitCode.INTERRUPTED))
    assert [type(c) for c in commands] == [e.StopWork, e.Exit]


def test_a_step_that_the_mathematics_refuses_keeps_the_agent() -> None:
    """Not finite: the server is told at once, the agent stays for the next round."""
    agent, server = Agent(), ServerSide()
    agent.join(server)
    (work,) = of(agent.tell(server.theta(1)), e.Train)
    commands = agent.tell(e.Failed(work.number, "NonFinite: step 3", refused=True))
    (error,) = server.hear(commands)
    assert isinstance(error, m.Error) and "round 1" in error.message and "step 3" in error.message
    assert "round 1: NonFinite: step 3" in texts(commands)
    assert of(agent.tell(server.theta(2)), e.Train)


def test_a_broken_step_ends_the_agent_and_excuses_it() -> None:
    """A bug in a step: cause to the server, trace to the own log, BYE, exit code 1."""
    agent, server = Agent(), ServerSide()
    agent.join(server)
    (work,) = of(agent.tell(server.theta(1)), e.Train)
    commands = agent.tell(e.Failed(work.number, "KeyError: 'x' at a.py:3", trace="the trace"))
    error, bye = server.hear(commands)
    assert isinstance(error, m.Error) and "a.py:3" in error.message and isinstance(bye, m.Bye)
    assert of(commands, e.Exit)[0].code is ExitCode.FAILED and "the trace" in texts(commands)


def test_a_refusal_of_the_agent_s_own_is_said_once() -> None:
    """A cause that needs no trace stands in the exit alone, and in what the server hears."""
    agent, server = Agent(), ServerSide()
    server.hear(agent.tell(e.Tick()))
    (build,) = of(agent.tell(server.welcome()), e.Build)
    commands = agent.tell(e.Failed(build.number, "this agent insists on noise", ExitCode.REFUSED))
    assert [c for c in of(commands, e.Log) if "insists" in c.text] == []
    (end,) = of(commands, e.Exit)
    assert (end.code, end.why) == (ExitCode.REFUSED, "this agent insists on noise")
    (bye,) = server.hear(commands)
    assert bye == m.Bye(reason="it refuses the run: this agent insists on noise"), "no internal error"


def test_an_error_of_dropped_work_is_no_error() -> None:
    """Work that was replaced may fail as it likes."""
    agent, server = Agent(), ServerSide()
    agent.join(server)
    (old,) = of(agent.tell(server.theta(1)), e.Train)
    agent.tell(server.theta(2))
    assert agent.tell(e.Failed(old.number, "stopped")) == []


@pytest.mark.parametrize("point", ["assigned", "trained", "sent"])
def test_kill_points(point: e.KillPoint) -> None:
    """The process kills itself at the point: before training, before sending, once the server has it."""
    agent, server = Agent(), ServerSide()
    agent.join(server)
    assert agent.tell(e.Arm(point, 2)) == [e.Tell("armed", {"point": point, "round": 2})]
    seen: dict[str, bool] = {}
    for round_ in (1, 2):
        assigned = agent.tell(server.theta(round_))
        (work,) = of(assigned, e.Train)
        finished = agent.tell(trained(work))
        held = agent.tell(server.say(m.Ack(round=round_, outcome="held")))
        seen = {
            name: bool(of(c, e.Die))
            for name, c in (("assigned", assigned), ("trained", finished), ("sent", held))
        }
        if round_ == 1:
            assert not any(seen.values())
    assert seen == {name: name == point for name in seen}
    kinds = [type(c) for c in (assigned if point == "assigned" else finished)]
    if point != "sent":
        assert kinds.index(e.Die) < kinds.index(e.Train if point == "assigned" else e.Send)


# --- evaluation and onboarding -------------------------------------------------------------------------


def evaluation(server: ServerSide, round_: int) -> e.Received:
    """EVALUATE of a committed round."""
    return server.say(m.Evaluate(round=round_, crc32=crc32(params())), params=params())


def test_evaluation_is_reported_and_repeated_on_demand() -> None:
    """EVALUATE gets one REPORT row; asked again, the kept row is sent without new work."""
    agent, server = Agent(), ServerSide()
    agent.join(server)
    (work,) = of(agent.tell(evaluation(server, 0)), e.Evaluate)
    assert agent.machine.phase == "evaluating"
    (report,) = server.hear(agent.tell(e.Measured(work.number, ({"expected_return": 1.0},), 768)))
    assert isinstance(report, m.Report)
    assert (report.kind, report.round, report.trajectories) == ("evaluation", 0, 768)
    commands = agent.tell(evaluation(server, 0))
    assert sent(commands) == [report] and not of(commands, e.Work)


def onboarder(server: ServerSide, **plan: object) -> Agent:
    """An agent that joined as an onboarder and asked."""
    agent = Agent(role="onboard", **plan)
    agent.join(server, role="onboard")
    return agent


def init(server: ServerSide, round_: int = 150) -> e.Received:
    """INIT with the final parameters."""
    return server.say(m.Init(round=round_, crc32=crc32(params()), final=True), params=params())


ROWS = ({"goal": 3, "init": "learned", "m_adapt": 0, "return": 1.0, "success": 0.5, "trajectories": 0},)


def test_onboarding_from_request_to_exit() -> None:
    """ONBOARD follows READY; INIT starts the work; rows are shown, told, reported; then BYE and exit 0."""
    server = ServerSide()
    agent = Agent(role="onboard", at="round", at_round=40)
    server.hear(agent.tell(e.Tick()))
    (build,) = of(agent.tell(server.welcome("onboard")), e.Build)
    ready, request = server.hear(agent.tell(agent.built(build)))
    assert isinstance(ready, m.Ready) and request == m.Onboard(at="round", round=40)
    (work,) = of(agent.tell(init(server, 40)), e.Onboard)
    commands = agent.tell(e.Measured(work.number, ROWS, 512))
    assert of(commands, e.Show)[0].rows == ROWS
    assert {"round": 40, "rows": list(ROWS)} in [c.fields for c in of(commands, e.Tell) if c.name == "rows"]
    (report,) = server.hear(commands)
    assert isinstance(report, m.Report) and report.rows == ROWS and report.kind == "onboarding"
    assert agent.machine.phase == "onboarding", "until the receipt is here"
    commands = agent.tell(server.say(m.Ack(of="onboarding", round=40, outcome="held")))
    assert isinstance(server.hear(commands)[0], m.Bye)
    assert of(commands, e.Exit)[0].code is ExitCode.OK


def test_a_report_that_was_lost_is_sent_again() -> None:
    """The answer to a later heartbeat without ACK: an onboarder must not leave with its rows untold."""
    server = ServerSide()
    agent = onboarder(server)
    (work,) = of(agent.tell(init(server)), e.Onboard)
    (report,) = sent(agent.tell(e.Measured(work.number, ROWS, 512)), m.Report)
    beats = server.hear(agent.run_until(1.1))
    assert [type(message) for message in beats] == [m.Heartbeat]
    heard = server.session.received
    assert sent(agent.tell(server.say(m.Heartbeat(phase="serving", heard=heard)))) == [report]
    assert not agent.machine.ended


def test_an_unsaved_policy_is_told_at_the_end_and_no_success() -> None:
    """The rows are shown and reported all the same; exit 1 without a trace."""
    server = ServerSide()
    agent = onboarder(server)
    (work,) = of(agent.tell(init(server)), e.Onboard)
    commands = agent.tell(e.Measured(work.number, ROWS, 512, unsaved="the policy cannot be saved: full"))
    assert of(commands, e.Show)[0].rows == ROWS and sent(commands, m.Report)
    assert "trace" not in texts(commands)
    (end,) = of(agent.tell(server.say(m.Ack(of="onboarding", round=150, outcome="held"))), e.Exit)
    assert end.code is ExitCode.FAILED and "cannot be saved: full" in end.why


def test_a_warning_is_said_once_and_passed_to_the_supervisor() -> None:
    """The person at the agent reads it after the first measurement that has one; the server gets rows."""
    server = ServerSide()
    agent = onboarder(server)
    said = []
    for round_, text in ((148, ""), (149, "the step is long"), (150, "the step is longer")):
        (work,) = of(agent.tell(init(server, round_)), e.Onboard)
        commands = agent.tell(e.Measured(work.number, ROWS, 512, warning=text))
        lines = [c for c in of(commands, e.Log) if c.level == "warning"]
        told = [c.fields for c in of(commands, e.Tell) if c.name == "warning"]
        assert [{"text": line.text} for line in lines] == told
        assert all(report.rows == ROWS for report in sent(commands, m.Report))
        said.append([line.text for line in lines])
    assert said == [[], ["the step is long"], []]


def test_a_refused_request_is_a_refusal_and_not_the_server_s_end() -> None:
    """ERROR and SHUTDOWN with one and the same reason: exit 4. Another reason: exit 9."""
    for said, code in (("no round 999", ExitCode.REFUSED), ("another fault", ExitCode.STOPPED)):
        server = ServerSide()
        agent = onboarder(server, at="round", at_round=999)
        agent.tell(server.say(m.Error(code="internal", message=said)))
        (end,) = of(agent.tell(server.say(m.Shutdown(outcome="failed", reason="no round 999"))), e.Exit)
        assert end.code is code and "no round 999" in end.why
        assert ("the server ended" in end.why) is (code is ExitCode.STOPPED)


def test_a_refused_request_is_said_once() -> None:
    """ERROR waits a moment for the SHUTDOWN of the same reason; without it, it has a line of its own."""
    error, line = m.Error(code="internal", message="no round 999"), "could not accept a message: no round 999"
    for reason, times in (("no round 999", 0), ("another", 1)):
        server = ServerSide()
        agent = onboarder(server, at="round", at_round=999)
        commands = agent.tell(server.say(error))
        commands += agent.tell(server.say(m.Shutdown(outcome="failed", reason=reason)))
        assert texts(commands).count(line) == times
        assert [c.why for c in of(commands, e.Exit) if "no round 999" in c.why] == [
            "refused by the server: no round 999"
        ] * (1 - times)
    server = ServerSide()
    agent = onboarder(server, at="round", at_round=999)
    assert line not in texts(agent.tell(server.say(error)))
    assert texts(agent.run_until(3.0)).count(line) == 1


def test_an_error_that_ends_nothing_is_said_at_once() -> None:
    """A message that the server could not read: no SHUTDOWN follows."""
    agent, server = Agent(), ServerSide()
    agent.join(server)
    assert "could not accept" in texts(agent.tell(server.say(m.Error(code="malformed", message="x"))))


def test_a_wish_of_onboarders_has_no_effect_on_training_and_says_so() -> None:
    """--at now on a goal that trains: one warning with the flag that was meant."""
    for role, warned in (("train", True), ("onboard", False)):
        server, agent = ServerSide(), Agent(at="now")
        server.hear(agent.tell(e.Tick()))
        commands = agent.tell(server.welcome(role))  # type: ignore[arg-type]
        assert ("--at is for onboarders" in texts(commands)) is warned


def test_a_repeated_init_is_adapted_once() -> None:
    """INIT sent twice neither restarts the work nor measures again."""
    server = ServerSide()
    agent = onboarder(server)
    (work,) = of(agent.tell(init(server)), e.Onboard)
    assert not of(agent.tell(init(server)), e.Work)
    server.hear(agent.tell(e.Measured(work.number, ROWS, 512)))
    commands = agent.tell(init(server))
    assert sent(commands, m.Report) and not of(commands, e.Work)


def test_an_onboarder_asks_a_restarted_server_again_and_keeps_its_rows() -> None:
    """New session: READY, ONBOARD, and after INIT the rows that were measured before."""
    server = ServerSide()
    agent = onboarder(server)
    (work,) = of(agent.tell(init(server)), e.Onboard)
    agent.tell(e.Measured(work.number, ROWS, 512))
    restarted = ServerSide(b"t" * 16)
    restarted.hear(agent.tell(server.say(m.Error(code="unknown_session"))))
    ready, request = restarted.hear(agent.tell(restarted.welcome("onboard")))
    assert isinstance(ready, m.Ready) and isinstance(request, m.Onboard)
    commands = agent.tell(init(restarted))
    assert isinstance(restarted.hear(commands)[0], m.Report) and not of(commands, e.Work)


def test_a_lost_request_is_repeated() -> None:
    """Without INIT the request goes out again with the server's signs of life."""
    server = ServerSide()
    agent = onboarder(server)
    server.hear(agent.run_until(1.0))
    heard = server.session.received
    assert sent(agent.tell(server.say(m.Heartbeat(phase="running", heard=heard))), m.Onboard)


def test_shutdown_before_the_rows_is_no_success() -> None:
    """A server that ends before an onboarder has measured leaves it with the code for being stopped."""
    server = ServerSide()
    agent = onboarder(server)
    (end,) = of(agent.tell(server.say(m.Shutdown(outcome="finished", reason="deadline"))), e.Exit)
    assert end.code is ExitCode.STOPPED and "had not measured" in end.why


def test_shutdown_after_the_rows_is_success() -> None:
    """The server may end as soon as it has the rows."""
    server = ServerSide()
    agent = onboarder(server)
    (work,) = of(agent.tell(init(server)), e.Onboard)
    server.hear(agent.tell(e.Measured(work.number, ROWS, 512)))
    (end,) = of(agent.tell(server.say(m.Shutdown(outcome="finished", reason="all reported"))), e.Exit)
    assert end.code is ExitCode.OK


def test_garbage_is_named_and_changes_nothing() -> None:
    """What is no message is logged; it neither ends the agent nor counts as a sign of life."""
    agent, server = Agent(), ServerSide()
    agent.join(server)
    assert "no magic" in texts(agent.tell(e.Malformed("malformed", "no magic"), after=4.9))
    assert sent(agent.run_until(0.2), m.Register)

"""The director as lists of happenings and orders: no processes, no loop, no clock."""

from edge_fed.profiles import PRESETS
from scenarios.actions import Disturb, Kill, Mend, Pause, Resume, Start, Tell, Terminate
from scenarios.director import Director
from scenarios.orders import Ended, Finish, Happening, Note, Order, Spoke, StartServer, Tick
from scenarios.proxy.rules import Rule
from scenarios.timeline import Scenario
from tests.scenarios.test_script import action, scenario_of

AGENTS = [Start(f"agent-{goal}", goal) for goal in range(4)]


class Stage:
    """A director, with the orders of each happening collected."""

    def __init__(self, scenario: Scenario) -> None:
        self.director = Director(scenario)
        self.now = 0.0
        self.first = self.director.begin()

    def tell(self, *happenings: Happening) -> list[Order]:
        """Feeds happenings and returns all orders in order."""
        return [order for happening in happenings for order in self.director.handle(happening, self.now)]

    def server(self, event: str, **fields: object) -> list[Order]:
        """One event of the server."""
        return self.tell(Spoke("server", event, fields))

    def ready(self, *agents: int) -> list[Order]:
        """The server counts these agents as ready."""
        return [order for agent in agents for order in self.server("ready", agent=agent, role="train")]

    def running(self) -> "Stage":
        """All four agents are ready and round 1 is open."""
        self.ready(0, 1, 2, 3)
        self.server("opened", round=1, cohort=[0, 1, 2, 3])
        return self


def proceed(round_: int) -> Tell:
    """The order that lets the server through a boundary."""
    return Tell("server", {"command": "proceed", "round": round_})


def lost(agent: int) -> Tell:
    """The word that an agent's process is dead."""
    return Tell("server", {"command": "lost", "agent": agent})


def test_a_run_begins_with_the_server_and_who_is_there() -> None:
    """The server learns where to hold; late joiners are not started."""
    assert Stage(scenario_of()).first == [StartServer(()), *AGENTS]
    late = Stage(scenario_of(action("join", "2", "at_round = 4") + action("join", "3")))
    assert late.first == [StartServer((4, 5)), *AGENTS[:2]]


def test_a_joiner_is_started_at_its_boundary_and_waited_for() -> None:
    """The server goes on only when the joiner is ready."""
    stage = Stage(scenario_of(action("join")))
    stage.ready(0, 1, 2)
    assert stage.server("held", round=5) == [AGENTS[3]]
    assert stage.director.waiting == "held before round 5, waiting for agent-3"
    assert stage.tell(Tick()) == []
    assert stage.ready(3) == [proceed(5)]


def test_a_killed_agent_is_reaped_and_declared_lost_before_the_round_opens() -> None:
    """Kill, its end, the word to the server, the server's word, then on."""
    stage = Stage(scenario_of(action("kill"))).running()
    assert stage.server("held", round=5) == [Kill("agent-3")]
    assert stage.tell(Ended("agent-3", -9)) == [lost(3)]
    assert stage.server("lost", agent=3, why="declared") == [proceed(5)]


def test_a_leaver_says_goodbye_and_is_waited_for() -> None:
    """The round opens when the server has seen it go and the program has ended."""
    stage = Stage(scenario_of(action("leave"))).running()
    assert stage.server("held", round=5) == [Tell("agent-3", {"command": "leave"})]
    assert stage.server("lost", agent=3, why="bye") == []
    assert stage.tell(Ended("agent-3", 0)) == [proceed(5)]


def test_an_agent_that_is_terminated_says_goodbye_itself() -> None:
    """SIGTERM instead of SIGKILL: nobody needs to be told that it is gone; a restart brings it back."""
    stage = Stage(scenario_of(action("restart", args='signal = "TERM"'))).running()
    assert stage.server("held", round=5) == [Terminate("agent-3")]
    assert stage.server("lost", agent=3, why="bye") == []
    assert stage.tell(Ended("agent-3", 143)) == [AGENTS[3]]
    assert stage.ready(3) == [proceed(5)]


def test_a_restarted_agent_is_back_before_the_round_opens() -> None:
    """The new program starts only when the old one is gone for the server too."""
    stage = Stage(scenario_of(action("restart"))).running()
    assert stage.server("held", round=5) == [Kill("agent-3")]
    assert stage.tell(Ended("agent-3", -9)) == [lost(3)]
    assert stage.server("lost", agent=3) == [AGENTS[3]]
    assert stage.ready(3) == [proceed(5)]


def test_down_rounds_bring_an_agent_back_later() -> None:
    """down_rounds = 2 holds before round 5 and before round 7."""
    stage = Stage(scenario_of(action("restart", args="down_rounds = 2"))).running()
    assert stage.first[0] == StartServer((5, 7))
    stage.server("held", round=5)
    stage.tell(Ended("agent-3", -9))
    assert stage.server("lost", agent=3) == [proceed(5)]
    assert stage.server("held", round=7) == [AGENTS[3]]
    assert stage.ready(3) == [proceed(7)]


def test_a_point_kills_inside_the_round_and_is_settled_at_the_next_boundary() -> None:
    """The agent is armed, counts as eligible, and must be gone before the next round opens."""
    stage = Stage(scenario_of(action("kill", args='point = "trained"'))).running()
    assert stage.first[0] == StartServer((5, 6))
    die = Tell("agent-3", {"command": "die", "point": "trained", "round": 5})
    assert stage.server("held", round=5) == [die], "the round does not open before it knows"
    assert stage.tell(Spoke("agent-3", "armed", {})) == [proceed(5)]
    assert stage.server("held", round=6) == []
    assert stage.tell(Ended("agent-3", -9)) == [lost(3)]
    assert stage.server("lost", agent=3) == [proceed(6)]


def test_an_agent_that_cannot_come_to_its_point_is_killed_at_the_next_boundary() -> None:
    """Another action kept it from the round; the run does not wait for a death that never comes."""
    stage = Stage(scenario_of(action("kill", args='point = "trained"'))).running()
    stage.server("held", round=5)
    assert stage.tell(Spoke("agent-3", "armed", {})) == [proceed(5)]
    assert stage.server("held", round=6) == []
    stage.now = 4.9
    assert stage.tell(Tick()) == []
    stage.now = 5.0
    note, kill = stage.tell(Tick())
    assert isinstance(note, Note)
    assert note.text == "agent-3 did not come to the point where it was to die"
    assert kill == Kill("agent-3")
    assert stage.tell(Ended("agent-3", -9), Spoke("server", "lost", {"agent": 3}))[-1] == proceed(6)


def test_an_agent_that_died_and_came_back_before_its_point_is_killed_at_the_next_boundary() -> None:
    """A restart in seconds took the process that was armed; the new one knows of no point."""
    both = action("kill", args='point = "trained"') + action("restart", when="at_s = 1")
    stage = Stage(scenario_of(both)).running()
    stage.server("held", round=5)
    stage.tell(Spoke("agent-3", "armed", {}))
    stage.now = 1.0
    assert Kill("agent-3") in stage.tell(Tick())
    stage.tell(Ended("agent-3", -9), Spoke("server", "lost", {"agent": 3}))
    stage.ready(3)
    assert stage.server("held", round=6) == []
    stage.now = 6.0
    assert stage.tell(Tick())[-1] == Kill("agent-3")
    assert stage.tell(Ended("agent-3", -9), Spoke("server", "lost", {"agent": 3}))[-1] == proceed(6)


def test_a_server_that_ends_before_it_comes_to_its_point_is_not_started_again() -> None:
    """A cohort of one has no point between two updates: the run is over when the server says so."""
    stage = Stage(scenario_of(action("kill", "server", args='point = "update"'))).running()
    stage.server("held", round=5)
    assert stage.tell(Ended("server", 0)) == [Finish(0)]


def test_an_agent_that_runs_already_is_not_started_twice() -> None:
    """A restart in seconds came before the join in rounds; two processes of one goal would end the run."""
    stage = Stage(scenario_of(action("join") + action("restart", when="at_s = 1")))
    stage.ready(0, 1, 2)
    stage.server("opened", round=1, cohort=[0, 1, 2])
    stage.now = 1.0
    assert stage.tell(Tick())[-1] == AGENTS[3]
    stage.ready(3)
    assert stage.server("held", round=5) == [
        Note("warning", "agent-3 is running already: no start"),
        proceed(5),
    ]


def test_a_failure_of_an_agent_that_was_to_die_is_a_failure() -> None:
    """Only a signal is the scripted death."""
    stage = Stage(scenario_of(action("kill", args='point = "trained"'))).running()
    stage.server("held", round=5)
    assert stage.tell(Ended("agent-3", 1, "bug")) == [Finish(1, "agent-3 ended with exit code 1: bug")]


def test_a_killed_server_is_resumed_and_everybody_is_waited_for() -> None:
    """It holds at the same boundary again; agents that are not back yet are waited for."""
    stage = Stage(scenario_of(action("kill", "server", args="down_s = 2"))).running()
    assert stage.server("held", round=5) == [Kill("server")]
    stage.now = 10.0
    assert [type(order) for order in stage.tell(Ended("server", -9))] == [Note]
    assert stage.director.next_due() == 12.0
    assert stage.tell(Tick()) == []
    stage.now = 12.0
    assert stage.tell(Tick()) == [StartServer((5,), resume=True)]
    assert stage.ready(0, 1, 2) == []
    assert stage.server("held", round=5) == []
    assert stage.ready(3) == [proceed(5)]


def test_a_resumed_server_is_told_which_agents_died_while_it_was_down() -> None:
    """It would wait for them otherwise, until its deadline; whoever was started again is not among them."""
    both = action("kill", "server", args="down_s = 2") + action("kill", "0-1")
    stage = Stage(scenario_of(both)).running()
    stage.server("held", round=5)
    stage.tell(Ended("server", -9), Ended("agent-0", -9), Ended("agent-1", -9))
    stage.now = 2.0
    stage.tell(Tick())
    assert stage.server("listening", address="ipc://x") == [lost(0), lost(1)]
    back = Stage(scenario_of(action("restart", "0"))).running()
    back.server("held", round=5)
    back.tell(Ended("agent-0", -9))
    back.server("lost", agent=0, role="train")
    assert back.server("listening", address="ipc://x") == []


def test_a_server_that_dies_at_a_point_is_resumed_without_the_boundary_it_passed() -> None:
    """Armed before round 5; after the resume it holds only before round 6."""
    stage = Stage(scenario_of(action("kill", "server", args='point = "theta"'))).running()
    die = Tell("server", {"command": "die", "point": "theta", "round": 5})
    assert stage.server("held", round=5) == [die, proceed(5)]
    orders = stage.tell(Ended("server", -9))
    assert [order for order in orders if isinstance(order, StartServer)] == [StartServer((6,), resume=True)]
    stage.ready(0, 1, 3)
    assert stage.server("held", round=6) == []
    assert stage.ready(2) == [proceed(6)]


def test_slow_and_link_are_told_without_waiting() -> None:
    """They change no membership."""
    stage = Stage(
        scenario_of(action("slow", "1", args="compute_delay_s = 1") + action("link", "2", args="loss = 0.5"))
    ).running()
    assert stage.server("held", round=5) == [
        Tell("agent-1", {"command": "slow", "compute_delay_s": 1.0}),
        Tell("agent-2", {"command": "link", "loss": 0.5}),
        proceed(5),
    ]


def test_a_link_is_told_by_profile_with_single_keys_over_it() -> None:
    """The agent hears numbers: those of the profile, and what the action changes."""
    stage = Stage(scenario_of(action("link", "2", args='profile = "lte", loss = 0.5'))).running()
    link = {"command": "link", **PRESETS["lte"], "loss": 0.5}
    assert stage.server("held", round=5) == [Tell("agent-2", link), proceed(5)]


def test_a_paused_agent_is_not_waited_for_and_goes_on_later() -> None:
    """A pause for a time ends by the clock; meanwhile no boundary waits for the agent."""
    stage = Stage(
        scenario_of(action("pause", args="for_s = 3") + action("leave", "0", "at_round = 6"))
    ).running()
    assert stage.server("held", round=5) == [Pause("agent-3"), proceed(5)]
    stage.server("lost", agent=3, why="lease")
    stage.server("held", round=6)
    stage.server("lost", agent=0, why="bye")
    assert stage.tell(Ended("agent-0", 0)) == [proceed(6)]
    stage.now = 3.0
    assert stage.tell(Tick()) == [Resume("agent-3")]


def test_a_paused_agent_goes_on_at_its_time_although_its_end_is_waited_for() -> None:
    """It is told to leave while it is stopped; the word to go on is not kept back until it has left."""
    pause = action("pause", when="at_s = 1") + action("resume", when="at_s = 2")
    stage = Stage(scenario_of(pause + action("leave"))).running()
    stage.now = 1.0
    assert stage.tell(Tick()) == [Pause("agent-3")]
    assert stage.server("held", round=5) == [Tell("agent-3", {"command": "leave"})]
    stage.now = 2.0
    assert stage.tell(Tick()) == [Resume("agent-3")]
    stage.server("lost", agent=3, why="bye")
    assert stage.tell(Ended("agent-3", 0)) == [proceed(5)]


def test_actions_in_seconds_count_from_the_opening_of_round_1() -> None:
    """Before that the clock stands still; there is no boundary to hold at."""
    stage = Stage(scenario_of(action("kill", when="at_s = 4")))
    assert stage.first[0] == StartServer(())
    stage.ready(0, 1, 2, 3)
    stage.now = 100.0
    assert stage.tell(Tick()) == []
    assert stage.server("opened", round=1) == []
    assert stage.director.next_due() == 104.0
    assert stage.director.unreached()
    stage.now = 104.0
    assert stage.tell(Tick()) == [Kill("agent-3")]
    assert stage.tell(Ended("agent-3", -9)) == [lost(3)]


def test_announced_onboarders_start_with_the_last_round_a_few_at_a_time() -> None:
    """More than eight wait for a place; each starts once."""
    scenario = scenario_of("\n[onboarding]\ngoals = '0-9'\n")
    stage = Stage(scenario).running()
    assert stage.server("round", round=9) == []
    started = stage.server("round", round=10)
    assert [order.child for order in started if isinstance(order, Start)] == [
        f"onboard-{k}" for k in range(8)
    ]
    assert stage.server("evaluation", round=10) == []
    assert stage.tell(Ended("onboard-3", 0)) == [Start("onboard-8", 8, onboard=True)]


def test_an_onboarder_in_the_middle_of_the_run_is_no_agent_that_trains() -> None:
    """It measures the parameters before the boundary; its end changes nobody's membership."""
    stage = Stage(scenario_of(action("onboard", "3"))).running()
    start = Start("onboard-3-0", 3, onboard=True, at=4)
    assert stage.server("held", round=5) == [start]
    assert stage.server("ready", agent=3, role="onboard") == [proceed(5)]
    assert stage.server("lost", agent=3, role="onboard") == []
    assert stage.tell(Ended("onboard-3-0", 0)) == []
    assert stage.director.children.expected == {f"agent-{goal}" for goal in range(4)}


def test_a_server_that_is_killed_after_the_run_is_complete_is_not_gone_on_with() -> None:
    """Its last word may have come, or not: then the resumed one would serve for ever, and is stopped."""
    stage = Stage(scenario_of(action("kill", "server", when="at_s = 1"))).running()
    stage.server("finished", exit_code=0)
    stage.now = 1.0
    assert stage.tell(Tick()) == [Kill("server")]
    assert stage.tell(Ended("server", -9)) == [Finish(0)]
    stage = Stage(scenario_of(action("kill", "server", when="at_s = 1"))).running()
    stage.now = 1.0
    stage.tell(Tick(), Ended("server", -9), Tick())
    assert stage.server("serving") == [Tell("server", {"command": "stop"}), Finish(0)]


def test_the_end_of_the_server_is_the_end_of_the_run() -> None:
    """Its exit code is the run's; afterwards nothing is ordered."""
    stage = Stage(scenario_of()).running()
    assert stage.tell(Ended("server", 0)) == [Finish(0)]
    assert stage.tell(Ended("agent-1", 0)) == []
    failed = Stage(scenario_of()).running().tell(Ended("server", 3, "quorum"))
    assert failed == [Finish(3, "the server ended with exit code 3: quorum")]


def test_a_child_that_fails_ends_the_run_by_name() -> None:
    """An agent that was refused, or an onboarder that crashed, is named with its cause."""
    refused = Stage(scenario_of()).tell(Ended("agent-2", 4, "dimension"))
    assert refused == [Finish(1, "agent-2 ended with exit code 4: dimension")]
    stage = Stage(scenario_of("\n[onboarding]\ngoals = '8'\n")).running()
    stage.server("round", round=10)
    assert stage.tell(Ended("onboard-8", 1)) == [Finish(1, "onboard-8 ended with exit code 1")]


def test_an_agent_that_somebody_else_killed_is_lost_and_the_run_goes_on() -> None:
    """Kill -9 from outside is an accident of the fleet, not of the runner."""
    orders = Stage(scenario_of()).running().tell(Ended("agent-2", -9))
    assert orders[0] == lost(2)
    assert isinstance(orders[1], Note)
    assert len(orders) == 2


def test_an_agent_in_quarantine_is_no_failure_and_nobody_waits_for_it() -> None:
    """It ends with the code of a refusal; a later restart of it is not waited for either."""
    why = "refused by the server (quarantined): too many updates of agent 1 in a row were refused"
    stage = Stage(scenario_of(action("restart", "1"))).running()
    stage.server("lost", agent=1, role="train", why="quarantined")
    (note,) = stage.tell(Ended("agent-1", 4, why))
    assert isinstance(note, Note)
    assert "the run goes on" in note.text
    held = stage.server("held", round=5)
    assert Start("agent-1", 1) in held
    assert proceed(5) in stage.tell(Ended("agent-1", 4, why))


def test_an_agent_that_was_stopped_in_order_is_no_failure() -> None:
    """SIGTERM to an agent makes it say goodbye; the boundary does not wait for it."""
    stage = Stage(scenario_of(action("leave", "0"))).running()
    assert stage.tell(Ended("agent-2", 143)) == []
    stage.server("lost", agent=2, why="bye")
    stage.server("held", round=5)
    stage.server("lost", agent=0, why="bye")
    assert stage.tell(Ended("agent-0", 0)) == [proceed(5)]


def test_whatever_is_waited_for_has_a_name() -> None:
    """From the first start to the last report, a silent run can say what it waits for."""
    stage = Stage(scenario_of(action("kill", "server", args="down_s = 2") + "\n[onboarding]\ngoals = '8'\n"))
    stage.ready(0, 1, 2)
    said = [stage.director.waiting]
    stage.ready(3)
    said.append(stage.director.waiting)
    stage.server("opened", round=4)
    said.append(stage.director.waiting)
    stage.server("held", round=5)
    stage.tell(Ended("server", -9))
    said.append(stage.director.waiting)
    stage.now = 2.0
    stage.tell(Tick())
    stage.server("round", round=10)
    said.append(stage.director.waiting)
    assert said == [
        "waiting for agent-3 to be ready",
        "round 1 is about to open",
        "waiting for round 4",
        "the server is down, as scripted",
        "waiting for the reports of onboard-8",
    ]


def test_whom_the_server_waits_for_is_named_until_the_wait_ends() -> None:
    """In a round, in the evaluation after the last one, and not any more in the next round."""
    stage = Stage(scenario_of("")).running()
    stage.server("opened", round=4)
    stage.server("wait", what="updates of round 4", missing=[1, 3])
    said = [stage.director.waiting]
    stage.server("opened", round=5)
    said.append(stage.director.waiting)
    stage.server("round", round=10)
    stage.server("wait", what="evaluations of round 10", missing=list(range(14)))
    said.append(stage.director.waiting)
    assert said == [
        "waiting for updates of round 4 of agents 1, 3",
        "waiting for round 5",
        "waiting for evaluations of round 10 of agents 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 2 more",
    ]


def test_boundary_with_several_actions_waits_for_all() -> None:
    """A join, a kill and a leave before the same round are done side by side."""
    stage = Stage(scenario_of(action("join") + action("kill", "0") + action("leave", "1")))
    stage.ready(0, 1, 2)
    orders = stage.server("held", round=5)
    assert orders == [AGENTS[3], Kill("agent-0"), Tell("agent-1", {"command": "leave"})]
    assert stage.ready(3) == []
    assert stage.tell(Ended("agent-1", 0)) == []
    assert stage.server("lost", agent=1) == []
    assert stage.tell(Ended("agent-0", -9)) == [lost(0)]
    assert stage.server("lost", agent=0) == [proceed(5)]


def test_a_fault_acts_at_its_boundary_and_ends_after_its_seconds() -> None:
    """Before the round opens; an agent whose way is frozen is waited for at no boundary."""
    freeze = action("fault", args='kind = "freeze", for_s = 2') + action("join", "2", "at_round = 7")
    stage = Stage(scenario_of(freeze))
    stage.ready(0, 1, 3)
    stage.server("opened", round=1, cohort=[0, 1, 3])
    rule = Rule(kind="freeze")
    orders = stage.server("held", round=5)
    assert orders == [Disturb("agent-3", rule), Note("info", "fault for agent-3: freeze both"), proceed(5)]
    stage.server("lost", agent=3, why="lease")
    assert stage.server("held", round=7)[0] == Start("agent-2", 2)
    assert stage.ready(2) == [proceed(7)], "nobody waits for the agent behind the fault"
    assert stage.director.next_due() == 2.0
    stage.now = 2.0
    assert stage.tell(Tick())[0] == Mend("agent-3", rule)


def test_a_healed_agent_is_waited_for() -> None:
    """The boundary of the heal holds until it is back; a second heal of the same fault is nothing."""
    timeline = action("fault", when="at_round = 2", args='kind = "half_open", for_s = 50') + action("heal")
    stage = Stage(scenario_of(timeline)).running()
    stage.server("held", round=2)
    stage.server("lost", agent=3, why="lease")
    assert stage.server("held", round=5)[0] == Mend("agent-3")
    assert stage.director.waiting == "held before round 5, waiting for agent-3"
    assert stage.ready(3) == [proceed(5)]
    stage.now = 60.0
    assert stage.tell(Tick()) == []


def test_faults_of_messages_leave_nobody_out() -> None:
    """An agent that loses an update now and then is expected at boundaries as any other."""
    timeline = action("fault", args='kind = "drop", chance = 0.1') + action("join", "2", "at_round = 7")
    stage = Stage(scenario_of(timeline))
    stage.ready(0, 1, 3)
    stage.server("held", round=5)
    stage.server("lost", agent=3, why="lease")
    stage.server("held", round=7)
    assert stage.ready(2) == []
    assert stage.ready(3) == [proceed(7)]


def test_an_agent_behind_a_fault_that_gave_up_is_no_failure() -> None:
    """It never found the server again; the server hears that it is gone. Without a fault it is a failure."""
    stage = Stage(scenario_of(action("fault", args='kind = "half_open"'))).running()
    stage.server("held", round=5)
    orders = stage.tell(Ended("agent-3", 5, "gave up"))
    assert orders[0] == lost(3)
    assert "agent-3 ended with exit code 5: gave up; the run goes on" in str(orders[1])
    assert isinstance(stage.tell(Ended("agent-1", 5, "gave up"))[-1], Finish)


def test_at_the_end_agents_behind_faults_are_told_to_stop() -> None:
    """The server's last word may not reach them."""
    stage = Stage(scenario_of(action("fault", args='kind = "freeze"'))).running()
    stage.server("held", round=5)
    assert stage.tell(Ended("server", 0)) == [Tell("agent-3", {"command": "stop"}), Finish(0)]


def test_an_agent_that_registers_again_is_waited_for_at_a_boundary() -> None:
    """Until its READY the round would open without it."""
    stage = Stage(scenario_of(action("heal"))).running()
    stage.server("registers_again", agent=1, role="train")
    assert proceed(5) not in stage.server("held", round=5)
    assert stage.director.waiting == "held before round 5, waiting for agent-1"
    assert stage.ready(1) == [proceed(5)]


def test_the_first_warning_of_an_agent_is_passed_on() -> None:
    """One line for each of a hundred agents that are set up alike would hide the run."""
    stage = Stage(scenario_of()).running()
    assert stage.tell(Spoke("agent-2", "warning", {"text": "a long step"})) == [
        Note("warning", "agent-2, the first to say so: a long step")
    ]
    assert stage.tell(Spoke("agent-3", "warning", {"text": "a long step"})) == []

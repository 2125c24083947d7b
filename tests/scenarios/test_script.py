"""Scenario files: the library, the complete check, and what each runtime refuses."""

from pathlib import Path

import msgspec
import pytest

from edge_fed.config import RunConfig
from edge_fed.errors import ConfigError
from edge_fed.federated.cohort import cohort
from edge_fed.program.config_file import load
from scenarios.actions import ACTIONS, Runtime
from scenarios.expectations import METRICS
from scenarios.script import (
    check,
    hidden_messages,
    ignored_by_plain,
    library,
    load_scenario,
    resolve,
    runtime_faults,
)
from scenarios.timeline import Scenario

HEAD = """
[environment]
family = "gridworld"
[policy]
name = "softmax"
[algorithm]
rounds = 10
[[agents]]
goals = "0-3"
"""


def scenario_of(timeline: str = "", head: str = HEAD) -> Scenario:
    """A checked scenario of ten rounds with four agents on the grid."""
    return resolve(load(head + timeline, Scenario, check))


def action(do: str, who: str = "3", when: str = "at_round = 5", args: str = "") -> str:
    """One [[timeline]] entry."""
    return f'\n[[timeline]]\ndo = "{do}"\nwho = "{who}"\n{when}\n' + (
        f"args = {{ {args} }}\n" if args else ""
    )


def faults_of(timeline: str, head: str = HEAD) -> list[str]:
    """What check says about a timeline."""
    with pytest.raises(ConfigError) as caught:
        scenario_of(timeline, head)
    return [str(fault) for fault in caught.value.faults]


def test_the_library_is_complete_described_and_right() -> None:
    """Every scenario of the library passes its own check and says what it shows."""
    expected = {
        "gridworld-exact",
        "gridworld-first-order",
        "navigation-first-order",
        "few-shot",
        "late-joiners",
        "churn",
        "slow-links",
    }
    assert expected <= set(library())
    for name in library():
        scenario = load_scenario(name)
        assert scenario.name == name
        assert scenario.description
        assert runtime_faults(scenario, "processes") == []


def test_few_shot_is_what_a_server_serves_without_a_file() -> None:
    """The library's file and the built-in defaults are the same settings."""
    scenario = load(library()["few-shot"].read_text(), Scenario, check)
    for name in RunConfig.__struct_fields__:
        if name != "description":
            assert getattr(scenario, name) == getattr(RunConfig(), name), name


WRONG = [
    (action("jion"), ["timeline.0.do: unknown action 'jion' (did you mean 'join'?)"]),
    (action("kill", when=""), ["timeline.0: kill has neither at_round nor at_s"]),
    (action("kill", when="at_round = 3\nat_s = 1"), ["timeline.0: kill has both at_round and at_s"]),
    (action("kill", when="at_round = 11"), ["at_round: is 11, but the run has 10 rounds"]),
    (
        action("kill", when="at_round = 0"),
        ["timeline.0.at_round: is 0, expected a whole number of at least 1"],
    ),
    (action("kill", when="at_s = -1"), ["timeline.0.at_s: is -1"]),
    (action("kill", "4"), ["timeline.0.who: agent 4 is in no [[agents]] table", "planned: 0, 1, 2, 3"]),
    (action("kill", "srever"), ["timeline.0.who: 'srever' is no goal", 'or "server"']),
    (action("join", "server"), ["timeline.0.who: the server cannot join", "it can: kill, restart, pause"]),
    (action("onboard", "13"), ["timeline.0.who: gridworld has no goal 13", "valid: 0 to 12"]),
    (action("join", args="x = 1"), ["timeline.0.args.x: unknown argument of join", "it takes none"]),
    (action("kill", args='pont = "sent"'), ["timeline.0.args.pont", "did you mean 'point'?"]),
    (action("kill", args='point = "theta"'), ["is 'theta', expected one of assigned, trained, sent"]),
    (
        action("kill", "server", args='point = "sent"'),
        ["is 'sent', expected one of theta, update, before-array"],
    ),
    (action("restart", args="down_rounds = 1.5"), ["is 1.5, expected a whole number from 0"]),
    (action("kill", args='point = "sent", signal = "TERM"'), ["args.signal: does not go with point"]),
    (action("restart", when="at_s = 1", args="down_rounds = 1"), ["args.down_rounds: needs at_round"]),
    (action("kill", when="at_s = 1", args='point = "sent"'), ["args.point: needs at_round"]),
    (action("slow"), ["timeline.0.args.compute_delay_s: is missing", "seconds per local step"]),
    (action("slow", args='compute_delay_s = "x"'), ["is 'x', expected a number from 0 to 10000"]),
    (action("link", args="loss = 2"), ["timeline.0.args.loss: is 2.0, expected a number from 0 to 0.9"]),
    (action("link", args='profile = "lt"'), ["is 'lt', expected one of ethernet, wifi, lte, lora"]),
    (action("link", args="profile = 3"), ["is 3.0, expected one of ethernet, wifi, lte, lora"]),
    (action("fault"), ["timeline.0.args.kind: is missing", "what goes wrong: drop, delay"]),
    (action("fault", args='kind = "drob"'), ["is 'drob', expected one of drop, delay, duplicate"]),
    (action("fault", args='kind = "drop", only = "GIFT"'), ["is 'GIFT', expected one of ACK, BYE"]),
    (action("fault", args='kind = "delay"'), ["timeline.0.args.seconds: is missing: a delay needs it"]),
    (
        action("fault", args='kind = "freeze", count = 1'),
        ["timeline.0.args.count: a freeze has none", "it takes nothing but direction and for_s"],
    ),
    (action("heal", "server"), ["timeline.0.who: the server cannot heal"]),
    (action("heal", args="for_s = 1"), ["timeline.0.args.for_s: unknown argument of heal", "it takes none"]),
    (action("pause", "server"), ["a paused server opens no round", "for_s = 2"]),
    (
        action("kill") + action("kill", when="at_round = 7"),
        ["timeline.1: agent 3 cannot kill: it is not there"],
    ),
    (
        action("join") + action("join", when="at_round = 7"),
        ["timeline.1: agent 3 cannot join: it is already there"],
    ),
    (action("leave") + action("join"), ["timeline.1: agent 3 cannot join: it is busy until round 6"]),
    (
        action("restart", args="down_rounds = 3") + action("kill", when="at_round = 7"),
        ["agent 3 cannot kill: it is busy until round 9"],
    ),
    (action("join", "0-3"), ["every agent joins later"]),
    (action("leave", "0-3"), ["in round 5 no agent is left"]),
    ("\n[[expect]]\nmetric = 'x'\ncomparison = '<'\nvalue = 1", ["expect.0.metric: unknown metric 'x'"]),
    (
        "\n[[expect]]\nmetric = 'rouns'\ncomparison = '=>'\nvalue = 1",
        ["expect.0.comparison: is '=>', expected one of"],
    ),
    ("\n[[expect]]\nmetric = 'rounds'\ncomparison = '<'\nvalue = nan", ["expect.0.value: is nan"]),
    (
        "\n[[expect]]\nmetric = 'onboarding.100.success'\ncomparison = '<'\nvalue = 1",
        ["expect.0.metric: nobody is onboarded in this scenario"],
    ),
    (
        "\n[onboarding]\ngoals = '8'\n[[expect]]\nmetric = 'scratch.30.return'\ncomparison = '<'\nvalue = 1",
        ["expect.0.metric: 30 is not in onboarding.scratch", "measured: 20, 100, 500"],
    ),
]


@pytest.mark.parametrize(("timeline", "parts"), WRONG)
def test_a_wrong_timeline_is_refused_with_place_cause_and_next_step(timeline: str, parts: list[str]) -> None:
    """Exactly one fault, at its path and line, whose text names what was found and what is valid.

    [complaints 56]
    """
    found = faults_of(timeline)
    assert len(found) == 1
    assert found[0].startswith("line ")
    for part in parts:
        assert part in found[0]


def test_rounds_that_could_never_be_valid_are_refused() -> None:
    """A timeline that leaves fewer agents than min_updates is wrong before anything starts."""
    found = faults_of(action("leave", "1-3") + "\n[federation]\nmin_updates = 2\n")
    assert found == ["line 11: timeline.0: in round 5 only 1 agent is asked, fewer than min_updates = 2"]


@pytest.mark.parametrize("do", ["leave", "kill", "restart"])
def test_rounds_with_too_few_agents_for_the_rule_are_refused(do: str) -> None:
    """A timeline that leaves fewer agents than a robust rule needs is wrong before anything starts."""
    rule = HEAD.replace("rounds = 10", 'rounds = 10\nrule = "trimmed_mean"')
    down = "down_rounds = 1" if do == "restart" else ""
    assert faults_of(action(do, "2-3", args=down), rule) == [
        "line 12: timeline.0: in round 5 only 2 agents are asked, fewer than the 3 updates that rule "
        "'trimmed_mean' with byzantine = 1 needs"
    ]
    assert scenario_of(action(do, "3", args=down), rule)


def test_an_agent_dies_at_a_point_only_in_a_round_that_asks_it() -> None:
    """With partial participation the fault names rounds in which the agent is asked."""
    half = HEAD.replace("rounds = 10", "rounds = 10\nparticipation = 0.5")
    settings = load(half, Scenario, check)
    asked = [k for k in range(1, 11) if 3 in cohort(settings.seed, k, (0, 1, 2, 3), 0.5)]
    assert 1 < len(asked) < 10
    spared = min(set(range(1, 11)) - set(asked))
    for k in asked:
        assert scenario_of(action("kill", when=f"at_round = {k}", args='point = "trained"'), half)
    found = faults_of(action("kill", when=f"at_round = {spared}", args='point = "sent"'), half)
    assert f"timeline.0.at_round: agent 3 is not in the cohort of round {spared}" in found[0]
    assert f"it is in those of {asked[0]}" in found[0]


def test_the_default_quorum_is_who_is_there_at_the_start() -> None:
    """Late joiners are not waited for before round 1."""
    assert scenario_of(action("join", "2-3")).federation.quorum == 2
    assert scenario_of().federation.quorum == 4


def test_an_agent_that_leaves_and_comes_back_is_there_at_the_start() -> None:
    """Only an agent whose first action is a join is absent in the beginning."""
    scenario = scenario_of(action("leave", when="at_round = 3") + action("join", when="at_round = 6"))
    assert scenario.federation.quorum == 4


RUNTIMES: list[tuple[str, Runtime, str]] = [
    (action("kill", "server"), "inproc", "inproc cannot kill server (needs --runtime processes)"),
    (action("pause", args="for_s = 1"), "inproc", "inproc cannot pause 3 (needs --runtime processes)"),
    (action("fault", args='kind = "drop"'), "plain", "plain cannot fault 3 (needs --runtime processes)"),
    (action("fault", args='kind = "drop"'), "inproc", "inproc cannot fault 3 (needs --runtime processes)"),
    (action("heal", when="at_s = 1"), "plain", "plain cannot heal 3 (needs --runtime processes)"),
    (action("kill", when="at_s = 1"), "plain", "at_s: the plain loop has no clock"),
    (action("onboard", "8", when="at_s = 1"), "plain", "at_s: the plain loop has no clock"),
]


@pytest.mark.parametrize(("timeline", "runtime", "message"), RUNTIMES)
def test_a_runtime_refuses_what_it_cannot_do(timeline: str, runtime: Runtime, message: str) -> None:
    """The refusal names the runtime that can."""
    found = runtime_faults(scenario_of(timeline), runtime)
    assert len(found) == 1
    assert message in str(found[0])
    assert runtime_faults(scenario_of(timeline), "processes") == []


def test_plain_leaves_out_what_changes_no_bits_and_says_so() -> None:
    """Slow devices, links, pauses and a killed server are named, membership is not."""
    scenario = scenario_of(
        action("slow", args="compute_delay_s = 1")
        + action("link", "1")
        + action("pause", "2")
        + action("kill", "server")
        + action("kill", "0")
    )
    assert runtime_faults(scenario, "plain") == []
    assert ignored_by_plain(scenario) == ["slow 3", "link 1", "pause 2", "kill server"]


def test_whole_messages_cannot_be_told_apart_when_they_are_encrypted() -> None:
    """With --curve a drop, and a cut of a type, are refused by name; what acts on bytes is not."""
    drop, cut = action("fault", args='kind = "drop"'), action("fault", args='kind = "cut"')
    typed = action("fault", args='kind = "cut", only = "UPDATE"')
    found = [str(fault) for fault in hidden_messages(scenario_of(drop + cut + typed))]
    assert [text.split(":")[0] for text in found] == ["timeline.0.args.kind", "timeline.2.args.kind"]
    assert "CURVE hides them; choose one of cut, throttle, freeze, half_open" in found[0]


def test_a_scenario_is_found_by_file_before_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of one's own wins; an unknown name is answered with the nearest of the library."""
    (tmp_path / "churn").write_text(HEAD)
    monkeypatch.chdir(tmp_path)
    assert load_scenario("churn").algorithm.rounds == 10
    assert load_scenario("churn").name == "churn"  # a file without a name has that of the file
    with pytest.raises(ConfigError, match="did you mean 'few-shot'"):
        load_scenario("few-shto")


def test_set_reaches_the_timeline() -> None:
    """Overrides index lists of the scenario as those of the run."""
    scenario = load_scenario("late-joiners", ["timeline.0.at_round=3", "expect.0.value=1"])
    assert scenario.timeline[0].at_round == 3
    assert scenario.expect[0].value == 1.0


def test_every_action_and_metric_is_described() -> None:
    """What --help and the README list has a sentence each."""
    assert all(kind.meaning for kind in ACTIONS.values())
    assert all(METRICS.values())
    assert set(ACTIONS) == {
        "join",
        "leave",
        "kill",
        "restart",
        "pause",
        "resume",
        "slow",
        "link",
        "onboard",
        "fault",
        "heal",
    }


def test_a_scenario_survives_its_way_through_json() -> None:
    """The resolved scenario in the run folder is the scenario."""
    scenario = load_scenario("churn")
    assert msgspec.json.decode(msgspec.json.encode(scenario), type=Scenario) == scenario

"""Settings: goals, overrides, and their way from TOML and --set into records."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from edge_fed.config import (
    Agents,
    Algorithm,
    Overrides,
    RunConfig,
    effective_algorithm,
    merge,
    overrides_by_goal,
    parse_goals,
)
from edge_fed.errors import ConfigError, Fault
from edge_fed.program.config_file import assign, load, load_config, read
from edge_fed.program.conversion import convert, describe
from edge_fed.program.toml_lines import key_lines, line_of
from edge_fed.validation import check_run


def nothing_wrong(_config: RunConfig) -> list[Fault]:
    """A check that finds no fault."""
    return []


def faults_of(text: str, *sets: str) -> list[str]:
    """What a server would say about a file, one line per fault."""
    with pytest.raises(ConfigError) as caught:
        load(text, RunConfig, nothing_wrong, sets)
    return [str(fault) for fault in caught.value.faults]


@pytest.mark.parametrize(
    ("goals", "expected"),
    [("0-2,4", (0, 1, 2, 4)), ((4, 0, 1), (0, 1, 4)), ("7", (7,)), (" 1 - 3 ", (1, 2, 3)), ((), ())],
)
def test_goals_are_read_from_ranges_and_lists(
    goals: str | tuple[int, ...], expected: tuple[int, ...]
) -> None:
    """Ranges and lists give ascending goals."""
    assert parse_goals(goals) == expected


@pytest.mark.parametrize("goals", ["3-1", "a", "0-2,1", "-1", (0, 0), "", "1-", "0-99999999"])
def test_goals_that_mean_nothing_are_refused(goals: str | tuple[int, ...]) -> None:
    """Empty ranges, words, doubles and absurd sizes are errors, not empty lists."""
    with pytest.raises(ValueError, match=r"goal|range"):
        parse_goals(goals)


def test_overrides_belong_to_each_goal_of_their_table() -> None:
    """Every goal of an [[agents]] table gets the table's overrides, in ascending goal."""
    config = RunConfig(agents=(Agents(goals="3-4", inner_batch=7), Agents(goals=[0])))  # type: ignore[arg-type]
    planned = overrides_by_goal(config)
    assert list(planned) == [0, 3, 4]
    assert [planned[goal].inner_batch for goal in planned] == [None, 7, 7]


def test_merging_keeps_what_the_second_leaves_unset() -> None:
    """The second set of overrides wins where it says something; args are merged key by key."""
    first = Overrides(args={"size": 5, "x": 1}, inner_batch=3, compute_delay_s=0.5)
    merged = merge(first, Overrides(args={"x": 2}, inner_batch=4))
    assert merged == Overrides(args={"size": 5, "x": 2}, inner_batch=4, compute_delay_s=0.5)


def test_an_agent_changes_only_its_batches_and_curvature() -> None:
    """Of the algorithm an agent overrides batch sizes and curvature, nothing else."""
    changed = effective_algorithm(
        Algorithm(), Overrides(outer_batch=3, curvature="causal", compute_delay_s=1.0)
    )
    assert changed == msgspec.structs.replace(Algorithm(), outer_batch=3, curvature="causal")


def test_without_a_file_the_configuration_is_few_shot() -> None:
    """A server without arguments serves the defaults."""
    assert load_config(None) == RunConfig()


def test_a_file_with_agents_and_no_onboarding_announces_nobody() -> None:
    """Whoever names the agents names the onboarders too."""
    assert load('agents = [{ goals = "0-1" }]', RunConfig, nothing_wrong).onboarding.goals == ()
    assert load("seed = 1", RunConfig, nothing_wrong).onboarding.goals == "6-8"


WRONG = [
    ("sede = 3", ["line 1: sede: unknown key (did you mean 'seed'?)"]),
    ("[federation]\ndurability = 'proces'", ["line 2: federation.durability", "did you mean 'process'?"]),
    ("\n\n[algorithm]\nrounds = -1", ["line 4: algorithm.rounds: is -1", "whole number of at least 0"]),
    ("[algorithm]\nlocal_steps = 2.5", ["algorithm.local_steps: is 2.5, expected a whole number"]),
    ("[algorithm]\nouter_step_size = 'x'", ["is 'x', expected a number of at least 0"]),
    ("[algorithm]\ninner_step_size = nan", ["inner_step_size: is nan, expected a number"]),
    ("[algorithm]\ninner_step_size = inf", ["inner_step_size: is inf, expected a number"]),
    ("[algorithm]\nparticipation = true", ["participation: is true, expected a number"]),
    ("[algorithm]\nguard = 'of'", ['a number above 0 and at most 1000000 or "off"', "did you mean 'off'?"]),
    ("[environment]\nhorizon = 0", ["environment.horizon: is 0"]),
    ("algorithm = 3", ["line 1: algorithm: is 3, expected a table"]),
    ("[[agents]]\ninner_batch = 3", ["line 1: agents.0.goals: is missing"]),
    ("[[agents]]\ngoals='0'\n[[agents]]\ngoals='1'\nlink = {a = 'b'}", ["line 5: agents.1.link.a: is 'b'"]),
    ("[onboarding]\nm_adapt = [0, 'x']", ["line 2: onboarding.m_adapt.1: is 'x'"]),
    ("[[timeline]]\ndo = 'join'", ["timeline: belongs to scenarios", "python -m scenarios run"]),
    ("[algorithm]\nrounds = 3\n[algorithm", ["line 3: TOML: ", "correct that line"]),
    ("x = ", ["line 1: TOML: invalid value"]),
]


@pytest.mark.parametrize(("text", "parts"), WRONG)
def test_a_wrong_file_is_told_cause_place_and_next_step(text: str, parts: list[str]) -> None:
    """One message with the dotted path, the line, the value found and what was expected."""
    found = faults_of(text)
    assert len(found) == 1
    for part in parts:
        assert part in found[0]


def test_all_faults_are_found_not_only_the_first() -> None:
    """Three mistakes in three tables and one in --set give four messages."""
    text = "sede = 1\n[algorithm]\nrounds = 'x'\n[federation]\nlease_s = 0"
    found = faults_of(text, "algorithm.foo=1")
    assert len(found) == 4
    for path in ("sede:", "algorithm.rounds:", "federation.lease_s:", "algorithm.foo:"):
        assert sum(path in line for line in found) == 1


def test_an_unknown_key_does_not_hide_what_needs_two_fields() -> None:
    """Faults of the cross-check are listed beside unknown keys."""
    with pytest.raises(ConfigError) as caught:
        load("sede = 1", RunConfig, lambda _config: [Fault("federation.lease_s", "is short")])
    assert [fault.path for fault in caught.value.faults] == ["sede", "federation.lease_s"]


def test_a_wrong_type_hides_no_unknown_name() -> None:
    """All that is unknown is found beside it, but not what would follow from its default."""
    text = 'seed = "x"\n[algorithm]\nrounds = "9"\n[[agents]]\ngoals = "0-5"\nprofile = "lor"\n'
    with pytest.raises(ConfigError) as caught:
        load(text + "[federation]\nquorum = 7\n", RunConfig, check_run)
    assert [fault.path for fault in caught.value.faults] == ["seed", "algorithm.rounds", "agents.0.profile"]


def test_a_key_of_agents_inside_their_link_is_named_as_that() -> None:
    """Whatever its value is; the key beside it that no link has is named as well."""
    text = '[[agents]]\ngoals = "0-5"\nlink = { profile = "lora", latency = 0.1 }\n'
    with pytest.raises(ConfigError) as caught:
        load(text, RunConfig, check_run)
    assert [(fault.path, fault.message, fault.hint) for fault in caught.value.faults] == [
        (
            "agents.0.link.profile",
            "unknown key of a link",
            "profile is a key of [[agents]]; write it beside link",
        ),
        ("agents.0.link.latency", "unknown key of a link", "did you mean 'latency_s'?"),
    ]


SET = [
    ("algorithm.rounds=7", lambda config: config.algorithm.rounds == 7),
    ("algorithm.outer_step_size=1", lambda config: config.algorithm.outer_step_size == 1.0),
    ("algorithm.variant=exact", lambda config: config.algorithm.variant == "exact"),
    ('algorithm.variant="exact"', lambda config: config.algorithm.variant == "exact"),
    ("agents.0.goals=0-3", lambda config: config.agents[0].goals == "0-3"),
    ("agents.0.goals=[0, 3]", lambda config: config.agents[0].goals == (0, 3)),
    ("onboarding.m_adapt.1=30", lambda config: config.onboarding.m_adapt[1] == 30),
    ("policy.args.hidden=[8, 8]", lambda config: config.policy.args == {"hidden": [8, 8]}),
    ("environment.args={radius = 0.3}", lambda config: config.environment.args == {"radius": 0.3}),
    ("onboarding.goals=6", lambda config: config.onboarding.goals == "6"),
    ("name=3", lambda config: config.name == "3"),
    ("name=a=b", lambda config: config.name == "a=b"),
    ("description=", lambda config: config.description == ""),
]


@pytest.mark.parametrize(("setting", "holds"), SET)
def test_set_overrides_any_key(setting: str, holds: Callable[[RunConfig], bool]) -> None:
    """A TOML value, else a bare string; lists by index; what the file leaves out has its default."""
    assert holds(load_config(None, [setting]))


@pytest.mark.parametrize(
    ("setting", "parts"),
    [
        ("algorithm.round=7", ["algorithm.round: unknown key", "did you mean 'rounds'?", "given by --set"]),
        ("algoritm.rounds=7", ["algoritm: unknown key", "did you mean 'algorithm'?", "given by --set"]),
        ("rounds", ["--set: 'rounds' is no override", "write --set algorithm.rounds=20"]),
        ("algorithm..rounds=7", ["--set: 'algorithm..rounds=7' is no override"]),
        ("seed=-1", ["is -1", "at most 9223372036854775807", "given by --set"]),
        ("federation.durability=x", ['one of "power", "process" (given by --set)']),
        ("agents.1.goals=3", ["agents.1: '1' is no index of this list", "valid: 0 to 0"]),
        ("agents.x=3", ["agents.x: 'x' is no index of this list"]),
        ("seed.x=3", ["seed: is no table or list"]),
        ("algorithm.rounds=many", ["algorithm.rounds: is 'many'", "given by --set"]),
    ],
)
def test_a_wrong_override_says_that_it_came_from_the_command_line(setting: str, parts: list[str]) -> None:
    """No line of the file is blamed for what --set gave."""
    found = (
        faults_of("[algorithm]\nrounds = 3", setting) if "agents" not in setting else faults_of("", setting)
    )
    assert len(found) == 1
    assert not found[0].startswith("line")
    for part in parts:
        assert part in found[0]


def test_assign_reports_the_path_that_it_set() -> None:
    """The path is returned so that later faults can be traced to the command line."""
    tree: dict[str, object] = {}
    faults: list[Fault] = []
    assert assign(tree, RunConfig, "federation.quorum=3", faults) == "federation.quorum"
    assert not faults
    assert tree["federation"]["quorum"] == 3  # type: ignore[index]


def test_a_missing_file_names_the_nearest(tmp_path: Path) -> None:
    """A typing mistake in a file name is answered with the file that was probably meant."""
    (tmp_path / "few.toml").write_text("seed = 1")
    with pytest.raises(ConfigError, match=r"fwe\.toml: no such file \(did you mean '.*few\.toml'"):
        load_config(tmp_path / "fwe.toml")
    with pytest.raises(ConfigError, match=r"the folder .*nowhere does not exist"):
        read(tmp_path / "nowhere" / "x.toml")


def test_a_folder_or_a_binary_file_is_refused_by_name(tmp_path: Path) -> None:
    """What is no text file is named, without a traceback."""
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        read(tmp_path)
    (tmp_path / "b.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="is no UTF-8 text"):
        read(tmp_path / "b.toml")


def test_lines_are_found_in_tables_arrays_and_around_inline_tables() -> None:
    """The search knows headers, arrays of tables, dotted keys, multi-line texts; else the nearest key."""
    text = 'a.b = 1\n[[t]]\nx = """\ny = 1\n"""\n[[t]]\nargs = { p = 1 }\n[t.link]\nz = 1\n[q]\n"k" = 2\n'
    lines = key_lines(text)
    found = [
        line_of(path, lines) for path in ("a.b", "t.0.x", "t.1.args.p", "t.1.link.z", "q.k", "t.0.y", "n")
    ]
    assert found == [1, 3, 7, 9, 11, 2, None]


def test_types_are_described_in_words() -> None:
    """Messages speak of whole numbers and texts, not of Python."""
    fields = {field.name: field.type for field in msgspec.structs.fields(Algorithm)}
    assert describe(fields["rounds"]) == "a whole number of at least 0 and at most 10000000"
    assert describe(fields["guard"]) == 'a number above 0 and at most 1000000 or "off"'
    assert describe(fields["clip_norm"]) == 'a number of at least 1e-09 and at most 1e+12 or "off"'


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("federation.max_update_norm=0", 'is 0, expected a number above 0 and at most 1e+300 or "off"'),
        ("privacy.delta=2", "is 2, expected a number above 0 and below 1"),
    ],
)
def test_bounds_are_short_and_whole(key: str, words: str) -> None:
    """No 301 digits, and the upper bound of an open interval is said too."""
    with pytest.raises(ConfigError) as caught:
        load("", RunConfig, nothing_wrong, [key])
    assert words in str(caught.value)


def test_conversion_returns_nothing_if_a_value_is_wrong() -> None:
    """A record with a wrong value inside is never handed out."""
    faults: list[Fault] = []
    assert convert({"agents": [{"goals": 3}]}, RunConfig, faults) is None
    assert [fault.path for fault in faults] == ["agents.0.goals"]

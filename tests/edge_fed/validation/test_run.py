"""Faults that need two fields or a table: each wrong file and the parts of its message."""

import msgspec
import pytest

from edge_fed.config import RunConfig
from edge_fed.errors import ConfigError, Fault
from edge_fed.profiles import LINK_BOUNDS
from edge_fed.program.config_file import load
from edge_fed.validation import check_run
from protocol.link import LinkProfile
from tests.edge_fed.gym.broken_envs import MODULE

GRID = "[environment]\nfamily = 'gridworld'\n[policy]\nname = 'softmax'\n"


def faults_of(text: str) -> list[Fault]:
    """The faults of a file whose single fields are right."""
    try:
        load(text, RunConfig, check_run)
    except ConfigError as error:
        return list(error.faults)
    return []


WRONG = [
    (
        "[privacy]\nnoise_multiplier = 1",
        2,
        "privacy.noise_multiplier",
        ["is 1, but without a clip norm", "privacy.clip_norm"],
    ),
    (
        "[privacy]\nclip_norm = 1\nnoise_multiplier = 1e-4",
        3,
        "privacy.noise_multiplier",
        ["below 0.01", "which is none"],
    ),
    (
        "[privacy]\nclip_norm = 1\nnoise_multiplier = 1\n[federation]\nkeep_checkpoints = 1\nkeep_best = 2",
        6,
        "federation.keep_best",
        ["is 2", "send no evaluations"],
    ),
    (
        "[privacy]\nclip_norm = 1\nnoise_multiplier = 4\n[federation]\nmax_update_norm = 5",
        5,
        "federation.max_update_norm",
        ["is 5", "a norm of about 75.9", "at least 92.1"],
    ),
    ("[environment]\nfamily = 'navigaton'", 2, "environment.family", ["'navigaton'", "'navigation'"]),
    ("[policy]\nname = 'mpl'", 2, "policy.name", ["unknown policy 'mpl'", "did you mean 'mlp'?"]),
    ("[algorithm]\naggregation = 'unifrm'", 2, "algorithm.aggregation", ["did you mean 'uniform'?"]),
    ("[environment]\nargs = { radios = 1 }", 2, "environment.args", ["'radios'", "did you mean 'radius'?"]),
    ("[environment]\nargs = { radius = -1 }", 2, "environment.args", ["radius", "-1"]),
    ("[policy]\nargs = { hiden = [3] }", 2, "policy.args", ["hiden"]),
    ("[policy]\nargs = { hidden = 'x' }", 2, "policy.args", ["hidden"]),
    ("[policy]\nname = 'softmax'", 2, "policy.name", ["cannot work on", "'navigation'", "choose 'mlp'"]),
    ("[environment]\nfamily = 'gridworld'", None, "policy.name", ["'mlp' cannot work", "choose 'softmax'"]),
    (
        "[[agents]]\ngoals = '0-9'",
        2,
        "agents.0.goals",
        ["navigation has no goal 9", "valid: 0 to 8; 0 to 5 train"],
    ),
    ("[[agents]]\ngoals = '3-1'", 2, "agents.0.goals", ["'3-1' is an empty"]),
    (
        "[[agents]]\ngoals='0-2'\n[[agents]]\ngoals='2-3'",
        4,
        "agents.1.goals",
        ["goal 2 is also in agents.0.goals"],
    ),
    ("[[agents]]\ngoals = []", 2, "agents.0.goals", ["is empty", 'goals = "0-5"']),
    ("name = ''", 1, "name", ["is empty"]),
    ("name = '../other'", 1, "name", ["'../other'", "leave / "]),
    ('name = "two\\nlines"', 1, "name", ["control signs"]),
    (f"name = '{'x' * 201}'", 1, "name", ["201 bytes, at most 200"]),
    ("agents = []", 1, "agents", ["nobody trains", "add [[agents]]"]),
    ("[[agents]]\ngoals='0'\nargs={stepp=1}", 3, "agents.0.args", ["'stepp'", "did you mean 'step'?"]),
    ("[[agents]]\ngoals='0'\nlink={latncy_s=1}", 3, "agents.0.link.latncy_s", ["did you mean 'latency_s'?"]),
    ("[[agents]]\ngoals='0'\nlink={loss=1.5}", 3, "agents.0.link.loss", ["1.5", "from 0 to 0.9"]),
    ("[algorithm]\nvariant='exact'\nhessian_batch=0", 3, "algorithm.hessian_batch", ["is 0", "at least 1"]),
    ("[algorithm]\nbaseline='loo'\ninner_batch=1", 3, "algorithm.inner_batch", ["is 1", "at least 2"]),
    ("[algorithm]\nbaseline='loo'\nouter_batch=1", 3, "algorithm.outer_batch", ["is 1", "at least 2"]),
    (
        "[algorithm]\nvariant='exact'\n[[agents]]\ngoals='0'\nhessian_batch=0",
        5,
        "agents.0.hessian_batch",
        ["is 0", "variant 'exact'"],
    ),
    (
        "[algorithm]\nvariant='sg_mrl'\ninner_gradient='recursive'",
        3,
        "algorithm.inner_gradient",
        ["is 'recursive'", "variant 'sg_mrl'", "choose 'plain'"],
    ),
    ("[algorithm]\nvariant='exat'", 2, "algorithm.variant", ["unknown variant 'exat'", "'exact'"]),
    ("[algorithm]\ncurvature='causl'", 2, "algorithm.curvature", ["estimator 'causl'", "'causal'"]),
    ("[algorithm]\nbaseline='valu'", 2, "algorithm.baseline", ["unknown baseline 'valu'", "'value'"]),
    (
        "[[agents]]\ngoals='0'\ncurvature='x'",
        3,
        "agents.0.curvature",
        ["estimator 'x'", "causal, finite_difference, lvc, naive"],
    ),
    (
        "[algorithm]\ncorrection='control_variate'\nouter_step_size=0",
        3,
        "algorithm.outer_step_size",
        ["is 0", "divides each update", "correction 'none'"],
    ),
    (
        "[algorithm]\ncorrection='control_variate'\naggregation='weighted'",
        3,
        "algorithm.aggregation",
        ["is 'weighted'", "cancel only in a plain mean", "'uniform'"],
    ),
    (
        "[algorithm]\ncorrection='control_variate'\n[[agents]]\ngoals='0-1'\nweight=2",
        5,
        "agents.0.weight",
        ["is 2, but control variates cancel only in a plain mean", "correction 'none'"],
    ),
    (
        "[algorithm]\nrule='median'\n[[agents]]\ngoals='0-1'\nweight=0.5",
        5,
        "agents.0.weight",
        ["is 0.5, but rule 'median' weighs agents alike", "choose rule 'mean'"],
    ),
    ("[[agents]]\ngoals='0'\nweight=0", 3, "agents.0.weight", ["is 0, expected a number of at least 1e-06"]),
    (
        "[algorithm]\nrule = 'medain'",
        2,
        "algorithm.rule",
        ["unknown aggregation rule", "did you mean 'median'?"],
    ),
    (
        "[algorithm]\nrule='median'\naggregation='weighted'",
        3,
        "algorithm.aggregation",
        ["rule 'median' weighs agents alike", "choose aggregation 'uniform'"],
    ),
    (
        "[algorithm]\nrule='krum'\ncorrection='control_variate'",
        2,
        "algorithm.rule",
        ["control variates cancel only in a plain mean", "correction 'none'"],
    ),
    ("[algorithm]\nrule='clipped_mean'", 1, "algorithm.clip_norm", ["is off", "longest norm"]),
    (
        "[algorithm]\nrule='krum'\nbyzantine=2",
        3,
        "algorithm.byzantine",
        ["is 2: rule 'krum' then needs 7 updates, but a round asks 6 of 6 agents", "rule 'median'"],
    ),
    (
        "[algorithm]\nrule='trimmed_mean'\nbyzantine=2\nparticipation=0.5",
        3,
        "algorithm.byzantine",
        ["needs 5 updates, but a round asks 3 of 6"],
    ),
    ("[federation]\nquorum = 7", 2, "federation.quorum", ["is 7, but 6 agents", "at most 6"]),
    (
        "[algorithm]\nparticipation=0.5\n[federation]\nmin_updates=4",
        4,
        "federation.min_updates",
        ["is 4, but a round asks 3 of 6", "at most 3"],
    ),
    (
        "[federation]\nkeep_best=1",
        2,
        "federation.keep_best",
        ["is 1, but keep_checkpoints = 0 keeps every checkpoint", "at least 1"],
    ),
    ("[federation]\nlease_s=1", 2, "federation.lease_s", ["not longer than heartbeat_s = 1"]),
    ("[onboarding]\ngoals='6,9'", 2, "onboarding.goals", ["navigation has no goal 9", "6 to 8 held out"]),
    ("[onboarding]\ngoals='6'\nm_adapt=[]", 3, "onboarding.m_adapt", ["is empty"]),
    ("[onboarding]\nm_adapt=[5, 5]", 2, "onboarding.m_adapt", ["twice"]),
    (
        "[onboarding]\nscratch=[20, 30]",
        2,
        "onboarding.scratch.1",
        ["is 30, no multiple of scratch_batch = 20"],
    ),
    (  # the family's own baseline
        "[environment]\nfamily = 'cartpole'\n[onboarding]\nm_adapt=[0, 1]",
        4,
        "onboarding.m_adapt.1",
        ["is 1", "'loo' compares"],
    ),
    (
        "[algorithm]\nadapt_baseline='loo'\n[onboarding]\nm_adapt=[0, 1]",
        4,
        "onboarding.m_adapt.1",
        ["is 1", "give it 0 or at least 2"],
    ),
    ("[environment]\nargs = { radius = nan }", 2, "environment.args.radius", ["is nan", "finite"]),
    ("[environment]\nargs = { radius = inf }", 2, "environment.args.radius", ["is inf", "finite"]),
    ("[policy]\nargs = { hidden = [nan] }", 2, "policy.args.hidden.0", ["is nan", "finite"]),
]


@pytest.mark.parametrize(("text", "line", "path", "parts"), WRONG)
def test_a_wrong_file_names_path_line_cause_and_next_step(
    text: str, line: int | None, path: str, parts: list[str]
) -> None:
    """Each fault stands at its dotted path and line and says what was found and what is valid."""
    found = [fault for fault in faults_of(text) if fault.path == path]
    assert len(found) == 1
    assert found[0].line == line
    for part in parts:
        assert part in str(found[0])


RIGHT = [
    "",
    GRID + "[[agents]]\ngoals = '0-7'\n[onboarding]\ngoals = '8-12'",
    "[algorithm]\nvariant = 'first_order'\nhessian_batch = 0",
    "[algorithm]\nvariant = 'exact'\nhessian_batch = 0\ncurvature_batch = 'inner'",
    "[algorithm]\nvariant = 'sg_mrl'\nhessian_batch = 0\nguard = 0.5",
    "[algorithm]\nvariant = 'exact'\ninner_gradient = 'recursive'\ninner_momentum = 0.9",
    "[algorithm]\nvariant = 'fedavg_pg'\nhessian_batch = 0\nbaseline = 'loo'\ninner_batch = 1",
    "[algorithm]\nvariant = 'exact'\ncurvature = 'causal'\nguard = 0.5\nbaseline = 'value'",
    "[[agents]]\ngoals = '0-5'\n[onboarding]\ngoals = '0'",
    "[onboarding]\nm_adapt = [0, 1]",
    "[environment]\nfamily = 'cartpole'\n[algorithm]\nadapt_baseline = 'none'\n[onboarding]\nm_adapt = [1]",
    "[algorithm]\ncorrection = 'control_variate'\nparticipation = 0.5",
    "[algorithm]\naggregation = 'weighted'\nouter_step_size = 0",
    "[algorithm]\nrule = 'krum'\nbyzantine = 1",
    "[algorithm]\nrule = 'trimmed_mean'\nbyzantine = 2",
    "[algorithm]\nrule = 'clipped_mean'\nclip_norm = 2",
    "[federation]\nmax_update_norm = 10\nquarantine_after = 'off'",
    "[algorithm]\nrounds = 0",
    "[federation]\nquorum = 6\nmin_updates = 6",
    "[[agents]]\ngoals = '0'\nlink = { latency_s = 0.1, jitter_s = 0.1, bandwidth_bps = 1e6, loss = 0.1 }",
]


@pytest.mark.parametrize("text", RIGHT)
def test_a_right_file_has_no_fault(text: str) -> None:
    """Everything that can run is accepted, also what a variant does not use."""
    assert faults_of(text) == []


WIDE = f"[environment]\nfamily = 'gymnasium'\nargs = {{ id = '{MODULE}:Sized', env_args.entries = 1000 }}\n"
WIDE += "[policy]\nname = 'gaussian'\n"
VALUED = WIDE.replace("1000 }", "1000, bootstrap = 'value' }")


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (WIDE + "[algorithm]\nbaseline = 'value'", "algorithm.baseline"),
        (VALUED, "environment.args"),
        (VALUED + "[[agents]]\ngoals = '0-5'\nargs = { bootstrap = 'value' }", "agents.0.args"),
        (WIDE + "[[agents]]\ngoals = '0-5'\nargs = { bootstrap = 'value' }", "agents.0.args"),
        (WIDE, None),
        (WIDE + "[algorithm]\nbaseline = 'loo'", None),
        (WIDE.replace("1000", "999") + "[algorithm]\nbaseline = 'value'", None),
    ],
)
def test_observations_that_no_fit_of_values_can_hold_are_refused(text: str, path: str | None) -> None:
    """By baseline or bootstrap, of all agents or some; a run without such fits may have them, and 999 fit."""
    found = {fault.path: str(fault) for fault in faults_of(text)}
    assert (path in found) if path else not found
    assert all(
        "'value', but a fit" in why and "2,001 features, at most 2,000" in why for why in found.values()
    )


def test_who_joins_later_does_not_count_for_the_quorum() -> None:
    """A quorum that only late joiners could fill would never be reached."""
    config = load("[federation]\nquorum = 5", RunConfig, check_run)
    assert check_run(config) == []
    assert [fault.path for fault in check_run(config, absent=(4, 5))] == ["federation.quorum"]


def test_the_numbers_of_a_config_that_came_over_the_wire_are_checked_too() -> None:
    """A record that was built without conversion may hold what no field type allows."""
    config = RunConfig(environment=RunConfig().environment.__class__(args={"step": 2**70}))
    assert any("64 bits" in fault.message for fault in check_run(config))


def test_link_keys_are_those_of_the_emulated_link() -> None:
    """The mathematics may not import the protocol, so that this test keeps the two tables equal."""
    assert set(LINK_BOUNDS) == set(LinkProfile.__struct_fields__)


@pytest.mark.parametrize("key", sorted(LINK_BOUNDS))
def test_what_a_configuration_may_say_of_a_link_the_link_accepts(key: str) -> None:
    """A value that passes here and fails in the agent would leave the run waiting for that agent."""
    for value in LINK_BOUNDS[key]:
        msgspec.convert({key: value}, LinkProfile)

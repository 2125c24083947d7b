"""Settings of supervised runs: what does not apply is refused by name, without any data."""

import pytest

from edge_fed.errors import ConfigError
from tests.edge_fed.supervised.cases import small


def faults(*sets):
    """Path -> message."""
    with pytest.raises(ConfigError) as caught:
        small(*sets)
    return {fault.path: fault.message for fault in caught.value.faults}


@pytest.mark.parametrize(
    ("setting", "path", "message"),
    [
        ("dataset.family=mnits", "dataset.family", "unknown data set 'mnits'"),
        ("model.name=resnet", "model.name", "unknown model 'resnet'"),
        ("algorithm.variant=sg_mrl", "algorithm.variant", "unknown variant of supervised tasks"),
        ("algorithm.variant=fedavg_pg", "algorithm.variant", "unknown variant of supervised tasks"),
        ("algorithm.curvature=causal", "algorithm.curvature", "unknown curvature estimator 'causal'"),
        ("algorithm.baseline=value", "algorithm.baseline", "supervised tasks have none"),
        ("algorithm.adapt_baseline=loo", "algorithm.adapt_baseline", "supervised tasks have none"),
        ("algorithm.inner_gradient=recursive", "algorithm.inner_gradient", "supervised tasks have none"),
        ("algorithm.curvature_batch=inner", "algorithm.curvature_batch", "supervised tasks have none"),
        ("algorithm.hessian_batch=0", "algorithm.hessian_batch", "estimates its curvature from this batch"),
        ("dataset.args.users=5", "dataset.args", "users"),
        ("dataset.args.images=5", "dataset.args", "images"),
        ("model.args.hidden=[]", "model.args", "hidden"),
        ('agents.0.goals="0-6"', "agents.0.goals", "blobs has no goal 6"),
        ("agents.0.args={ a = 4 }", "agents.0.args", "folder"),
        ("agents.0.curvature=naive", "agents.0.curvature", "unknown curvature estimator"),
        ("agents.0.hessian_batch=0", "agents.0.hessian_batch", "estimates its curvature"),
        ("onboarding.m_adapt=[0, 20]", "onboarding", "a user has 20 test images"),
    ],
)
def test_what_is_wrong_is_named(setting, path, message):
    """The path of the key and what is wrong with it."""
    found = faults(setting)
    assert list(found) == [path]
    assert message in found[path]


def test_a_split_of_training_users_must_leave_images():
    """Of the smallest test part: here 20."""
    small("onboarding.adapt_from=split", "onboarding.adapt_episodes=19")
    found = faults("onboarding.adapt_from=split", "onboarding.adapt_episodes=20")
    assert "adapt_episodes is 20, but a user has 20" in found["onboarding"]


@pytest.mark.parametrize(
    "setting",
    [
        "algorithm.guard=0.5",
        "algorithm.correction=control_variate",
        "algorithm.rule=median",
        "algorithm.participation=0.5",
        "algorithm.variant=first_order",
        "algorithm.curvature=hvp",
        "agents.0.curvature=hvp",
        "agents.0.args={ folder = 'here' }",
        "onboarding.adapt_from=test",
        "privacy.clip_norm=1",
    ],
)
def test_what_applies_is_accepted(setting):
    """Federation, rules, guard, privacy and corrections know nothing of the kind of task."""
    small(setting)


def test_curvature_that_is_not_used_needs_no_name():
    """Only exact estimates curvature: the default of policies may stand beside first_order."""
    small("algorithm.variant=first_order", "algorithm.curvature=naive")

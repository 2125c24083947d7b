"""What adapts or trains is never what scores."""

from edge_fed.evaluation import evaluate
from edge_fed.federated.local_update import initial_state, local_update
from edge_fed.onboarding import onboard
from edge_fed.rollouts import Sampler
from tests.edge_fed.test_evaluation import SEED, SMALL, navigation


def test_no_scoring_episode_is_also_learned_from(monkeypatch):
    """[complaints 35] Start states of all trajectories: those that score occur in no batch that learns."""
    learned, scored = [], []

    def spy(name, into):
        original = getattr(Sampler, name)

        def spied(self, *arguments):
            result = original(self, *arguments)
            states = result.states
            into.extend(start.tobytes() for start in states[0])
            return result

        monkeypatch.setattr(Sampler, name, spied)

    spy("pool", learned)
    spy("outcomes", scored)
    task, params = navigation(variant="exact")
    for round_ in (1, 2):
        local_update(task, params, initial_state(task), SEED, round_, lambda _step: None)
    evaluate(task, params, SEED, SMALL)
    onboard(task, params, SEED, SMALL, lambda _done: None)
    assert len(learned) == 2 * 5 * 30 + 40 + 50 + 60
    assert len(set(scored)) == SMALL.eval_episodes, "all policies are scored on the same starts"
    assert set(learned).isdisjoint(scored)


def test_an_update_is_not_written_over_by_the_next():
    """[wire 3] What an agent has handed to its socket stays as it was while it computes the next round."""
    task, params = navigation()
    first = local_update(task, params, initial_state(task), SEED, 1, lambda _step: None).delta
    before = first.tobytes()
    local_update(task, params, initial_state(task), SEED, 2, lambda _step: None)
    assert first.tobytes() == before

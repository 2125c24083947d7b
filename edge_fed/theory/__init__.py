"""The paper's theory as numbers: constants, bounds, rates, regimes and identities, with their sources.

It says how large things can be at most, and is far from sharp: the constants of the paper's own
experiments are outside its regime R2 by orders of magnitude (science.md 1.4).
"""

NOT_COVERED = (
    "guarded runs: the guard biases the direction, Lemma 3 and Theorem 1 need guard = off",
    "variant sg_mrl: it ascends E J(theta + alpha g_in), the mean over inner batches, and not F",
    "curvature_batch inner: theta~ depends on the batch that the curvature is estimated from",
    "inner_gradient recursive: given theta it is biased by the error of the local step before",
    "baselines loo and value: Lemma 1 bounds rewards-to-go without a baseline",
    "policies with unbounded scores (mlp, gaussian, a learned log-std): Assumption 2 gives no constants",
    "correction control_variate: local steps are not along the direction of Lemma 3 alone",
    "participation below 1, weighted averages, rounds in which an update is missing",
    "more than one adaptation step, and discount 1",
)
"""What no statement of the paper speaks about. The causal estimator is covered: its mean is the naive one's,
and its bound along a trajectory is never larger (science.md 1.4)."""

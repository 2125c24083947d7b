"""The names of what a cell measures; the head of `scenarios.study.results` says what they mean."""

SHARED = ("meta_objective", "expected_return", "success", "success_adapted",
          "worst_meta_objective", "fraction_hurt")  # fmt: skip
"""Of the training agents, beside every evaluation."""

UPDATES = ("direction_norm", "inner_norm", "curvature_ratio", "guard_rate", "cosine", "correction_norm",
           "bootstrap")  # fmt: skip
"""Of the updates since the evaluation before."""

DIAGNOSTICS = ("gradient_snr", "step_norm", "adaptation_kl")
"""Of `edge_fed.diagnostics`, if the study wants them."""

HELD_OUT = ("return", "success", "worst_return", "fraction_hurt", "fraction_kept")
"""Of the agents that never trained; ``alpha`` beside the tuned ones."""

KNOWN = tuple(dict.fromkeys((*SHARED, *UPDATES, *DIAGNOSTICS, *HELD_OUT, "alpha")))

PROTOCOLS = {"adapt-train": "train", "adapt-split": "split", "adapt-test-LEAKS": "test"}
"""``policy`` of the table -> ``adapt_from``, of supervised runs after their last round."""

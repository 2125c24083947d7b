"""The table of faults and the arguments that go together."""

from scenarios.proxy.rules import KINDS, Rule, argument_faults, rule_of


def test_arguments_become_a_rule() -> None:
    """Whole numbers may come as floats; a cut acts once unless told otherwise."""
    made = rule_of({"kind": "delay", "direction": "down", "seconds": 2, "count": 3.0, "for_s": 9.0})
    assert made == Rule(kind="delay", direction="down", seconds=2.0, count=3)
    assert rule_of({"kind": "cut"}).count == 1
    assert rule_of({"kind": "cut", "count": 2}).count == 2


def test_arguments_that_do_not_go_together_are_named() -> None:
    """Each with what to do."""
    assert list(argument_faults({"kind": "throttle", "seconds": 1.0})) == [
        ("seconds", "a throttle has none", "it takes bytes_per_s"),
        ("bytes_per_s", "is missing: a throttle needs it", KINDS["throttle"].meaning),
    ]
    assert next(argument_faults({"kind": "freeze", "chance": 0.5}))[2].endswith("direction and for_s")
    assert not list(argument_faults({"kind": "drop", "only": "ACK", "for_s": 1.0, "direction": "up"}))
    assert not list(argument_faults({"kind": "unknown", "seconds": 1.0})), "reported where kinds are checked"


def test_what_silences_an_agent() -> None:
    """Only what lets nothing through, so that nobody waits for such an agent at a boundary."""
    assert Rule(kind="freeze").silences and Rule(kind="half_open", direction="up").silences
    assert Rule(kind="drop").silences
    for rule in (Rule(kind="drop", chance=0.5), Rule(kind="drop", count=1), Rule(kind="drop", only="ACK")):
        assert not rule.silences
    assert not Rule(kind="throttle", bytes_per_s=1.0).silences

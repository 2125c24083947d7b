"""Free-form args become typed records; what is wrong is named."""

from typing import Annotated

import msgspec
import pytest

from edge_fed.arguments import read_args


class _Door(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of a made-up family."""

    width: Annotated[float, msgspec.Meta(gt=0)] = 1.5
    panels: int = 2
    heights: tuple[float, ...] = (1.0,)


def test_defaults_fill_what_is_not_named():
    """Only the named fields change; an integer is accepted for a float."""
    assert read_args(_Door, {}, "door") == _Door()
    assert read_args(_Door, {"width": 2, "heights": [1, 2.5]}, "door") == _Door(width=2.0, heights=(1.0, 2.5))


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"widht": 1.0}, "door has no argument 'widht'; did you mean 'width'?"),
        ({"colour": 1.0}, "door has no argument 'colour'; known: heights, panels, width"),
        ({"width": 0.0}, "door argument 'width': .*found 0.0"),
        ({"panels": 2.5}, "door argument 'panels': .*found 2.5"),
        ({"panels": True}, "door argument 'panels': .*found True"),
        ({"panels": None}, "door argument 'panels': .*found None"),
        ({"heights": [1.0, "x"]}, r"door argument 'heights\[1\]': .*found \[1.0, 'x'\]"),
        ({"heights": {"a": 1}}, "door argument 'heights'"),
        ({"width": float("nan")}, "door argument 'width' must be finite"),
        ({"heights": [[float("-inf")]]}, "door argument 'heights' must be finite"),
    ],
)
def test_each_fault_is_named_with_its_value(args, message):
    """Unknown names, wrong types, bounds and non-finite numbers raise one readable ValueError."""
    with pytest.raises(ValueError, match=message):
        read_args(_Door, args, "door")

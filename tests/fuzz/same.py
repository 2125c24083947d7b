"""Equality for what was decoded: NaN equals itself, and an integer is no float and no boolean."""

from typing import Any

import msgspec
import numpy as np


def same(left: Any, right: Any) -> bool:
    """Whether two plain values, records or arrays are alike in type and value, bit by bit."""
    if isinstance(left, msgspec.Struct):
        return type(left) is type(right) and same(msgspec.structs.asdict(left), msgspec.structs.asdict(right))
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()
    return type(left) is type(right) and (left == right or (left != left and right != right))

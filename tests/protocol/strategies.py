"""Hypothesis strategies for every record of the wire, derived from the records themselves."""

import types
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from protocol import messages
from protocol.codec import TYPES
from protocol.limits import MAX_INTEGER

finite = st.floats(allow_nan=False)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-MAX_INTEGER, MAX_INTEGER)
    | finite
    | st.text(max_size=20)
    | st.binary(max_size=20)
)
plain = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
plain_maps = st.dictionaries(st.text(max_size=8), plain, max_size=4)
digests = st.text("0123456789abcdef", min_size=64, max_size=64)
BY_TYPE: dict[Any, st.SearchStrategy[Any]] = {
    messages.UInt: st.integers(0, MAX_INTEGER),
    messages.Crc32: st.integers(0, 2**32 - 1),
    messages.Hash: digests,
    messages.Id: st.binary(min_size=16, max_size=16),
    messages.Text: st.text(max_size=100),
    messages.Rows: st.lists(plain_maps, max_size=3).map(tuple),
    Annotated[bytes, msgspec.Meta(max_length=16)]: st.binary(max_size=16),
    dict[str, Any]: plain_maps,
    dict[str, str]: st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=4),
    dict[str, float]: st.dictionaries(st.text(max_size=8), finite, max_size=4),
    tuple[str, ...]: st.lists(st.text(max_size=8), max_size=4).map(tuple),
    bool: st.booleans(),
    float: finite,
    type(None): st.none(),
}


def of(annotation: Any) -> st.SearchStrategy[Any]:
    """Values of one field."""
    if annotation in BY_TYPE:
        return BY_TYPE[annotation]
    if get_origin(annotation) is Literal:
        return st.sampled_from(get_args(annotation))
    assert get_origin(annotation) in (Union, types.UnionType), annotation
    return st.one_of(*map(of, get_args(annotation)))


def records(kind: type[messages.Record]) -> st.SearchStrategy[Any]:
    """Records of one type; every field is drawn."""
    return st.builds(kind, **{field.name: of(field.type) for field in msgspec.structs.fields(kind)})


headers = records(messages.Header)
any_message = st.one_of([records(kind) for kind in TYPES.values()])
vectors = npst.arrays(np.dtype("<f8"), st.integers(0, 40), elements=st.floats(allow_nan=True))


def tensors(kind: type[messages.Message]) -> st.SearchStrategy[dict[str, Any]]:
    """The tensors that a type must carry, and perhaps those that it may."""
    required = messages.TENSORS.get(kind, ())
    optional = messages.OPTIONAL_TENSORS.get(kind, ())
    names = st.sampled_from((required, required + optional))
    return names.flatmap(
        lambda order: st.tuples(*[vectors] * len(order)).map(lambda v: dict(zip(order, v, strict=True)))
    )

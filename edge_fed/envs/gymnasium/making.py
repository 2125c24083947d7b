"""From ``id`` to an environment: a registered id, or ``module:factory`` of the user.

Imported only where a Gymnasium environment is used.
"""

from typing import Any

import gymnasium

from edge_fed.user_code import USER_FAULTS, is_user_code, load

WHAT = "gymnasium argument 'id'"


def make_env(id_: str, kwargs: dict[str, Any]) -> Any:
    """What the registered environment's or the factory's call returns, unchecked.

    Raises:
        ValueError: There is no such id, file or factory, or it raised; the message names its arguments.
    """
    called = f"{id_}({', '.join(f'{name}={value!r}' for name, value in kwargs.items())})"
    if id_.startswith("edge_fed/"):
        family = id_.removeprefix("edge_fed/").partition("-")[0].lower()
        raise ValueError(f"{WHAT}: {id_} is a family of edge_fed, which runs faster: family = {family!r}")
    factory = load(id_, WHAT) if is_user_code(id_) else None
    try:
        if factory is not None:
            return factory(**kwargs)
        return gymnasium.make(id_, disable_env_checker=True, **kwargs)  # the adapter checks what it needs
    except gymnasium.error.Error as error:
        hint = "a file of yours is named module:factory, e.g. plant:make for plant.py"
        raise ValueError(f"{WHAT}: {called}: {error} ({hint})") from error
    except USER_FAULTS as error:
        raise ValueError(f"{WHAT}: {called} raised {type(error).__name__}: {error}") from error

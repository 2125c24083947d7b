"""Tables of names that a configuration may use, open to what users write.

Wherever a table has a name, ``module:name`` from a file in the working directory does as well
(`edge_fed.user_code`): a new environment family, policy, variant, curvature estimator or baseline needs no
line in this package.
"""

from typing import TypeVar

from edge_fed.user_code import is_user_code, load

Entry = TypeVar("Entry")


class Table(dict[str, Entry]):
    """Name -> entry; what is written ``module:name`` is loaded when it is first looked up.

    Args:
        what: What its entries are, for messages, e.g. ``policy``.
        entries: Those that come with edge_fed.
    """

    def __init__(self, what: str, entries: dict[str, Entry]) -> None:
        super().__init__(entries)
        self.what = what
        self._loaded: dict[str, Entry] = {}

    def __contains__(self, name: object) -> bool:
        """Whether it is an entry, or is written like one of a user's (which may still fail to load)."""
        return super().__contains__(name) or (isinstance(name, str) and is_user_code(name))

    def __missing__(self, name: str) -> Entry:
        """Loads a user's entry.

        Raises:
            UserCodeError: It cannot be loaded.
            KeyError: It is no name of that form.
        """
        if not is_user_code(name):
            raise KeyError(name)
        if name not in self._loaded:  # no entry of this table: what names it has does not depend on a run
            self._loaded[name] = load(name, self.what)
        return self._loaded[name]

"""A small mapping that cannot be changed, can be hashed and can be pickled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

__all__ = ["FrozenMapping"]


class FrozenMapping(Mapping[str, float]):
    """Names to numbers, in the order given, for fields of frozen dataclasses.

    `types.MappingProxyType` would do, but it can be neither pickled nor hashed.

    Parameters
    ----------
    items : mapping
        Names to numbers.

    Examples
    --------
    >>> FrozenMapping({"epsilon": 0.25})["epsilon"]
    0.25
    """

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, float]) -> None:
        self._items = tuple(items.items())

    def __getitem__(self, key: str) -> float:
        for name, value in self._items:
            if name == key:
                return value
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(frozenset(self._items))

    def __repr__(self) -> str:
        return repr(dict(self._items))

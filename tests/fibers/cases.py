"""Small fibers of every kind, with a table in each."""

from dataclasses import dataclass, field

import numpy as np

from bayesdp import Exact, Frame, Identity, LinearQuery, Margins, Totals
from bayesdp.fibers import Fiber


@dataclass(frozen=True)
class Case:
    """A table, exact answers about it, and bounds that make an infinite fiber finite for the enumeration."""

    table: np.ndarray
    exact: tuple
    frame: Frame
    window: tuple = ()
    fixed_sum: bool = True
    fiber: Fiber = field(init=False)

    def __post_init__(self):
        object.__setattr__(self, "fiber", Fiber.of(self.exact, self.frame))

    @property
    def finite_part(self):
        return Fiber.of([*self.exact, *self.window], self.frame)


def frame_of(*sizes):
    """Dimensions a, b, c with labels a0, a1, ..."""
    return Frame.of({name: [f"{name}{i}" for i in range(n)] for name, n in zip("abc", sizes, strict=False)})


def with_margins(table, *dims, more=()):
    """A table with the margins over the named dimensions ("a", "ab") exact."""
    array = np.asarray(table)
    frame = frame_of(*array.shape)
    queries = [Margins(frame, list(own)) for own in dims]
    return Case(array, (*(Exact(q, q.apply(array)) for q in queries), *more), frame)


def zeros_at(frame, cells):
    """Structural zeros."""
    rows = np.eye(frame.size, dtype=np.int64)[cells]
    return Exact(LinearQuery(frame, rows, [f"zero {c}" for c in cells]), np.zeros(len(cells), dtype=np.int64))


def _sums(frame, name, row, value, sign="="):
    return (Exact(LinearQuery(frame, [row], [name]), [value], sign),)


def _cube(*layers):
    return np.array([[int(count) for count in layer] for layer in layers]).reshape(3, 3, 3)


_ISOLATED = _cube("001010000", "010000001", "000001010")
"""Half of a move of degree six: its fiber has two points, and no 2x2x2 move leaves either."""
_GROUPED, _LINE = Frame.of({"c": list("pqrst"), "s": ("c", list("xxxyy"))}), Frame.of({"c": list("pqrst")})
_GENERAL = LinearQuery(_LINE, [[1, 2, 0, 1, 0], [0, 1, 1, 0, 3]], ["u", "v"])
_TALL, _PAIR, _THREE = frame_of(3, 2), frame_of(2), frame_of(3)
_LIMITS = (Exact(Margins(_TALL, ["a"]), [2, 1, 1], ">="), Exact(Margins(_TALL, ["b"]), [5, 5], "<="))

CASES = {
    "2x2": with_margins([[5, 3], [2, 6]], "a", "b"),
    "2x3": with_margins([[2, 3, 1], [1, 0, 3]], "a", "b"),
    "3x3": with_margins([[1, 0, 2], [1, 1, 0], [0, 2, 1]], "a", "b"),
    "one margin of 2x2x2": with_margins([[[1, 0], [2, 1]], [[0, 3], [1, 1]]], "ab", "c"),
    "disjoint totals": Case(np.array([2, 0, 3, 4, 1]), (Exact(Totals(_GROUPED, "s"), [5, 5]),), _GROUPED),
    "3x3x3, two-way margins": with_margins(_cube("101010000", "010100001", "000001110"), "ab", "bc", "ac"),
    "3x3x3, isolated": with_margins(_ISOLATED, "ab", "bc", "ac"),
    "structural zeros": with_margins(
        [[0, 3, 2], [1, 0, 4], [2, 1, 0]], "a", "b", more=(zeros_at(frame_of(3, 3), [0, 4, 8]),)
    ),
    "general matrix": Case(np.array([3, 1, 2, 2, 1]), (Exact(_GENERAL, [7, 6]),), _LINE, fixed_sum=False),
    "inequalities": Case(np.array([[1, 2], [0, 1], [2, 1]]), (Exact(Totals(_TALL), 7), *_LIMITS), _TALL),
    "no invariants": Case(np.array([4, 7]), (), _PAIR, (Exact(Identity(_PAIR), [90, 90], "<="),), False),
    "a cell in no total": Case(
        np.array([3, 5, 2]),
        _sums(_THREE, "first two", [1, 1, 0], 8),
        _THREE,
        _sums(_THREE, "third", [0, 0, 1], 90, "<="),
        False,
    ),
    "unbounded pair": Case(
        np.array([6, 4]), _sums(_PAIR, "difference", [1, -1], 2), _PAIR, _sums(_PAIR, "second", [0, 1], 90, "<="), False
    ),
}

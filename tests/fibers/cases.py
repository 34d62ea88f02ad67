"""Small fibers of every kind, with a table in each."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from bayesdp.fibers import Fiber
from bayesdp.frames import Frame
from bayesdp.measurements import Exact
from bayesdp.queries import LinearQuery, Margins, Totals

type Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Case:
    """A table, exact answers about it, and bounds that make an infinite fiber finite for the enumeration."""

    table: Ints
    exact: tuple[Exact, ...]
    frame: Frame
    window: tuple[Exact, ...] = ()
    fixed_sum: bool = True
    fiber: Fiber = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "fiber", Fiber.of(self.exact, self.frame))

    @property
    def finite_part(self) -> Fiber:
        return Fiber.of([*self.exact, *self.window], self.frame)


def frame_of(*sizes: int) -> Frame:
    """Dimensions a, b, c with labels a0, a1, ..."""
    return Frame.of({name: [f"{name}{i}" for i in range(n)] for name, n in zip("abc", sizes, strict=False)})


def with_margins(table: npt.ArrayLike, *dims: str, more: tuple[Exact, ...] = ()) -> Case:
    """A table with the margins over the named dimensions ("a", "ab") exact."""
    array = np.asarray(table)
    frame = frame_of(*array.shape)
    queries = [Margins(frame, list(own)) for own in dims]
    return Case(array, (*(Exact(q, q.apply(array)) for q in queries), *more), frame)


def zeros_at(frame: Frame, cells: list[int]) -> Exact:
    """Structural zeros."""
    rows = np.eye(frame.size, dtype=np.int64)[cells]
    return Exact(LinearQuery(frame, rows, [f"zero {c}" for c in cells]), np.zeros(len(cells), dtype=np.int64))


def _isolated() -> Ints:
    """Half of a move of degree six: its fiber has two points, and no 2x2x2 move leaves either."""
    text = ["001010000", "010000001", "000001010"]
    return np.array([[int(c) for c in row] for row in text]).reshape(3, 3, 3)


def _three_way() -> Ints:
    table = _isolated()
    table[2, 2, 0] = table[0, 0, 0] = table[1, 1, 0] = 1
    return table


_GROUPED = Frame.of({"c": list("pqrst"), "s": ("c", list("xxxyy"))})
_LINE = Frame.of({"c": list("pqrst")})
_GENERAL = LinearQuery(_LINE, [[1, 2, 0, 1, 0], [0, 1, 1, 0, 3]], ["u", "v"])
_TALL = frame_of(3, 2)
_PAIR = frame_of(2)
_THREE = frame_of(3)
_TWO_OF_THREE = LinearQuery(_THREE, [[1, 1, 0]], ["first two"])
_DIFFERENCE = LinearQuery(_PAIR, [[1, -1]], ["difference"])

CASES: dict[str, Case] = {
    "2x2": with_margins([[5, 3], [2, 6]], "a", "b"),
    "2x3": with_margins([[2, 3, 1], [1, 0, 3]], "a", "b"),
    "3x3": with_margins([[1, 0, 2], [1, 1, 0], [0, 2, 1]], "a", "b"),
    "one margin of 2x2x2": with_margins([[[1, 0], [2, 1]], [[0, 3], [1, 1]]], "ab", "c"),
    "disjoint totals": Case(np.array([2, 0, 3, 4, 1]), (Exact(Totals(_GROUPED, "s"), [5, 5]),), _GROUPED),
    "3x3x3, two-way margins": with_margins(_three_way(), "ab", "bc", "ac"),
    "3x3x3, isolated": with_margins(_isolated(), "ab", "bc", "ac"),
    "structural zeros": with_margins(
        [[0, 3, 2], [1, 0, 4], [2, 1, 0]], "a", "b", more=(zeros_at(frame_of(3, 3), [0, 4, 8]),)
    ),
    "general matrix": Case(np.array([3, 1, 2, 2, 1]), (Exact(_GENERAL, [7, 6]),), _LINE, fixed_sum=False),
    "inequalities": Case(
        np.array([[1, 2], [0, 1], [2, 1]]),
        (
            Exact(Totals(_TALL), 7),
            Exact(Margins(_TALL, ["a"]), [2, 1, 1], ">="),
            Exact(Margins(_TALL, ["b"]), [5, 5], "<="),
        ),
        _TALL,
    ),
    "no invariants": Case(
        np.array([4, 7]),
        (),
        _PAIR,
        window=(Exact(LinearQuery(_PAIR, np.eye(2, dtype=np.int64), ["p", "q"]), [90, 90], "<="),),
        fixed_sum=False,
    ),
    "a cell in no total": Case(
        np.array([3, 5, 2]),
        (Exact(_TWO_OF_THREE, [8]),),
        _THREE,
        window=(Exact(LinearQuery(_THREE, [[0, 0, 1]], ["third"]), [90], "<="),),
        fixed_sum=False,
    ),
    "unbounded pair": Case(
        np.array([6, 4]),
        (Exact(_DIFFERENCE, [2]),),
        _PAIR,
        window=(Exact(LinearQuery(_PAIR, [[0, 1]], ["second"]), [90], "<="),),
        fixed_sum=False,
    ),
}

"""Counts perturbed by cell keys: the perturbation table is worked out from its variance, or given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp import _validate
from bayesdp.noise.perturbed.base import PerturbedLaw
from bayesdp.noise.perturbed.max_entropy import feasible_variances, max_entropy_row, max_entropy_zero_row
from bayesdp.noise.perturbed.ptable_file import read_ptable
from bayesdp.noise.perturbed.transition_table import TransitionTable
from bayesdp.noise.perturbed.transitions import Transitions

__all__ = ["CellKey", "ten_five_rule"]

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

_LARGEST_DEVIATION = 1000


@dataclass(frozen=True, eq=False, init=False)
class CellKey(PerturbedLaw):
    """Counts perturbed by cell keys: a deviation with probabilities p(v | x) from a perturbation table, the same for the same people.

    An office gives each record a key; those of the records in a cell determine its deviation. Who does not know the keys sees a
    random deviation with the probabilities of the table. Answers about the same people have the same deviation wherever they are
    published: one cell in two tables, and a total and a cell if all others are empty. Deviations of different people are
    independent, so that cells do not add up to totals. An answer about nobody has no keys: where zeros are perturbed, each such
    answer has a deviation of its own. `draw_answers` draws and `bayesdp.observe` reads tables so; `draw` and the distribution take
    every number for one about other people.

    The table is given (`ptable`), or that of maximum entropy: for each count x the probabilities of ``v = -D, ..., D`` that maximise
    ``-sum_v p_v log p_v`` with ``sum_v p_v = 1``, mean ``sum_v v p_v = 0`` and variance ``sum_v v**2 p_v = V``, where no x + v is
    below 0, or from 1 to below `not_smaller_than`. They are ``p_v`` proportional to ``exp(a v + b v**2)`` on the deviations that are
    allowed. From x = D (D + `not_smaller_than`, if that is 2 or more) on, all deviations are, and all counts have one row.

    ========  ================================================================================
    Support   counts from x - D to x + D; none below 0 and none below `not_smaller_than` but 0
    Mean      x (of a table that is given: see `mean`)
    Variance  V, or the feasible variance nearest to it for small counts; see `row_variances`
    ========  ================================================================================

    Not differentially private: deviations are bounded.

    Parameters
    ----------
    ptable : TransitionTable, optional
        The office's own table, as from `read_ptable`; the other parameters must then be left out.
    max_deviation : int, optional
        D, from 1 to 1000.
    variance : float, optional
        V, above 0 and at most ``D**2``. For small counts a variance of V may not be possible with mean zero: 1 becomes 0 or more, so
        that its variance is at most D, and where 1 and 2 may not be published it is at least 2. Such a count has the feasible variance
        that is nearest to V (a rule of ours: offices may do otherwise, and then publish or keep a table).
    not_smaller_than : int, default 0
        No smaller positive count is published; the tables of Giessing (2016) call this number less one js. 0 and 1: all counts are.
    zeros : {"kept", "perturbed"}, default "kept"
        Whether a true 0 is always published as 0. If not, it can only go up and has no mean of zero; the row here then has maximum
        entropy with the mean square V. Offices that perturb zeros have tables of their own for them: give `ptable`.

    Raises
    ------
    TypeError, ValueError
        If neither a table nor D and V are given, or both; or if a count has no deviations with mean zero, which the message names.

    See Also
    --------
    bayesdp.distributions.CellKey : the same law as a PyMC distribution.
    bayesdp.noise.read_ptable : a perturbation table from a file.

    References
    ----------
    Marley and Leaver (2011), A method for confidentialising user-defined tables: statistical properties and a risk-utility analysis;
    Giessing (2016), Computational issues in the design of transition probabilities and disclosure risk estimation for additive noise.

    Examples
    --------
    >>> law = CellKey(max_deviation=2, variance=1.0)
    >>> np.exp(law.log_each(np.arange(5), 1)).round(4).tolist()
    [0.3981, 0.3058, 0.1942, 0.1019, 0.0]
    >>> law.mean([0, 1, 50]).round(6).tolist(), law.variance((3,), location=[0, 1, 50]).round(6).tolist()
    ([0.0, 1.0, 50.0], [0.0, 1.0, 1.0])
    """

    ptable: TransitionTable | None
    max_deviation: int | None
    deviation_variance: float | None
    not_smaller_than: int
    zeros: str

    name = "cell-key"
    relation = (
        "max_deviation=D variance=V, and not_smaller_than=N and zeros=kept or perturbed; or the path of a file with the "
        "perturbation table (columns i, j and p)"
    )

    def __init__(
        self,
        ptable: Any = None,
        max_deviation: Any = None,
        variance: Any = None,
        not_smaller_than: Any = 0,
        zeros: str = "kept",
    ) -> None:
        _validate.choice(zeros, ("kept", "perturbed"), "zeros")
        least = _validate.nonnegative_integer(_whole(not_smaller_than), "not_smaller_than")
        if ptable is not None:
            _check_alone(max_deviation, variance, least, zeros)
            ptable = _table_of(ptable)
        elif max_deviation is None or variance is None:
            raise ValueError(
                "a cell-key law needs max_deviation and variance, or ptable, the perturbation table of the office"
            )
        else:
            max_deviation, variance = _checked(max_deviation, variance)
        for name, value in (
            ("ptable", ptable),
            ("max_deviation", max_deviation),
            ("deviation_variance", variance),
            ("not_smaller_than", least),
            ("zeros", zeros),
        ):
            object.__setattr__(self, name, value)
        if ptable is None:
            _ = self._rows  # raises for a count without deviations of mean zero

    @property
    def same_cell_same_value(self) -> bool:
        """True: the perturbation of a cell follows from the keys of its records, in whichever table it stands."""
        return True

    def withheld(self, values: npt.ArrayLike) -> dict[str, npt.NDArray[np.bool_]]:
        """Which values stand for answers under the threshold of the table, if it has one. See `NoiseLaw.withheld`."""
        return {} if self.ptable is None else self.ptable.withheld(values)

    @classmethod
    def stated_parameters(cls) -> dict[str, Any]:
        """The parameters of the constructor with their defaults: `variance` is a method of laws, and no field."""
        return {"ptable": None, "max_deviation": None, "variance": None, "not_smaller_than": 0, "zeros": "kept"}

    def _parameters(self) -> dict[str, Any]:
        return {
            "ptable": self.ptable,
            "max_deviation": self.max_deviation,
            "variance": self.deviation_variance,
            "not_smaller_than": self.not_smaller_than,
            "zeros": self.zeros,
        }

    @classmethod
    def read_word(cls, word: str) -> dict[str, Any]:
        """What stands on the command line for the parameters: the path of a perturbation table."""
        return {"ptable": read_ptable(word)}

    @cached_property
    def _rows(self) -> list[tuple[Floats, float]]:
        """Probabilities of -D, ..., D for the counts from 0 to that from which on all deviations are allowed, and their variances."""
        assert self.max_deviation is not None
        least, d = self.not_smaller_than, self.max_deviation
        return [self._row(x) for x in range(d + (least if least > 1 else 0) + 1)]

    def _row(self, x: int) -> tuple[Floats, float]:
        assert self.max_deviation is not None
        assert self.deviation_variance is not None
        deviations = np.arange(-self.max_deviation, self.max_deviation + 1, dtype=np.int64)
        y = x + deviations
        allowed = (y == 0) | (y >= max(self.not_smaller_than, 1))
        row = np.zeros(len(deviations))
        if x == 0:
            if self.zeros == "kept":
                row[deviations == 0] = 1.0
                return row, 0.0
            row[allowed], _ = max_entropy_zero_row(deviations[allowed], self.deviation_variance)
            mean = float(row @ deviations)
            return row, float(row @ (deviations - mean) ** 2)
        if not allowed.any() or feasible_variances(deviations[allowed]) is None:
            raise ValueError(
                f"max_deviation {self.max_deviation} is too small for not_smaller_than {self.not_smaller_than}: the count {x} may "
                f"become {y[allowed].tolist()}, and no law on these has the mean {x}; max_deviation must be at least "
                f"{self.not_smaller_than - 1}"
            )
        row[allowed], variance = max_entropy_row(deviations[allowed], self.deviation_variance)
        return row, variance

    @property
    def row_variances(self) -> Floats:
        """Variance of the deviation of each count from 0 on; the last one is that of all larger counts, too."""
        return self.transitions.moments[1].copy()

    @cached_property
    def transitions(self) -> Transitions:
        """The table of probabilities."""
        if self.ptable is not None:
            return self.ptable.transitions
        assert self.max_deviation is not None
        return Transitions(-self.max_deviation, np.stack([row for row, _ in self._rows]), 1)

    def describe(self) -> dict[str, Any]:
        """Describe the law by plain data. See `NoiseLaw.describe`."""
        told = super().describe()
        return told if self.ptable is None else {"law": self.name, "ptable": self.ptable.describe()}

    def __str__(self) -> str:
        if self.ptable is None:
            return super().__str__()
        return f"{self.name} ptable={str(self.ptable).removeprefix(self.ptable.name).strip()}"

    def __repr__(self) -> str:
        if self.ptable is not None:
            return f"CellKey(ptable={self.ptable!r})"
        return (
            f"CellKey(max_deviation={self.max_deviation}, variance={self.deviation_variance}, "
            f"not_smaller_than={self.not_smaller_than}, zeros={self.zeros!r})"
        )


def ten_five_rule() -> CellKey:
    """The "10-5 rule": counts below 10 become 0, and others the nearest multiple of 5.

    ``y = 0`` for x below 10, and from 10 on x - 1 for a remainder by 5 of 1, x - 2 for 2, x + 2 for 3 and x + 1 for 4. Nothing in
    it is random. It is the example of a perturbation table that comes with the package cell-key-perturbation of the UK Office for
    National Statistics (MIT licence), which then leaves out the counts below 10.

    Returns
    -------
    CellKey

    Examples
    --------
    >>> ten_five_rule().draw(1, (6,), location=[3, 9, 10, 12, 13, 998]).tolist()
    [0, 0, 10, 10, 15, 1000]
    """
    small = {x: {-x: 1.0} for x in range(10)}
    rest = {10 + r: {d: 1.0} for r, d in enumerate((0, -1, -2, 2, 1))}
    return CellKey(ptable=TransitionTable.by_count({**small, **rest}, period=5))


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _check_alone(max_deviation: Any, variance: Any, least: int, zeros: str) -> None:
    given = {"max_deviation": max_deviation, "variance": variance, "not_smaller_than": least or None}
    extra = [name for name, value in given.items() if value is not None] + (["zeros"] if zeros != "kept" else [])
    if extra:
        raise ValueError(f"ptable says all of the law, so {', '.join(extra)} must be left out")


def _table_of(ptable: Any) -> TransitionTable:
    if isinstance(ptable, Mapping):
        ptable = PerturbedLaw.from_description(ptable)
    if isinstance(ptable, TransitionTable):
        return ptable
    hint = (
        " (read_ptable reads a file; on the command line write: cell-key FILE)"
        if isinstance(ptable, (str, Path))
        else ""
    )
    raise TypeError(f"ptable must be a TransitionTable{hint}, got {type(ptable).__name__}")


def _checked(max_deviation: Any, variance: Any) -> tuple[int, float]:
    d = _validate.positive_integer(_whole(max_deviation), "max_deviation")
    if d > _LARGEST_DEVIATION:
        raise ValueError(f"max_deviation must be at most {_LARGEST_DEVIATION}, got {d}")
    v = _validate.positive_real(variance, "variance")
    if v > d * d:
        raise ValueError(f"variance must be at most {d * d}, the square of max_deviation, got {v!r}")
    return d, v

"""One table that an office has published: numbers where there are any, and for every other cell what its symbol means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayesdp._text import printable
from bayesdp._validate import choice, shown
from bayesdp.measurements import Exact, Measured, described
from bayesdp.noise.base import NoiseLaw
from bayesdp.queries import LinearQuery, Query

STATUSES: Mapping[str, str] = MappingProxyType({
    "published": "a number was published",
    "suppressed": "the number was hidden, and why is not known: primary or complementary suppression",
    "not_published": "there is no number, and nothing is known of the count",
    "zero": "the true count is zero",
    "below_threshold": "the number was hidden because it is under a threshold",
    "not_applicable": "the cell cannot have a count: a structural zero",
})  # fmt: skip
"""What can be known of a cell of an office's table, by name."""

_NAMES = tuple(STATUSES)
PUBLISHED = _NAMES.index("published")
ZERO = _NAMES.index("zero")

_LEFT_OUT = ("suppressed", "not_published", "zero", "not_applicable")
_ZEROS = ("zero", "not_applicable")


@dataclass(frozen=True, eq=False)
class OfficeTable:
    """A table that an office has published, with a status for each cell; made by `read_office_csv`.

    Parameters
    ----------
    query : Query
        What the numbers are of: the cells of the table, a margin, or the grand total.
    values : numpy.ndarray, shape `query.shape`
        The published numbers, int64 if there is a whole one for each answer, else float64 with NaN where there is none. A true
        zero that the office marks by a symbol is 0.
    codes : numpy.ndarray of int8, shape `query.shape`
        For each answer, the place of its status in `STATUSES`; `status` has the names.
    notes : mapping
        Footnote marks that stood at answers: name of the answer -> marks.

    Examples
    --------
    >>> from bayesdp.noise import DiscreteLaplace
    >>> from bayesdp.queries import Identity
    >>> county = Identity({"county": ["Alpha", "Beta", "Gamma"]})
    >>> table = OfficeTable(county, np.array([12, np.nan, 0]), np.array([0, 1, 3], dtype=np.int8))
    >>> table
    <OfficeTable: 3 answers by county: 1 published, 1 suppressed, 1 zero>
    >>> table.mask("suppressed").values
    array([False,  True, False])
    >>> table.measured(DiscreteLaplace(b=1.0)), table.exact_zeros()
    (<Measured: 3 answers by county, 2 of them unmeasured, law discrete-laplace b=1>, <Exact: county=Gamma = 0>)
    """

    query: Query
    values: npt.NDArray[np.int64] | npt.NDArray[np.float64]
    codes: npt.NDArray[np.int8]
    notes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.query, Query):
            raise TypeError(f"query must be a query, such as Identity(frame), got {type(self.query).__name__}")
        values, codes = np.array(self.values, order="C"), np.array(self.codes, order="C")
        for name, array in (("values", values), ("codes", codes)):
            if array.shape != self.query.shape:
                raise ValueError(f"{name} must have the shape of the query, {self.query.shape}, got {array.shape}")
        if values.dtype not in (np.int64, np.float64):
            raise TypeError(f"values must be int64 or float64, got {values.dtype}")
        if codes.dtype != np.int8:
            raise TypeError(f"codes must be int8, got {codes.dtype}")
        flat = codes.reshape(-1)
        numbered = np.isin(flat, (PUBLISHED, ZERO))
        wrongs = {
            f"codes must be from 0 to {len(_NAMES) - 1}": (flat < 0) | (flat >= len(_NAMES)),
            "values must be numbers where codes are published or zero, and NaN elsewhere": np.isfinite(values).reshape(
                -1
            )
            != numbered,
            "values must be 0 where codes are zero": (flat == ZERO) & (values.reshape(-1) != 0),
        }
        for why, wrong in wrongs.items():
            if wrong.any():
                raise ValueError(
                    f"{why}; at {self.query.answer_name(int(np.flatnonzero(wrong)[0]))} that does not hold"
                )
        for array in (values, codes):
            array.flags.writeable = False
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "codes", codes)
        object.__setattr__(self, "notes", MappingProxyType(dict(self.notes)))

    @property
    def labelled(self) -> xr.DataArray:
        """The published numbers as a labelled DataArray, NaN where there is none."""
        return self._labelled(self.values, "published")

    @property
    def status(self) -> xr.DataArray:
        """The name of the status of each answer, labelled."""
        return self._labelled(np.array(_NAMES)[self.codes], "status")

    def mask(self, *statuses: str) -> xr.DataArray:
        """Which answers have one of these statuses, labelled.

        Parameters
        ----------
        *statuses : str
            Names from `STATUSES`.

        Raises
        ------
        ValueError
            If one is no status.
        """
        return self._labelled(self._has(statuses), "mask")

    def measured(self, law: NoiseLaw, *, name: str | None = None, unmeasured: Sequence[str] = _LEFT_OUT) -> Measured:
        """The published numbers as a measurement with the law of their perturbation.

        Parameters
        ----------
        law : NoiseLaw
            Law of a published number given the true one.
        name : str, optional
            Name of the measurement.
        unmeasured : sequence of str
            Statuses of answers that are left out, as if nothing were known of them. That is right only if whether an answer was
            published did not depend on its number; where it did, say how by a law or a bound for these answers. So a table with
            answers under a threshold is refused unless ``"below_threshold"`` is among them. True zeros are no draws of
            the law: `exact_zeros` has them.

        Returns
        -------
        Measured

        Raises
        ------
        ValueError
            If no number was published, there is an answer with another status, or the law refuses a number; the message names
            the answer.
        """
        if isinstance(unmeasured, str):
            raise TypeError(f"unmeasured must be a list of statuses, got {unmeasured!r}")
        hidden = self.codes != PUBLISHED
        unsaid = np.flatnonzero(hidden & ~self._has(unmeasured))
        if unsaid.size:
            first = int(unsaid[0])
            status = _NAMES[int(self.codes.reshape(-1)[first])]
            raise ValueError(
                f"{self.query.answer_name(first)} has no number under the law ({status}: {STATUSES[status]}). Say what the status "
                f"means with a law or bounds for such answers, or, if it tells nothing of the count, "
                f"unmeasured={(*unmeasured, status)!r}"
            )
        if hidden.all():
            raise ValueError(f"no answer of the table has a published number: {self!r}")
        values = np.where(hidden, np.nan, self.values) if hidden.any() else self.values
        return Measured(self.query, values, law, name=name, unmeasured=hidden if hidden.any() else None)

    def exact_zeros(self) -> Exact | None:
        """True zeros and cells that cannot have a count, as exact answers; None if there are none."""
        rows = np.flatnonzero(self._has(_ZEROS))
        if not rows.size:
            return None
        if rows.size == self.query.rows:
            return Exact(self.query, np.zeros(self.query.shape, dtype=np.int64))
        names = [_exact_name(self.query, int(row)) for row in rows]
        query = LinearQuery(self.query.frame, self.query.matrix[rows], names)
        return Exact(query, np.zeros(rows.size, dtype=np.int64))

    def _has(self, statuses: Sequence[str]) -> npt.NDArray[np.bool_]:
        for own in statuses:
            choice(own, _NAMES, "status")
        found: npt.NDArray[np.bool_] = np.isin(self.codes, [_NAMES.index(own) for own in statuses])
        return found

    def _labelled(self, array: npt.NDArray[np.generic], name: str) -> xr.DataArray:
        if self.query.is_identity:
            return self.query.frame.data_array(array, name)
        return xr.DataArray(array, dims=self.query.dims, coords=self.query.coords, name=name)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, OfficeTable)
            and (self.query, self.values.dtype, dict(self.notes))
            == (other.query, other.values.dtype, dict(other.notes))
            and np.array_equal(self.values, other.values, equal_nan=True)
            and np.array_equal(self.codes, other.codes)
        )

    def __hash__(self) -> int:
        return hash((self.query, self.codes.tobytes()))

    def __repr__(self) -> str:
        counts = np.bincount(self.codes.reshape(-1), minlength=len(_NAMES))
        known = ", ".join(f"{times} {name}" for name, times in zip(_NAMES, counts, strict=True) if times)
        noted = f"; footnotes {printable(shown(self._marks))}" if self.notes else ""
        return f"<OfficeTable: {described(self.query)}: {known}{noted}>"

    @property
    def _marks(self) -> list[str]:
        return list(dict.fromkeys(mark for marks in self.notes.values() for mark in marks))


def _exact_name(query: Query, row: int) -> str:
    return query.parts[0].name(row)

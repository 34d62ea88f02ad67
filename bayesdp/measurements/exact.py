"""Exact answers of a query.

Checks of what is published, and words for it; shared by noisy and exact answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from bayesdp._text import printable
from bayesdp._validate import choice, finite_array, integer_array, nearest, no_table, shown
from bayesdp.frames import Frame
from bayesdp.invariants import Invariants
from bayesdp.noise.base import NoiseLaw
from bayesdp.queries import MatrixPart, Query, shown_unit
from bayesdp.queries.query import checked_query

type Values = npt.NDArray[np.int64] | npt.NDArray[np.float64]
type Mask = npt.NDArray[np.bool_]

_HOW_TO_STATE = (
    "if the cell was not published, state it: unmeasured=[...] with the names or label tuples of such cells, "
    "or unmeasured=noisy.isnull()"
)


def read_only[A: npt.NDArray[Any]](array: A) -> A:
    """A read-only copy, because measurements are compared and hashed by content."""
    copy = array.copy(order="C")
    copy.flags.writeable = False
    return copy


def on_frame(query: Query, frame: Frame) -> Query:
    """The same query about the same cells, with the group labels of another frame."""
    return query if query.frame == frame else Query.from_description(query.describe(), frame)


def places_of(query: Query, items: Iterable[Any], argument: str) -> list[int]:
    """Where answers stand that are given by their names, or by their labels: a tuple, or one alone."""
    places: dict[Any, int | None] = {}
    for position, name in enumerate(query.names):
        places[name] = None if name in places else position
    frame = query.answer_frame
    for position, labels in enumerate(product(*frame.labels) if frame is not None else ()):
        places.setdefault(labels, position)
        if len(labels) == 1:
            places.setdefault(labels[0], position)
    listed = list(items)
    unknown = [item for item in listed if not _hashable(item) or item not in places]
    if unknown:
        raise ValueError(
            f"{argument} has labels that are no answers of the query: {shown(unknown)}; answers are {nearest(unknown[0], query.names)}"
        )
    found = []
    for item in listed:
        place = places[item]
        if place is None:
            raise ValueError(f"{argument} names {item!r}, which is the name of several answers; give a mask")
        found.append(place)
    return found


def _hashable(item: Any) -> bool:
    """Whether an item can be looked up; a tuple may hold something that cannot."""
    try:
        hash(item)
    except TypeError:
        return False
    return True


def unmeasured_mask(query: Query, stated: Any) -> Mask:
    """The statement of what was not published, as a boolean array of the query's shape."""
    if stated is None:
        return np.zeros(query.shape, dtype=np.bool_)
    if isinstance(stated, bool | np.bool_):
        raise TypeError(
            f"unmeasured must be a boolean array of the query's shape, or a list of answers; got {stated!r}"
        )
    return answers_stated(query, stated, "unmeasured")


def answers_stated(query: Query, stated: Any, argument: str) -> Mask:
    """True or False for all, a mask of the query's shape, or a list of answers, as a boolean array."""
    if isinstance(stated, bool | np.bool_):
        return np.full(query.shape, bool(stated))
    labelled = isinstance(stated, (xr.DataArray, pd.Series, pd.DataFrame))
    if labelled or (isinstance(stated, np.ndarray) and stated.dtype == np.bool_):
        mask = query.align(stated, argument)
        if mask.dtype != np.bool_:
            raise TypeError(f"{argument} must hold True and False, got an array of dtype {mask.dtype}")
        return np.array(mask, dtype=np.bool_)
    if isinstance(stated, (str, Mapping)) or not isinstance(stated, Iterable):
        raise TypeError(
            f"{argument} must be a boolean array of the query's shape, or a list of answer names or label "
            f"tuples; got {stated!r}"
        )
    mask = np.zeros(query.shape, dtype=np.bool_)
    mask.flat[places_of(query, stated, argument)] = True
    return mask


def checked_noisy(query: Query, values: Any, law: NoiseLaw, unmeasured: Mask) -> Values:
    """The noisy numbers in the order of the query, with 0 where nothing was published."""
    if isinstance(values, np.ma.MaskedArray):
        values = np.where(np.ma.getmaskarray(values), np.nan, np.ma.getdata(values))
    array = np.array(query.align(values, "values"), order="C")  # so that `flat` is a view of it
    flat, hidden = array.reshape(-1), unmeasured.reshape(-1)
    if array.dtype.kind == "f":
        blank = np.isnan(flat)
        unstated = np.flatnonzero(blank & ~hidden)
        if unstated.size:
            raise ValueError(f"values has no number for {query.answer_name(int(unstated[0]))}; {_HOW_TO_STATE}")
    else:
        blank = np.zeros(flat.shape, dtype=np.bool_)
    filled = np.flatnonzero(hidden & ~blank)
    if filled.size:
        where = int(filled[0])
        raise ValueError(
            f"unmeasured says that {query.answer_name(where)} was not published, but values holds "
            f"{flat[where].item()!r} there; such cells must be NaN or masked"
        )
    flat[hidden] = 0
    finite = finite_array(array, "values", query.answer_name)
    _check_inside(query, finite, law, hidden)
    _check_possible(query, finite, law, hidden)
    why = law.refusal(finite)
    if why:
        raise ValueError(why)
    if not law.integer:
        return finite.astype(np.float64)
    fractional = np.flatnonzero(finite.reshape(-1) != np.rint(finite.reshape(-1)))
    if fractional.size:
        where = int(fractional[0])
        raise ValueError(
            f"values must be whole numbers under the law {law.name!r}, but {query.answer_name(where)} is "
            f"{finite.reshape(-1)[where].item()!r}: the table seems averaged, scaled or otherwise "
            "post-processed, or its noise is not integer noise; give the numbers as they left the "
            "mechanism, with their own law"
        )
    return finite.astype(np.int64)


def _check_inside(query: Query, values: Any, law: NoiseLaw, hidden: Mask) -> None:
    """A law within bounds cannot give a value outside them."""
    low, high = (np.broadcast_to(side, query.shape).reshape(-1) for side in law.limits)
    flat = values.reshape(-1)
    outside = np.flatnonzero(((flat < low) | (flat > high)) & ~hidden)
    if outside.size:
        where = int(outside[0])
        raise ValueError(
            f"values must lie within the bounds of the law {law.name!r}, {low[where]:.17g} to {high[where]:.17g}, but "
            f"{query.answer_name(where)} is {flat[where].item()!r}"
        )


def _check_possible(query: Query, values: Any, law: NoiseLaw, hidden: Mask) -> None:
    """Some laws have gaps between the values that they can give."""
    why = {where: words for where, words in law.refusals(values).items() if not hidden[where]}
    if why:
        where = min(why)
        raise ValueError(
            f"values must be possible under the law {law.name!r}, but {query.answer_name(where)} is "
            f"{values.reshape(-1)[where].item()!r}, {why[where]}"
        )


def check_law(query: Query, law: NoiseLaw, invariants: Invariants | None, unmeasured: Mask) -> None:
    """What the law asks of the query, of its invariants and of unpublished cells."""
    for item in fields(law):  # type: ignore[arg-type]  # laws are dataclasses
        scale = getattr(law, item.name)
        if isinstance(scale, NoiseLaw):  # a law within a law
            check_law(query, scale, None, unmeasured)
        if isinstance(scale, np.ndarray) and not law.keeps_invariants:  # other arrays are no scales of answers
            if not _fits(scale.shape, query.shape):
                raise ValueError(
                    f"{item.name} of the law {law.name!r} has shape {scale.shape}, which does not fit the "
                    f"answers of the query, of shape {query.shape}"
                )
    for side in law.limits:
        if isinstance(side, np.ndarray) and not _fits(side.shape, query.shape):
            raise ValueError(
                f"bounds of the law {law.name!r} have shape {side.shape}, which does not fit the answers of the query, "
                f"of shape {query.shape}"
            )
    if not law.keeps_invariants and invariants is not None:
        raise ValueError(
            f"noise of the law {law.name!r} {'is independent in each cell' if law.independent else 'keeps no totals of counts'}, "
            "so invariants must be None; publish exact values as Exact parts of the release"
        )
    if law.independent:
        if unmeasured.all():
            raise ValueError("unmeasured leaves no cell of the query measured; leave the measurement out")
        return
    if law.support == "lattice" and not query.is_identity:
        raise ValueError(
            f"the law {law.name!r} is noise on a whole table of integers, so its query must be Identity, got {query.names[:3]}..."
        )
    if unmeasured.any():
        name = query.answer_name(int(np.flatnonzero(unmeasured.reshape(-1))[0]))
        raise ValueError(
            f"the law {law.name!r} ties the noise of all cells together, so no cell can be unmeasured, but {name} is"
        )
    if invariants is not None and not invariants.frame.same_cells(query.frame):
        raise ValueError("invariants of the noise must be about the table of the query (same dimensions and labels)")


def _fits(shape: tuple[int, ...], answers: tuple[int, ...]) -> bool:
    """Whether a parameter has one entry for each answer, or spreads over them."""
    try:
        return np.broadcast_shapes(shape, answers) == answers
    except ValueError:
        return False


def has_negative_entry(query: Query) -> Mask:
    """For each answer, whether some cell counts negatively in it."""
    found = []
    for part in query.parts:
        negative = np.zeros(part.rows, dtype=np.bool_)
        if isinstance(part, MatrixPart):
            entries = part.matrix.tocoo()
            negative[entries.row[entries.data < 0]] = True
        found.append(negative)
    return np.concatenate(found) if found else np.zeros(0, dtype=np.bool_)


def described(query: Query) -> str:
    """A query in a few words: how many answers, and what they are by."""
    words = []
    for part in query.parts:
        if isinstance(part, MatrixPart):
            unit = "" if part.unit == 1 else f" in units of {shown_unit(part.unit)}"
            words.append(f"{part.rows} linear combination{'s' if part.rows > 1 else ''}{unit}")
        elif part.keep:
            words.append(f"{part.rows} answer{'s' if part.rows > 1 else ''} by {printable(' × '.join(part.keep))}")
        else:
            words.append("grand total")
    return " and ".join(words)


SIGNS = ("=", ">=", "<=")
"""How an exact value may bound its query: the answer is equal to, at least, or at most the value."""

_BOUND = {"=": "", ">=": ", at least", "<=": ", at most"}


@dataclass(frozen=True, eq=False)
class Exact:
    """Exact answers of a query: an invariant and its published values.

    Parameters
    ----------
    query : Query
        What was asked of the confidential table.
    values : xarray.DataArray, pandas object or array_like, shape `query.shape`
        The answers, whole numbers of counts. Labelled values are matched by label.
    sign : {"=", ">=", "<="}
        Whether the true answers are equal to, at least or at most these values.
    assumption : str, optional
        What had to be assumed for this to hold, in a sentence that is shown wherever the answers are: that answers were
        suppressed because they were small, for example.

    Attributes
    ----------
    values : numpy.ndarray of int64
        Read-only, in the order of the query.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If labels do not match, a value is NaN, fractional or too large, or no table of counts can have it
        because the answer is a sum of counts and the value is negative. The message names the answer.

    Examples
    --------
    >>> from bayesdp.queries import Totals
    >>> Exact(Totals({"county": ["Alpha", "Beta"]}), 135)
    <Exact: grand total = 135>
    """

    query: Query
    values: npt.NDArray[np.int64]
    sign: str
    assumption: str | None

    def __init__(self, query: Query, values: Any, sign: str = "=", assumption: str | None = None) -> None:
        checked_query(query)
        choice(sign, SIGNS, "sign")
        told: Any = assumption  # callers may pass anything
        if told is not None and not (isinstance(told, str) and told.strip()):
            raise TypeError(f"assumption must be a sentence or None, got {assumption!r}")
        array = integer_array(query.align(values, "values"), "values", query.answer_name)
        if sign != ">=":
            flat = array.reshape(-1)
            negative = np.flatnonzero((flat < 0) & ~has_negative_entry(query))
            if negative.size:
                where = int(negative[0])
                stated = f"{query.answer_name(where)} {sign} {flat[where]}"
                raise ValueError(f"{no_table([stated])} (a sum of counts is at least 0)")
        object.__setattr__(self, "query", query)
        object.__setattr__(self, "values", read_only(array))
        object.__setattr__(self, "sign", sign)
        object.__setattr__(self, "assumption", assumption)

    def on_frame(self, frame: Frame) -> Exact:
        """The same exact answers with the group labels of `frame`, which labels the same cells."""
        query = on_frame(self.query, frame)
        return self if query is self.query else Exact(query, self.values, self.sign, self.assumption)

    @property
    def labelled(self) -> xr.DataArray:
        """The published values as a labelled DataArray."""
        if self.query.is_identity:
            return self.query.frame.data_array(self.values, "exact")
        return xr.DataArray(self.values, dims=self.query.dims, coords=self.query.coords, name="exact")

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Exact)
            and (self.query, self.sign, self.assumption) == (other.query, other.sign, other.assumption)
            and np.array_equal(self.values, other.values)
        )

    def __hash__(self) -> int:
        return hash((self.query, self.sign, self.values.tobytes()))

    def __repr__(self) -> str:
        assumed = "" if self.assumption is None else f"; {printable(self.assumption)}"
        if self.query.rows > 1:
            return f"<Exact: {described(self.query)}{_BOUND[self.sign]}{assumed}>"
        what = "grand total" if self.query.names == ["total"] else self.query.answer_name(0)
        return f"<Exact: {what} {self.sign} {self.values.item()}{assumed}>"

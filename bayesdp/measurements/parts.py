"""What is published about a table: exact answers of a query, and noisy ones with the law of their noise.

Both are checked when they are made. What may have been done to numbers after the noise was added leaves them without a likelihood, and
is refused with the way out.
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

from bayesdp._arrays import Floats, Ints, Mask
from bayesdp._text import printable
from bayesdp._validate import choice, finite_array, integer_array, nearest, no_table, set_fields, shown
from bayesdp.frames import Frame
from bayesdp.invariants import Invariants
from bayesdp.noise.base import NoiseLaw
from bayesdp.queries import Query
from bayesdp.queries.query import checked_query, described, has_negative_entry

type Values = Ints | Floats

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


def _labelled(query: Query, values: Values, name: str) -> xr.DataArray:
    if query.is_identity:
        return query.frame.data_array(values, name)
    return xr.DataArray(values, dims=query.dims, coords=query.coords, name=name)


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


def _check_possible(query: Query, values: Any, law: NoiseLaw, hidden: Mask) -> None:
    """A law within bounds gives no value outside them, and some laws have gaps between the values that they can give."""
    low, high = (np.broadcast_to(side, query.shape).reshape(-1) for side in law.limits)
    flat = values.reshape(-1)
    for where in np.flatnonzero(((flat < low) | (flat > high)) & ~hidden).tolist():
        raise ValueError(
            f"values must lie within the bounds of the law {law.name!r}, {low[where]:.17g} to {high[where]:.17g}, but "
            f"{query.answer_name(where)} is {flat[where].item()!r}"
        )
    for where, why in sorted(law.refusals(values).items()):
        if not hidden[where]:
            raise ValueError(
                f"values must be possible under the law {law.name!r}, but {query.answer_name(where)} is "
                f"{flat[where].item()!r}, {why}"
            )


def check_law(query: Query, law: NoiseLaw, invariants: Invariants | None, unmeasured: Mask) -> None:
    """What the law asks of the query, of its invariants and of unpublished cells."""
    for item in fields(law):  # type: ignore[arg-type]  # laws are dataclasses
        scale = getattr(law, item.name)
        if isinstance(scale, NoiseLaw):  # a law within a law
            check_law(query, scale, None, unmeasured)
        if isinstance(scale, np.ndarray) and not law.keeps_invariants:  # other arrays are no scales of answers
            _check_fits(f"{item.name} of the law {law.name!r} has", scale, query)
    for side in law.limits:
        _check_fits(f"bounds of the law {law.name!r} have", np.asarray(side), query)
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


def _check_fits(what: str, array: npt.NDArray[Any], query: Query) -> None:
    """A parameter has one entry for each answer, or spreads over them."""
    try:
        fits = np.broadcast_shapes(array.shape, query.shape) == query.shape
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"{what} shape {array.shape}, which does not fit the answers of the query, of shape {query.shape}"
        )


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
    values: Ints
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
        set_fields(self, query=query, values=read_only(array), sign=sign, assumption=assumption)

    def on_frame(self, frame: Frame) -> Exact:
        """The same exact answers with the group labels of `frame`, which labels the same cells."""
        query = on_frame(self.query, frame)
        return self if query is self.query else Exact(query, self.values, self.sign, self.assumption)

    @property
    def labelled(self) -> xr.DataArray:
        """The published values as a labelled DataArray."""
        return _labelled(self.query, self.values, "exact")

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


def held_back(measured: Measured) -> list[str]:
    """Phrases like "12 of them under 90", for answers of a law with thresholds; none for other laws."""
    counts = {
        why: int(np.sum(which & ~measured.unmeasured)) for why, which in measured.law.withheld(measured.values).items()
    }
    return [f"{count} of them {why}" for why, count in counts.items() if count]


_BEFORE = (
    "Use the noisy measurements from before the post-processing (agencies publish them as noisy measurement files), or a noise law "
    "of your own that includes it"
)

KINDS: dict[str, tuple[str, str]] = {
    "topdown": (
        "the TopDown algorithm fits whole, nonnegative counts to many noisy tables at once, by optimisation, and every number depends "
        "on all of them",
        "Use the noisy measurement files that it started from: bayesdp.datasets.read_nmf reads those of the 2020 Census",
    ),
    "consistent": (
        "making tables add up moves every number by a combination of the noise of the others, so that their errors are tied "
        "together, in a way that depends on the method",
        "Ask for the noisy numbers from before that, cells and totals as they were drawn (such as noisy measurement files): all of "
        "them go into one release, and the posterior adds up by itself",
    ),
    "nonnegative": (
        "setting negative numbers to zero, or scaling the others down to make up for it, hides how far below zero they were",
        "Ask for the numbers with their negative values (such as noisy measurement files), which do no harm here. Numbers that were "
        "only clipped at public bounds, each by itself, have a law of their own: boundary-inflated-discrete-laplace and its relatives",
    ),
    "clipped": (
        "clipping puts all noise beyond the bound on the bound",
        "Use the numbers from before (such as noisy measurement files), or the law of numbers that were clipped at public bounds, "
        "each by itself: boundary-inflated-discrete-laplace and its relatives",
    ),
    "rounded": (
        "rounding noisy numbers adds an error that the law of the noise does not know",
        "Laplace and Gaussian noise that was rounded has a law, as 'rounded law=(laplace b=2) base=1': state that, and leave "
        "postprocessing out. Or use the numbers from before (such as noisy measurement files). True counts that were rounded, at "
        "random or not, with no other noise, follow a law of their own: state that law in place of this one",
    ),
    "ratio": (
        "a percentage is made of two noisy counts, cut to 0 to 100% and rounded (as the broadband usage by ZIP code is), and of "
        "neither is the noisy value left",
        "Ask for the noisy counts themselves: both go into one release, and the posterior of the percentage follows. A range of "
        "errors that is published beside a percentage is no law of noise",
    ),
    "swapped": (
        "swapping moves records between areas before the table is made, and which ones is secret",
        "There is no way back from the table alone. Use noisy measurement files, or a table that was perturbed cell by cell",
    ),
}
"""Reason and way out, by a word that a statement of post-processing has in it; the first that fits counts."""

_WORDS = {
    "topdown": "topdown", "top-down": "topdown", "consisten": "consistent", "additiv": "consistent", "adjusted": "consistent",
    "nonneg": "nonnegative", "non-neg": "nonnegative", "negative": "nonnegative", "clip": "clipped", "truncat": "clipped",
    "percent": "ratio", "ratio": "ratio", "round": "rounded", "swap": "swapped",
}  # fmt: skip


def refused(stated: str, law: str) -> str:
    """Why numbers with this post-processing are refused, and what to do; a message."""
    kind = next((kind for word, kind in _WORDS.items() if word in str(stated).lower()), None)
    reason, way_out = KINDS.get(
        kind or "", ("after clipping, rounding, making consistent or the like numbers have another law", _BEFORE)
    )
    return (
        f"postprocessing is {stated!r}: {reason}. The published numbers no longer follow the noise law {law!r}, and no likelihood for "
        f"them is known here. {way_out}"
    )


@dataclass(frozen=True, eq=False)
class Measured:
    """Noisy answers of a query, with the law of their noise: what an agency publishes in place of a table.

    Parameters
    ----------
    query : Query
        What was asked of the confidential table.
    values : xarray.DataArray, pandas object or array_like, shape `query.shape`
        The noisy answers, in counts, or in multiples of the unit of a `LinearQuery.of_values`.
        Labelled values are matched by label. Negative numbers are fine: noise
        does that, and clipping them would change the law.
    law : NoiseLaw
        Law of the noise. Integer laws need whole numbers.
    invariants : Invariants, optional
        The exact queries under which lattice or projected noise was drawn; a release takes its own exact
        parts when this is None. Must be None for independent noise.
    name : str, optional
        Name of the measurement, for example in the PyMC model.
    unmeasured : boolean array or list, optional
        Cells that were not published: a boolean DataArray or array of the query's shape, or a list of answer
        names (``"county=Alpha, education=Low"``) or label tuples (``("Alpha", "Low")``). There the values
        must be NaN or masked. For independent noise only.
    postprocessing : {None, "none"}
        What was done to the numbers after the noise was added. Anything but nothing is refused, with the reason and the way out for
        "topdown", "consistent", "nonnegative", "clipped", "rounded" and "swapped" in any text. If it is None, an attribute
        ``postprocessing`` of a DataArray of `values` counts as said, which readers of post-processed files set.

    Attributes
    ----------
    values : numpy.ndarray
        Read-only; int64 under an integer law, float64 otherwise; 0 where nothing was published.
    unmeasured : numpy.ndarray of bool
        Read-only, of the same shape; True where nothing was published.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If labels do not match the query, a value is NaN without being stated as unmeasured, infinite, too
        large, or fractional under an integer law; or if the table was post-processed. The message names the
        cell.

    Examples
    --------
    >>> from bayesdp.noise import DiscreteGaussian
    >>> from bayesdp.queries import Identity
    >>> county = Identity({"county": ["Alpha", "Beta", "Gamma"]})
    >>> Measured(county, [12, -3, 40], DiscreteGaussian(sigma=5.0))
    <Measured: 3 answers by county, law discrete-gaussian sigma=5>
    >>> Measured(county, [12, np.nan, 40], DiscreteGaussian(sigma=5.0), unmeasured=["county=Beta"]).values
    array([12,  0, 40])
    """

    query: Query
    values: Values
    law: NoiseLaw
    invariants: Invariants | None
    name: str | None
    unmeasured: Mask

    def __init__(
        self,
        query: Query,
        values: Any,
        law: NoiseLaw,
        invariants: Invariants | Query | None = None,
        name: str | None = None,
        *,
        unmeasured: Any = None,
        postprocessing: str | None = None,
    ) -> None:
        checked_query(query)
        if not isinstance(law, NoiseLaw):
            raise TypeError(
                f"law must be a noise law such as DiscreteGaussian(sigma=5) or parse_law(...), got {law!r}; "
                "an exact answer is an Exact"
            )
        if name is not None and (not isinstance(name, str) or not name):  # type: ignore[redundant-expr]  # callers may pass anything
            raise TypeError(f"name must be a non-empty string, got {name!r}")
        if postprocessing is None and isinstance(values, xr.DataArray):
            postprocessing = values.attrs.get("postprocessing")
        if postprocessing not in (None, "none"):
            raise ValueError(refused(postprocessing, law.name))
        if invariants is not None and not isinstance(invariants, Invariants):
            invariants = Invariants(invariants)
        mask = unmeasured_mask(query, unmeasured)
        check_law(query, law, invariants, mask)
        checked = read_only(checked_noisy(query, values, law, mask))
        set_fields(
            self, query=query, values=checked, law=law, invariants=invariants, name=name, unmeasured=read_only(mask)
        )

    def on_frame(self, frame: Frame, invariants: Invariants | None = None) -> Measured:
        """The same measurement with the group labels of `frame`, and with the noise's invariants filled in.

        Parameters
        ----------
        frame : Frame
            Labels the same cells.
        invariants : Invariants, optional
            Used by lattice and projected laws whose own invariants were left open.
        """
        kept = self.invariants if self.law.keeps_invariants else None
        if kept is not None:
            kept = Invariants(on_frame(kept.query, frame), frame)
        elif self.law.keeps_invariants:
            kept = invariants
        query = on_frame(self.query, frame)
        if query is self.query and kept == self.invariants:
            return self
        return Measured(query, self.given, self.law, kept, self.name, unmeasured=self.unmeasured)

    @property
    def noise_invariants(self) -> Invariants | None:
        """What the noise leaves as it is, in terms of the answers; None for independent noise."""
        return None if self.invariants is None else self.invariants.through(self.query)

    @property
    def withheld(self) -> Mask:
        """Which answers were not published because they were under, or over, a threshold of the law: that much is known of them.

        Examples
        --------
        >>> from bayesdp.noise import Censored, Gaussian
        >>> from bayesdp.queries import Identity
        >>> cells = Identity({"county": ["Alpha", "Beta"]})
        >>> measured = Measured(cells, [9, 30.5], Censored(Gaussian(2.0), below=10))
        >>> measured.withheld, measured.published
        (array([ True, False]), array([ nan, 30.5]))
        """
        found = np.zeros(self.values.shape, dtype=np.bool_)
        for which in self.law.withheld(self.values).values():
            found |= which
        return found & ~self.unmeasured

    @property
    def published(self) -> Values:
        """The values as published: float64 with NaN where some were not, unmeasured or withheld; otherwise as stored."""
        return self._blank(self.unmeasured | self.withheld)

    @property
    def given(self) -> Values:
        """The values that make this measurement: as `values`, with NaN where nothing was measured."""
        return self._blank(self.unmeasured)

    def _blank(self, hidden: Mask) -> Values:
        return np.where(hidden, np.nan, self.values) if hidden.any() else self.values

    @property
    def labelled(self) -> xr.DataArray:
        """The published values as a labelled DataArray."""
        return _labelled(self.query, self.published, self.name or "noisy")

    @property
    def in_unit(self) -> xr.DataArray:
        """The published values as the real numbers that they stand for, labelled; see `LinearQuery.of_values`.

        Examples
        --------
        >>> from bayesdp.noise import DiscreteGaussian
        >>> from bayesdp.queries import LinearQuery
        >>> income = LinearQuery.of_values({"income": [12.5, 30.0]}, [[12.5, 30.0]], ["sum"], unit=0.5)
        >>> Measured(income, [171], DiscreteGaussian(sigma=20.0)).in_unit.values
        array([85.5])
        """
        return self.query.in_unit(self.labelled)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Measured)
            and (self.query, self.law, self.invariants, self.name)
            == (other.query, other.law, other.invariants, other.name)
            and np.array_equal(self.values, other.values)
            and np.array_equal(self.unmeasured, other.unmeasured)
        )

    def __hash__(self) -> int:
        return hash((self.query, self.law, self.values.tobytes()))

    def __repr__(self) -> str:
        hidden = int(self.unmeasured.sum())
        missing = "".join(f", {words}" for words in held_back(self))
        missing += f", {hidden} of them unmeasured" if hidden else ""
        return f"<Measured: {described(self.query)}{missing}, law {self.law}>"

"""Noisy answers of a query, with the law of their noise.

What may have been done to numbers after the noise was added, why that leaves them without a likelihood, and the way out.

How many answers of a measurement are known by a threshold only, in words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from bayesdp.frames import Frame
from bayesdp.invariants import Invariants
from bayesdp.measurements.exact import (
    Mask,
    Values,
    check_law,
    checked_noisy,
    described,
    on_frame,
    read_only,
    unmeasured_mask,
)
from bayesdp.noise.base import NoiseLaw
from bayesdp.queries import Query
from bayesdp.queries.query import checked_query


def held_back(measured: Measured) -> list[str]:
    """Phrases like "12 of them under 90", for answers of a law with thresholds; none for other laws.

    Examples
    --------
    >>> from bayesdp.measurements import Measured
    >>> from bayesdp.noise import Censored, Gaussian
    >>> from bayesdp.queries import Identity
    >>> cells = Identity({"county": ["Alpha", "Beta"]})
    >>> held_back(Measured(cells, [9, 30.5], Censored(Gaussian(2.0), below=10)))
    ['1 of them under 10']
    """
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
        "Use the numbers from before (such as noisy measurement files). True counts that were rounded, at random or not, with no "
        "other noise, follow a law of their own: state that law in place of this one",
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
    """Why numbers with this post-processing are refused, and what to do; a message.

    Parameters
    ----------
    stated : str
        What was done, in the words of the user or of a reader.
    law : str
        Name of the law that was stated.

    Examples
    --------
    >>> print(refused("consistent", "discrete-gaussian")[:90])
    postprocessing is 'consistent': making tables add up moves every number by a combination o
    """
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
        if name is not None:
            _check_name(name)
        if postprocessing is None and isinstance(values, xr.DataArray):
            postprocessing = values.attrs.get("postprocessing")
        if postprocessing not in (None, "none"):
            raise ValueError(refused(postprocessing, law.name))
        if invariants is not None and not isinstance(invariants, Invariants):
            invariants = Invariants(invariants)
        mask = unmeasured_mask(query, unmeasured)
        check_law(query, law, invariants, mask)
        object.__setattr__(self, "query", query)
        object.__setattr__(self, "values", read_only(checked_noisy(query, values, law, mask)))
        object.__setattr__(self, "law", law)
        object.__setattr__(self, "invariants", invariants)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "unmeasured", read_only(mask))

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
        name = self.name or "noisy"
        if self.query.is_identity:
            return self.query.frame.data_array(self.published, name)
        return xr.DataArray(self.published, dims=self.query.dims, coords=self.query.coords, name=name)

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


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not name:
        raise TypeError(f"name must be a non-empty string, got {name!r}")

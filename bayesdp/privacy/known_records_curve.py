"""How a guarantee about tables with the same exact answers decays while more and more records become known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bayesdp._validate import integer_array, positive_integer, shown
from bayesdp.fibers import Fiber
from bayesdp.fibers.fiber import ExactAnswers
from bayesdp.privacy.group import group_loss
from bayesdp.privacy.known_records import KnownRecords

__all__ = ["SideInformationCurve", "side_information_curve"]

type Ints = npt.NDArray[np.int64]
type Floats = npt.NDArray[np.float64]

_STEPS = 13
"""Numbers of known records of a curve, unless they are given."""


@dataclass(frozen=True, eq=False)
class SideInformationCurve:
    """How a guarantee decays with the number of known records. Made by `side_information_curve`; depends on the table.

    Attributes
    ----------
    known : int64 array, shape (k,)
        Numbers of known records.
    records : int
        Number of all records.
    adjacency : int
        a of the guarantee.
    unprotected, claims : float64 arrays, shape (orders, k)
        See `SideInformation`.
    parameter : int64 array, shape (orders, k)
        The semi-adjacent parameter of the remaining records, or its upper bound.
    """

    known: Ints
    records: int
    adjacency: int
    unprotected: Floats
    claims: Floats
    parameter: Ints

    def losses(self, loss: Mapping[str, float]) -> Floats:
        """The first parameter of a loss at the distances `parameter`, shape (orders, k); NaN where nothing is left to protect."""
        name = next(iter(loss))
        at = {a: group_loss(loss, a)[name] if a else np.nan for a in map(int, np.unique(self.parameter))}
        found: Floats = np.vectorize(at.__getitem__, otypes=[np.float64])(self.parameter)
        return found


def side_information_curve(
    exact: Fiber | Iterable[ExactAnswers],
    table: npt.ArrayLike,
    known: Iterable[int] | None = None,
    *,
    orders: int = 20,
    rng: np.random.Generator | int | None = None,
    adjacency: int | None = None,
    limit: int = 1000,
) -> SideInformationCurve:
    """How a guarantee decays as an adversary comes to know more records, in random orders.

    Parameters
    ----------
    exact, table, adjacency, limit
        As for `side_information`.
    known : iterable of int, optional
        Numbers of known records, each less than all; by default about thirteen, from none to all but one.
    orders : int
        Random orders in which records become known, all equally probable.
    rng : numpy.random.Generator, int or None
        Of the orders.

    Returns
    -------
    SideInformationCurve

    Raises
    ------
    TypeError, ValueError, NotImplementedError
        As `side_information`.

    Examples
    --------
    >>> from bayesdp.measurements import Exact
    >>> from bayesdp.queries import Margins
    >>> margins = Margins({"sex": ["F", "M"], "admitted": ["no", "yes"]}, ["sex"], ["admitted"])
    >>> table = [[4, 1], [2, 3]]
    >>> curve = side_information_curve([Exact(margins, margins.apply(table))], table, [0, 4, 9], orders=50, rng=1)
    >>> curve.unprotected.mean(axis=0).tolist(), (curve.claims.mean(axis=0) > [0.99, 0.8, -1]).tolist()
    ([0.0, 0.0, 1.0], [True, True, True])
    """
    start = KnownRecords.of(exact, table, adjacency, limit)
    records = int(start.table.sum())
    if known is None:
        numbers = np.unique(np.linspace(0, records - 1, _STEPS).astype(np.int64))
    else:
        numbers = integer_array(list(known), "known", minimum=0)
        if numbers.ndim != 1 or not numbers.size or np.any(numbers >= records):
            raise ValueError(
                f"known must hold numbers from 0 to {records - 1}, one less than all records, got {shown(numbers.tolist())}"
            )
    positive_integer(orders, "orders")
    source = np.random.default_rng(rng)
    people = np.repeat(np.arange(start.table.size), start.table)
    found = []
    for _ in range(orders):
        order = source.permutation(people)
        for count in numbers:
            taken = np.bincount(order[:count], minlength=start.table.size).reshape(start.fiber.frame.shape)
            found.append(start.knowing(taken))
    shape = (orders, len(numbers))
    upper = [own.parameter.upper for own in found]
    if None in upper:
        raise NotImplementedError(f"the loss is not known: {found[upper.index(None)].parameter}")
    return SideInformationCurve(
        numbers,
        records,
        start.adjacency,
        np.array([own.unprotected for own in found]).reshape(shape),
        np.array([own.claims for own in found]).reshape(shape),
        np.array(upper, dtype=np.int64).reshape(shape),
    )

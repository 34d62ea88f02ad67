"""Cells published in several tables under a law that gives one cell one value: counted once, and never with two values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bayesdp.measurements import Exact, Measured, described
from bayesdp.measurements.exact import has_negative_entry
from bayesdp.noise.base import NoiseLaw
from bayesdp.queries import MatrixPart, rows_of
from bayesdp.queries.parts import ONE

type Key = tuple[bytes, bytes, Fraction, NoiseLaw]
"""Cells and weights of an answer, its unit, and its law."""

_MOST_NAMED = 3


class CountedOnceWarning(UserWarning):
    """A cell was published several times with one perturbation, and is counted once."""


def check_one_value(measurements: Iterable[Measured], exact: Iterable[Exact] = ()) -> None:
    """Check that no cell has two values under a law that gives one cell one value."""
    # `measurements`: about one table. `exact`: what is known of it exactly: cells that are known to be empty are in no answer.
    counted_once(measurements, exact=exact)


def counted_once(
    measurements: Iterable[Measured], earlier: Iterable[Measured] = (), exact: Iterable[Exact] = ()
) -> tuple[tuple[Measured, ...], str | None]:
    """Measurements in which no cell counts twice that has one perturbation.

    Offices that perturb by cell keys give a cell, that is the same records, the same perturbation in each table that it is
    published in (`NoiseLaw.same_cell_same_value`): the second time it says nothing new. Two answers are the same cell if they are
    the same linear combination of the table: a margin of an axis with one label, a table or a total published twice, a total whose
    other cells are known to be empty. Where cells may be empty, the likelihood says what that means (`bayesdp.noise.base`).
    Measurements with independent noise are left as they are, equal or not: these are two measurements.

    Parameters
    ----------
    measurements : iterable of Measured
    earlier : iterable of Measured
        What is known already, about the same table.
    exact : iterable of Exact
        What is known of it exactly.

    Returns
    -------
    measurements : tuple of Measured
        Those given, with answers that are there before as unmeasured; those with no answer left are left out.
    said : str or None
        Which cells are counted once, in a sentence; None where there are none.


    Examples
    --------
    Noise of the law below is independent, so that nothing is taken for a copy:

    >>> from bayesdp.noise import DiscreteGaussian
    >>> from bayesdp.queries import Totals
    >>> total = Measured(Totals({"county": ["Alpha", "Beta"]}), 12, DiscreteGaussian(sigma=2.0))
    >>> kept, said = counted_once([total, total])
    >>> len(kept), said
    (2, None)
    """
    first: dict[Key, tuple[float, Measured]] = {}
    measurements, earlier = list(measurements), list(earlier)
    keyed = any(measured.law.same_cell_same_value for measured in (*measurements, *earlier))
    empty = _known_empty(exact if keyed else ())
    for known in earlier:
        for _, key, value in _answers(known, empty):
            first.setdefault(key, (value, known))
    kept, said = list[Measured](), list[str]()
    for measured in measurements:
        copies = []
        for place, key, value in _answers(measured, empty):
            if key not in first:
                first[key] = value, measured
                continue
            before, where = first[key]
            if before != value:
                raise ValueError(_two_values(measured, place, value, where, before))
            copies.append(place)
        kept += [measured] if not copies else _without(measured, copies)
        said += [] if not copies else [_words(measured, copies)]
    if not said:
        return tuple(kept), None
    return tuple(kept), (
        f"{'; '.join(said)}. By the law one cell has one perturbation in all tables that it is published in, so that a second "
        "table with the same number says nothing new: it is counted once"
    )


def _known_empty(exact: Iterable[Exact]) -> npt.NDArray[np.int64]:
    """Cells of sums of counts that are exactly 0, or at most."""
    found = [np.zeros(0, dtype=np.int64)]
    for part in exact:
        if part.sign != ">=":
            none = (part.values.reshape(-1) == 0) & ~has_negative_entry(part.query)
            if none.any():
                found.append(part.query.matrix[np.flatnonzero(none)].nonzero()[1].astype(np.int64))
    return np.unique(np.concatenate(found))


def _answers(measured: Measured, empty: npt.NDArray[np.int64]) -> Iterator[tuple[int, Key, float]]:
    """Place, key and value of the published answers of a measurement whose law gives one cell one value."""
    if not measured.law.same_cell_same_value:
        return
    query, law = measured.query, measured.law
    published, values = ~measured.unmeasured.reshape(-1), measured.values.reshape(-1)
    place = 0
    for part in query.parts:
        unit = part.unit if isinstance(part, MatrixPart) else ONE
        held = part.matrix
        if empty.size:
            others = held.copy()
            others.data[np.isin(others.indices, empty)] = 0
            alone = abs(others).sum(axis=1) == 0  # about nobody: told apart by their cells
            held = others + held.multiply(np.asarray(alone).reshape(-1, 1)).tocsr()
        for row in rows_of(sp.csr_array(held)):
            if published[place]:
                yield place, (*row, unit, law.of_answer(place, query.shape)), values[place].item()
            place += 1


def _without(measured: Measured, places: Sequence[int]) -> list[Measured]:
    """The measurement with some answers unmeasured; nothing where none is left."""
    hidden = measured.unmeasured.reshape(-1).copy()
    hidden[list(places)] = True
    if hidden.all():
        return []
    mask = hidden.reshape(measured.unmeasured.shape)
    values = np.where(mask, np.nan, measured.values)
    return [Measured(measured.query, values, measured.law, measured.invariants, measured.name, unmeasured=mask)]


def _words(measured: Measured, places: Sequence[int]) -> str:
    named = ", ".join(measured.query.answer_name(place) for place in places[:_MOST_NAMED])
    more = f" and {len(places) - _MOST_NAMED} more" if len(places) > _MOST_NAMED else ""
    return f"{len(places)} of the {_table(measured)} published before with the same value ({named}{more})"


def _two_values(measured: Measured, place: int, value: float, where: Measured, before: float) -> str:
    return (
        f"{measured.query.answer_name(place)} is published with two values, {before} in the {_table(where)} and {value} in the "
        f"{_table(measured)}; but by the law {measured.law.name!r} one cell has one perturbation in all tables. Either a number is "
        "wrong, the tables are of different versions, or they are about different records (another population, another date): then "
        "they are no answers about one table"
    )


def _table(measured: Measured) -> str:
    return described(measured.query) + ("" if measured.name is None else f" named {measured.name!r}")

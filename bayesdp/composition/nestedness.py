"""Whether the invariants of one release follow from those of another."""

from __future__ import annotations

from bayesdp.invariants import Invariants


def is_nested(inner: Invariants, outer: Invariants) -> bool:
    """Whether what `inner` leaves free is left free by `outer` too: ``null(inner)`` lies in ``null(outer)``.

    Then every mechanism that is subspace differentially private for `outer` is so for `inner`, at the same loss.
    Decided by ranks in exact arithmetic: the rows of `outer` add nothing to those of `inner`.

    Parameters
    ----------
    inner, outer : Invariants
        Of one table. `inner` keeps more exact.

    Returns
    -------
    bool

    Raises
    ------
    ValueError
        If they are about different tables.

    References
    ----------
    Gao, Gong and Yu (2022), Subspace Differential Privacy, Proposition 2.7.

    Examples
    --------
    >>> from bayesdp.queries import Margins, Totals
    >>> table = {"county": ["Alpha", "Beta"], "education": ["Low", "High"]}
    >>> margin, total = Invariants(Margins(table, ["county"])), Invariants(Totals(table))
    >>> is_nested(margin, total), is_nested(total, margin)
    (True, False)
    """
    for value, argument in ((inner, "inner"), (outer, "outer")):
        if not isinstance(value, Invariants):
            raise TypeError(f"{argument} must be an Invariants, got {type(value).__name__}")
    if not inner.frame.same_cells(outer.frame):
        raise ValueError("inner and outer must be about one table (same dimensions and labels)")
    both = Invariants([inner.query, outer.query], inner.frame)
    return both.rank == inner.rank

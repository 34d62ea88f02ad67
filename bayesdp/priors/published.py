"""The one thing that the default priors take from a release: how large its counts are on average."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bayesdp.queries import Query, SumPart
    from bayesdp.release import Release


def published_mean(release: Release) -> float:
    """The average count of a cell, as far as published numbers tell.

    The exact grand total, or the sum of exact values that cover the whole table, over the number of cells.
    Without one, the average of a noisy measurement that covers the table. At least 1, so that it can be the
    mean of a prior; 1 if nothing covers the table.

    Parameters
    ----------
    release : Release
        What was published.

    Returns
    -------
    float
        In counts.

    Examples
    --------
    >>> import bayesdp as bdp
    >>> table = {"county": ["Alpha", "Beta"]}
    >>> published_mean(bdp.Release.from_published(table, exact=[bdp.Exact(bdp.Totals(table), 135)]))
    67.5
    """
    for part in release.exact:
        if part.sign == "=" and (first := _covering(part.query)) is not None:
            return max(float(part.values.reshape(-1)[: first.rows].sum()) / release.frame.size, 1.0)
    for measured in release.measurements:
        first = _covering(measured.query)
        if first is not None:
            values, hidden = measured.values.reshape(-1)[: first.rows], measured.unmeasured.reshape(-1)[: first.rows]
            if not hidden.all():
                # Unpublished answers are taken to be like the others.
                return max(float(values[~hidden].mean()) * first.rows / release.frame.size, 1.0)
    return 1.0


def _covering(query: Query) -> SumPart | None:
    """The first part of a query if it is a sum: its answers then add up to the total."""
    from bayesdp.queries import SumPart

    first = query.parts[0]
    return first if isinstance(first, SumPart) else None

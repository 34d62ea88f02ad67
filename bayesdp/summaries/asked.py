"""Which totals of a table a summary reports."""

from __future__ import annotations

from typing import Any

from bayesdp.queries import Query, SumPart
from bayesdp.release import Release


def totals_of(release: Release) -> list[Query]:
    """Totals that are reported: what was asked besides the cells, one-way margins, groups, the grand total.

    Parameters
    ----------
    release : Release

    Returns
    -------
    list of Query
        Each of one part; none for statistics, whose sum means nothing.

    Examples
    --------
    >>> from bayesdp.measurements import Exact
    >>> from bayesdp.queries import Totals
    >>> table = {"county": ["Alpha", "Beta"], "education": ["Low", "High"]}
    >>> [query.dims for query in totals_of(Release.from_published(table, exact=[Exact(Totals(table), 20)]))]
    [(), ('county',), ('education',)]
    """
    if release.about == "statistics":
        return []
    frame = release.frame
    queries = [own.query for own in release.exact] + [own.query for own in release.measurements]
    asked = [part for query in queries for part in query.parts]
    one_way = [SumPart(frame, (dim,)) for dim in frame.dims] if len(frame.dims) > 1 else []
    groups = [SumPart(frame, (name,)) for name, _, labels in frame.groups if len(set(labels)) > 1]
    wanted: list[Any] = []
    for part in (*asked, *one_way, *groups, SumPart(frame, ())):
        whole = isinstance(part, SumPart) and part.keep == frame.dims
        if not whole and part not in wanted:
            wanted.append(part)
    return [Query(frame, (part,)) for part in wanted]

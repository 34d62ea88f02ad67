"""Checks of the parts of a release against one another."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bayesdp._validate import shown
from bayesdp.frames import Frame
from bayesdp.measurements import Exact, Measured


def listed[T](items: Any, kind: type[T], argument: str) -> tuple[T, ...]:
    if isinstance(items, (Measured, Exact)):
        raise TypeError(f"{argument} must be a list of {kind.__name__}, got a single {type(items).__name__}")
    listed = tuple(items)
    for item in listed:
        if not isinstance(item, kind):
            raise TypeError(f"{argument} must hold {kind.__name__} only, got {type(item).__name__}")
    return listed


def check_statistics(measurements: tuple[Measured, ...], exact: tuple[Exact, ...]) -> None:
    """Statistics are any real numbers: nothing is exact about them, and no law keeps their totals."""
    if exact:
        raise ValueError(f"a release of statistics has no exact parts, got {shown([repr(part) for part in exact], 2)}")
    for part in measurements:
        if part.law.keeps_invariants:
            raise ValueError(
                f"a release of statistics needs laws of independent noise, or laws within bounds, got {part.law.name!r}, which keeps "
                "invariants of a table of counts"
            )


def check_counts(measurements: tuple[Measured, ...]) -> None:
    """Shares are no counts: their law is around proportions; nor are vectors of statistics whose noise has one radius."""
    for part in measurements:
        if part.law.support == "simplex":
            raise ValueError(
                f"the law {part.law.name!r} is that of shares that add up to 1, which are no counts: state about='statistics'"
            )
        if part.law.support == "vectors":
            raise ValueError(
                f"the law {part.law.name!r} is noise of a vector of statistics, which are no counts: state about='statistics'"
            )


def check_same_table(theirs: Frame, frame: Frame, part: Measured | Exact) -> None:
    """Check that a part is about the release's table; name the first difference."""
    if theirs.same_cells(frame):
        return
    if theirs.dims != frame.dims:
        raise ValueError(f"{part!r} is about a table with dimensions {theirs.dims}, the release about {frame.dims}")
    for dim, own, other in zip(frame.dims, frame.labels, theirs.labels, strict=True):
        odd = sorted(set(own) ^ set(other), key=str)
        if odd:
            raise ValueError(f"{part!r} and the release have different labels of {dim!r}: {shown(odd)}")
    raise ValueError(f"{part!r} has the release's labels in another order; build all queries on one frame")


def with_groups(frame: Frame, others: Iterable[Frame]) -> Frame:
    """The frame with the group labels of all the parts."""
    groups = {name: (dim, labels) for name, dim, labels in frame.groups}
    for other in others:
        for name, dim, labels in other.groups:
            if groups.setdefault(name, (dim, labels)) != (dim, labels):
                raise ValueError(f"the parts of the release disagree on the group labels {name!r} of {dim!r}")
    merged = tuple((name, dim, labels) for name, (dim, labels) in groups.items())
    return frame if merged == frame.groups else Frame(frame.dims, frame.labels, merged)

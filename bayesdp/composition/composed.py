"""What several releases of one confidential table are, taken together."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from bayesdp._text import printable
from bayesdp.composition.nestedness import is_nested
from bayesdp.fibers import Fiber
from bayesdp.invariants import Invariants
from bayesdp.privacy import Difference, Guarantee, SemiAdjacency, semi_adjacency
from bayesdp.release import Release

_WIDTH = 100
_NAMED = 10
"""Cells that the text names."""


@dataclass(frozen=True, eq=False)
class Composition:
    """Several releases of one table, taken together. Made by `compose`.

    Attributes
    ----------
    releases : tuple of Release
        As they were given.
    release : Release
        All measurements and exact parts as one release, for inference, with the total guarantee.
    differences : tuple of Difference
        The smallest kinds of difference between two tables that no release's invariants tell apart. Where general
        invariants make the search too long it is empty.
    loss_unknown : str or None
        Why there is no total guarantee, where there is none.
    """

    releases: tuple[Release, ...]
    release: Release
    differences: tuple[Difference, ...]
    loss_unknown: str | None = None

    @property
    def invariants(self) -> Invariants:
        """The equalities of all releases as one linear map."""
        return self.release.invariants

    @property
    def fiber(self) -> Fiber:
        """All tables of counts that agree with the exact parts of all releases."""
        return self.release.fiber

    @property
    def guarantee(self) -> Guarantee | None:
        """The total loss for pairs of tables that agree on all invariants; None where a release states no loss."""
        return self.release.guarantee

    @property
    def rank(self) -> int:
        """The rank of the joint invariants."""
        return self.invariants.rank

    @property
    def ranks(self) -> tuple[int, ...]:
        """The rank of the invariants of each release."""
        return tuple(own.invariants.rank for own in self.releases)

    @cached_property
    def semi_adjacency(self) -> SemiAdjacency:
        """How many records change when one does and all exact answers stay: in both conventions, or why that is not known.

        See `bayesdp.privacy.semi_adjacency`. Each release alone may need fewer.
        """
        return semi_adjacency(self.fiber)

    @cached_property
    def narrowed(self) -> npt.NDArray[np.bool_]:
        """Cells whose range of possible counts the combination makes smaller than each release alone, shape ``(*table)``."""
        lower, upper = _limits(self.release)
        alone = [_limits(own) for own in self.releases]
        return np.asarray(
            (lower > np.max([low for low, _ in alone], axis=0)) | (upper < np.min([high for _, high in alone], axis=0))
        )

    @cached_property
    def newly_determined(self) -> npt.NDArray[np.bool_]:
        """Cells with one possible count only, which no release determines alone, shape ``(*table)``."""
        alone = np.any([own.fiber.determined() for own in self.releases], axis=0)
        return np.asarray(self.fiber.determined() & ~alone)

    @property
    def determined_cells(self) -> tuple[str, ...]:
        """Labels of the cells with one possible count only: nothing protects them."""
        return self._labels(self.fiber.determined())

    @property
    def newly_determined_cells(self) -> tuple[str, ...]:
        """Labels of the cells that only the combination determines."""
        return self._labels(self.newly_determined)

    def _labels(self, which: npt.NDArray[np.bool_]) -> tuple[str, ...]:
        return tuple(self.release.frame.exact_cell_name(int(cell)) for cell in np.flatnonzero(which))

    def __str__(self) -> str:
        last = str(self.guarantee) if self.guarantee is not None else f"Total loss: {self.loss_unknown}"
        if self.release.about == "statistics":
            size = self.release.frame.size
            what = "1 statistic" if size == 1 else f"{size} statistics"
            return f"Composition of {len(self.releases)} releases of {what}\n{last}"
        frame, free = self.release.frame, self.invariants.dimension
        sizes = " × ".join(map(str, frame.shape))
        lines = [
            f"Composition of {len(self.releases)} releases of a table {printable(' × '.join(frame.dims))} ({sizes} cells)"
        ]
        for number, own in enumerate(self.releases, start=1):
            joint = is_nested(own.invariants, self.invariants)
            more = "; the other invariants follow from these" if joint else ""
            lines.append(
                f"release {number}: rank {own.invariants.rank}, {own.invariants.dimension} dimensions free{more}"
            )
        lines.append(f"together: rank {self.rank}, {free} dimensions free")
        if not free:
            lines.append(
                "The invariants determine the whole table: no two tables agree on them, and nothing is protected."
            )
        elif self.differences:
            lines.append("Smallest differences that keep all invariants:")
            lines += [f"  - {own.relation}; l1 {own.l1:.6g}, l2 {own.l2:.6g}" for own in self.differences]
        else:
            lines.append("Smallest differences that keep all invariants: not searched for, the table is too large.")
        adjacency_text = str(self.semi_adjacency)
        lines.append(adjacency_text[0].upper() + adjacency_text[1:])
        least = "" if self.fiber.determined_is_complete else "at least "
        determined, new = self.determined_cells, self.newly_determined_cells
        lines.append(f"Cells with one possible count: {least}{len(determined)} of {frame.size}{_named(determined)}")
        lines.append(f"  of these, determined only by the combination: {len(new)}{_named(new)}")
        lines.append(f"Cells whose range the combination makes smaller: {int(self.narrowed.sum())}")
        text = [textwrap.fill(line, _WIDTH, subsequent_indent="      ") for line in lines]
        return "\n  ".join(text) + "\n" + textwrap.indent(last, "  ")

    def __repr__(self) -> str:
        free = self.invariants.dimension
        return f"<Composition of {len(self.releases)} releases: rank {self.rank} from {self.ranks}, {free} dimensions free>"


def _limits(release: Release) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    lower, upper = release.fiber.bounds()
    return lower.astype(np.float64), np.where(upper < 0, np.inf, upper)


def _named(cells: Sequence[str]) -> str:
    if not cells:
        return ""
    more = f", ... ({len(cells) - _NAMED} more)" if len(cells) > _NAMED else ""
    return ": " + "; ".join(map(printable, cells[:_NAMED])) + more

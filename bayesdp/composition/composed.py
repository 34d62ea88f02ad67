"""Several releases of one confidential table, taken together."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from bayesdp._validate import shown
from bayesdp.composition._losses import common_kind, loss_of, neighbour_loss, total
from bayesdp.composition.nestedness import is_nested
from bayesdp.fibers import Fiber
from bayesdp.invariants import Invariants
from bayesdp.mechanisms._differences import kept_differences
from bayesdp.privacy import EXACT_SAMPLER, Difference, Guarantee, PairLoss
from bayesdp.queries import Totals
from bayesdp.release import Release

__all__ = ["Composition", "compose"]

_WIDTH = 100
_NAMED = 10
"""Cells that the text names."""

_JOINT = (
    "This is the composition of {count} releases. Only pairs of tables that agree on the invariants of all of them are "
    "protected, which are fewer than each release protects alone."
)
_RELATIONS = {
    "substitution": ("one record changes its cell (substitution)", Difference("substitution", 2.0, 2.0**0.5)),
    "add-remove": ("one record is added or removed (add-remove)", Difference("add-remove", 1.0, 1.0)),
}


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
        return tuple(self.release.frame.cell_name(int(cell)) for cell in np.flatnonzero(which))

    def __str__(self) -> str:
        frame, free = self.release.frame, self.invariants.dimension
        sizes = " × ".join(map(str, frame.shape))
        lines = [f"Composition of {len(self.releases)} releases of a table {' × '.join(frame.dims)} ({sizes} cells)"]
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
        least = "" if self.fiber.bounds_are_exact else "at least "
        determined, new = self.determined_cells, self.newly_determined_cells
        lines.append(f"Cells with one possible count: {least}{len(determined)} of {frame.size}{_named(determined)}")
        lines.append(f"  of these, determined only by the combination: {len(new)}{_named(new)}")
        lines.append(f"Cells whose range the combination makes smaller: {int(self.narrowed.sum())}")
        text = [textwrap.fill(line, _WIDTH, subsequent_indent="      ") for line in lines]
        last = str(self.guarantee) if self.guarantee is not None else f"Total loss: {self.loss_unknown}"
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
    return ": " + "; ".join(cells[:_NAMED]) + more


def compose(*releases: Release, delta: float | None = None) -> Composition:
    """Put several releases of one confidential table together, and say what they protect and reveal together.

    Each release protects pairs of tables that agree on its own invariants. Together they protect only pairs that agree
    on all of them (Proposition 2.9), and their invariants may determine cells that no release determines alone: the
    paper compares it with a linkage attack. The noise of the releases must be independent.

    Losses add: epsilon and delta by sums, rho by its sum, mu by the root of the sum of squares. Pure and approximate
    losses together are approximate; mu beside epsilon becomes epsilon at `delta`, by the exact profile of the Gaussian
    mechanism. Others are not mixed. The loss for a particular difference between two tables comes from the law of the
    noise where that is known on the cells, else from as many steps of one record as the difference takes.

    Parameters
    ----------
    *releases : Release
        At least two, about the same cells.
    delta : float, optional
        Only to put mu and epsilon together.

    Returns
    -------
    Composition
        Print it.

    Raises
    ------
    TypeError
        If an argument is no release.
    ValueError
        If there are fewer than two, one is given twice, they are about different tables, their exact parts
        contradict one another or leave no table of counts (the rows are named), or their losses cannot be added.

    References
    ----------
    Gao, Gong and Yu (2022), Subspace Differential Privacy, Proposition 2.9.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesdp.mechanisms import ProjectedGaussian
    >>> from bayesdp.queries import Margins
    >>> labels = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "High"]}
    >>> rng = np.random.default_rng(1)
    >>> table = [[5, 3], [2, 7], [4, 4]]
    >>> by_county = ProjectedGaussian(Margins(labels, ["county"]), mu=0.3).release(table, rng)
    >>> by_education = ProjectedGaussian(Margins(labels, ["education"]), mu=0.4).release(table, rng)
    >>> both = compose(by_county, by_education)
    >>> both
    <Composition of 2 releases: rank 4 from (3, 2), 2 dimensions free>
    >>> print(f"{both.guarantee.pairs[0].loss['mu']:.4f}")  # neighbouring tables
    0.5000
    """
    _check(releases)
    frame = releases[0].frame
    exact = tuple(dict.fromkeys(part for own in releases for part in own.exact))
    measurements = tuple(part for own in releases for part in own.measurements)
    try:
        joint = Release(frame, measurements, exact, simulated=any(own.simulated for own in releases))
        joint.check_feasible()
    except ValueError as error:
        raise ValueError(f"the releases do not fit together: {error}") from error
    differences = kept_differences(joint.invariants) if joint.invariants.dimension else ()
    guarantee, unknown = _guarantee(releases, joint, differences, delta)
    if guarantee is not None:
        joint = Release(frame, measurements, exact, guarantee=guarantee, simulated=joint.simulated)
    return Composition(releases, joint, differences, unknown)


def _check(releases: tuple[Release, ...]) -> None:
    for number, own in enumerate(releases, start=1):
        if not isinstance(own, Release):
            raise TypeError(f"releases must be Release objects, but number {number} is a {type(own).__name__}")
    if len(releases) < 2:
        raise ValueError(f"compose needs at least two releases, got {len(releases)}")
    first = releases[0].frame
    for number, own in enumerate(releases[1:], start=2):
        if not own.frame.same_cells(first):
            odd = [
                dim
                for dim in dict.fromkeys((*first.dims, *own.frame.dims))
                if dim not in first.dims
                or dim not in own.frame.dims
                or first.labels_of(dim) != own.frame.labels_of(dim)
            ]
            raise ValueError(
                f"all releases must be about one table, but release {number} differs from release 1 in "
                f"{shown(odd) if odd else 'the order of its dimensions'} (labels, or their order)"
            )
        twice = next((k for k, other in enumerate(releases[: number - 1], start=1) if other == own), None)
        if twice is not None and own.measurements:
            raise ValueError(f"release {number} is release {twice} again: its noise would be counted twice")


def _guarantee(
    releases: Sequence[Release], joint: Release, differences: Sequence[Difference], delta: float | None
) -> tuple[Guarantee | None, str | None]:
    """The total guarantee, or why there is none."""
    noisy = [own for own in releases if own.measurements]
    silent = [str(k) for k, own in enumerate(releases, start=1) if own.measurements and own.guarantee is None]
    if silent:
        return None, f"unknown, because no loss is stated by release {', '.join(silent)}"
    if not joint.invariants.dimension:
        return None, "none can be stated, because no two tables agree on all invariants"
    if not noisy:
        return None, "none, because nothing is released but exact values"
    stated = [own.guarantee for own in noisy if own.guarantee is not None]
    kind = common_kind(stated, delta)
    unit = stated[0].unit if len({own.unit for own in stated}) == 1 else "l1"
    rows: list[PairLoss] = []
    neighbours = [neighbour_loss(own) for own in noisy]
    relations = {found[0] for found in neighbours if found is not None}
    if None not in neighbours and len(relations) == 1:
        words, apart = _RELATIONS[relations.pop()]
        losses = [(g.kind, found[1]) for g, found in zip(stated, neighbours, strict=True) if found is not None]
        told = f"neighbouring tables, in what the joint invariants leave free: {words}"
        rows.append(PairLoss(told, apart.size(unit), unit, total(losses, kind, delta)))
    sums = is_nested(joint.invariants, Invariants(Totals(joint.frame)))
    for difference in differences:
        found = [loss_of(own, difference, total_is_exact=sums) for own in noisy]
        known = [own for own in found if own is not None]
        if len(known) == len(found):
            rows.append(PairLoss(difference.relation, difference.size(unit), unit, total(known, kind, delta)))
    if not rows:
        return None, "unknown, because the losses of the releases refer to differences that cannot be compared"
    samplers = list(dict.fromkeys(own.sampler for own in stated if own.sampler != EXACT_SAMPLER))
    caveats = [_JOINT.format(count=len(releases)), *_caveats(releases)]
    if len(samplers) > 1:
        caveats.append(f"The noise of other releases: {'; '.join(samplers[1:])}.")
    determined = np.flatnonzero(joint.fiber.determined())
    return (
        Guarantee(
            kind,
            {**rows[0].loss, "sensitivity": rows[0].size},
            unit,
            tuple(rows),
            determined_cells=tuple(joint.frame.cell_name(int(cell)) for cell in determined),
            sampler=samplers[0] if samplers else EXACT_SAMPLER,
            simulated=joint.simulated,
            caveats=tuple(dict.fromkeys(caveats)),
        ),
        None,
    )


def _caveats(releases: Sequence[Release]) -> list[str]:
    """The caveats of all releases; those that not all of them have say whose they are."""
    of = {k: own.guarantee.caveats for k, own in enumerate(releases, start=1) if own.guarantee is not None}
    lines = dict.fromkeys(line for own in of.values() for line in own)
    holders = {line: [k for k, own in of.items() if line in own] for line in lines}
    return [
        line if len(holders[line]) == len(of) else f"Release {', '.join(map(str, holders[line]))}: {line}"
        for line in lines
    ]

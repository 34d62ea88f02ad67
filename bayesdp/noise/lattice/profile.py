r"""The exact (epsilon, delta) profile of lattice Gaussian noise at a difference of two tables, with bounds on both sides.

For noise z and a difference u of the lattice the loss is ``(||u||**2 + 2 <z, u>) / (2 sigma**2)``: a function of ``<z, u>``, whose
law is that of a discrete Gaussian in steps of g (`bayesdp.noise.lattice.linear`). In these steps u is a shift by ``||u||**2 /
g``, and scale and shift give the same loss. So delta is that of the one-dimensional discrete Gaussian of scale ``sigma ||u|| /
g`` at that shift, up to the factor between `spread` and ``1 / spread``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from bayesdp.invariants import Invariants
from bayesdp.lattices.parts import General, Line, Table, lattice_parts
from bayesdp.noise.base import Ints
from bayesdp.noise.lattice.linear import linear_law
from bayesdp.privacy import (
    Difference,
    PairLoss,
    discrete_gaussian_delta,
    discrete_gaussian_epsilon,
    gaussian_pairs,
    rho_to_delta,
    rho_to_epsilon,
)
from bayesdp.privacy.losses import ZCDP, ApproximateDP
from bayesdp.privacy.stated_losses import all_of


@dataclass(frozen=True)
class LatticeProfile:
    """The profile of lattice Gaussian noise at one difference.

    Parameters
    ----------
    scale : float
        Of the one-dimensional discrete Gaussian.
    shift : int
        By how many steps the difference moves it.
    spread : float
        Every delta is its delta up to a factor between `spread` and ``1 / spread``.

    Examples
    --------
    A 2x2 move under both margins, at sigma = 2: noise along one vector, so that the profile is exact.

    >>> LatticeProfile(scale=1.0, shift=1, spread=1.0).delta(1.0)
    (0.14135133..., 0.14135133...)
    """

    scale: float
    shift: int
    spread: float

    def delta(self, epsilon: float) -> tuple[float, float]:
        """A lower and an upper bound of the smallest delta at which the two tables are (epsilon, delta)-indistinguishable."""
        found = discrete_gaussian_delta(epsilon, self.scale, self.shift)
        above = min(1.0, found / self.spread) if self.spread else 1.0
        return found * self.spread, min(above, rho_to_delta(self._rho, epsilon))

    def epsilon(self, delta: float) -> tuple[float, float]:
        """A lower and an upper bound of the smallest epsilon at a delta."""
        known = rho_to_epsilon(self._rho, delta)
        if not self.spread:
            return 0.0, known
        above = discrete_gaussian_epsilon(delta * self.spread, self.scale, self.shift)
        least = delta / self.spread
        below = discrete_gaussian_epsilon(least, self.scale, self.shift) if least < 1.0 else 0.0
        return below, min(above, known)

    @property
    def _rho(self) -> float:
        """The loss in zCDP."""
        return 0.5 * (self.shift / self.scale) ** 2


def lattice_profiles(invariants: Invariants, difference: Difference, sigma: float) -> tuple[LatticeProfile, ...] | None:
    """The profiles of all differences of a kind: one for each part of the lattice that has such differences.

    Parameters
    ----------
    invariants : Invariants
    difference : Difference
        A kind whose entries are 0, 1 and -1: a substitution, a 2x2 move, a 3-cycle, a 2x2x2 move.
    sigma : float

    Returns
    -------
    tuple of LatticeProfile or None
        None where the kind is not known to be the same difference everywhere up to the symmetry of the lattice: in parts that
        are no tables, and for differences that may reach into several parts.

    Notes
    -----
    In a table of one way, all vectors with the same number of entries 1 and -1 are alike up to the order of labels. With two
    ways and both sums zero, those with 4 entries are 2x2 moves, and those with 6 are 3-cycles; with three ways and all sums over
    one way zero, those with 8 entries are 2x2x2 moves.

    Examples
    --------
    >>> from bayesdp.privacy import DIFFERENCES
    >>> from bayesdp.queries import Margins
    >>> table = {"county": list("abcd"), "education": list("wxyz")}
    >>> [own] = lattice_profiles(Invariants(Margins(table, ["county"], ["education"])), DIFFERENCES["2x2 move"], 5.0)
    >>> print(own.shift, f"{own.scale:.6g} {1 - own.spread:.1e}")
    4 10 0.0e+00
    """
    entries = round(difference.l1)
    if difference.l1 != entries or not math.isclose(difference.l2**2, entries) or difference.found:
        return None
    kinds: dict[tuple[object, ...], Line | Table] = {}
    for part in lattice_parts(invariants):
        if isinstance(part, General) or 2 * _fewest(part) <= entries:
            return None
        kinds[_key(part)] = part
    found = []
    for part in kinds.values():
        if entries < _fewest(part) or entries % (part.copies if isinstance(part, Table) else 1):
            continue  # it has no such vector
        if isinstance(part, Line):
            own = part.entries if np.all(np.abs(part.entries) == 1) and part.entries.size == entries else None
        else:
            own = _vector(part.shape, entries // part.copies)
            if own is None:
                return None
        if own is None:
            continue
        vector = np.zeros(invariants.frame.size, dtype=np.int64)
        vector[part.cells] = own if isinstance(part, Line) else part.signs * own
        law = linear_law(invariants, vector, sigma)
        if law is None:
            return None
        found.append(LatticeProfile(law.scale, entries // law.step, law.spread))
    return tuple(found)


def lattice_pairs(
    invariants: Invariants, sigma: float, differences: tuple[Difference, ...], delta: float | None
) -> tuple[PairLoss, ...]:
    """Rows of a guarantee as `bayesdp.privacy.gaussian_pairs` makes them, with the smaller epsilon where the profile is known.

    Examples
    --------
    >>> from bayesdp.privacy import DIFFERENCES
    >>> from bayesdp.queries import Totals
    >>> three = Invariants(Totals({"county": ["Alpha", "Beta", "Gamma"]}))
    >>> [row] = lattice_pairs(three, 6.0, (DIFFERENCES["substitution"],), 1e-6)
    >>> print(f"{row.loss['epsilon']:.4f}, in place of {rho_to_epsilon(row.loss['rho'], 1e-6):.4f}")
    0.9954, in place of 1.0730
    """
    rows = gaussian_pairs(sigma, differences, delta=delta)
    if delta is None:
        return rows
    found = []
    for row, difference in zip(rows, differences, strict=True):
        profiles = lattice_profiles(invariants, difference, sigma)
        if profiles:
            exact = max(own.epsilon(delta)[1] for own in profiles)
            row = replace(row, loss=all_of([ZCDP(row.loss["rho"]), ApproximateDP(exact, delta)]))
        found.append(row)
    return tuple(found)


def _key(part: Line | Table) -> tuple[object, ...]:
    """Parts with the same key are one lattice up to the names of their cells."""
    if isinstance(part, Line):
        return ("line", *np.sort(np.abs(part.entries)).tolist())
    return "table", part.shape, part.copies


def _fewest(part: Line | Table) -> int:
    """The least number of cells that a vector of the part changes."""
    return part.entries.size if isinstance(part, Line) else part.copies * 2 ** len(part.shape)


def _vector(shape: tuple[int, ...], entries: int) -> Ints | None:
    """The only table up to symmetry with so many entries 1 and -1, others 0, and sums of zero; None where it is not known."""
    table = np.zeros(shape, dtype=np.int64)
    if len(shape) == 1 and entries % 2 == 0 and entries <= shape[0]:
        table[: entries // 2], table[entries // 2 : entries] = 1, -1
        return table
    if entries == 2 ** len(shape):
        for corner in product((0, 1), repeat=len(shape)):
            table[corner] = (-1) ** sum(corner)
        return table
    if len(shape) == 2 and entries == 6:  # ways have three labels or more
        for i in range(3):
            table[i, i], table[i, (i + 1) % 3] = 1, -1
        return table
    return None

"""What a mechanism costs for a given pair of neighbouring tables.

With fixed invariants, two tables can only differ by a ``u`` that changes none of them. How much a
mechanism reveals about the difference depends on the size of ``u``, so a guarantee is a list of rows:
a relation in words, the size of ``u`` in the mechanism's norm, and the loss.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bayesdp import _validate
from bayesdp.privacy.gaussian import gaussian_epsilon
from bayesdp.privacy.loss import Loss
from bayesdp.privacy.losses import ZCDP, ApproximateDP, GaussianDP, PureDP
from bayesdp.privacy.relations import Kept, Relation, Sentence
from bayesdp.privacy.stated_losses import all_of, stated_loss
from bayesdp.privacy.zcdp import gaussian_rho, rho_to_epsilon
from bayesdp.sensitivities.differences import DIFFERENCES, NORMS, Difference

UNITS = (*NORMS, "linf", "K", "Mahalanobis")
"""The norms l1 and l2, the largest change of a cell, and the norms of mechanisms that fit the noise to the differences of neighbours:
the norm K, in which their hull is the unit ball, and the Mahalanobis norm of correlated Gaussian noise, scaled so that the
largest of them has length 1."""


@dataclass(frozen=True)
class PairLoss:
    """One row of a guarantee.

    Attributes
    ----------
    about : Relation
        What sets the two tables apart; a sentence is taken as a `Sentence`.
    size : float
        Norm of the difference, in counts.
    norm : str
        One of `UNITS`.
    loss : Loss
        The loss for that pair, by one definition or several; a mapping of names among ``epsilon``, ``delta``, ``rho``, ``mu`` is
        taken as one.
    """

    about: Relation
    size: float
    norm: str
    loss: Loss

    def __post_init__(self) -> None:
        about: Any = self.about
        object.__setattr__(self, "about", about if isinstance(about, Relation) else Sentence(about))
        object.__setattr__(self, "size", _validate.nonnegative_real(self.size, "size"))
        _validate.choice(self.norm, UNITS, "norm")
        object.__setattr__(self, "loss", stated_loss(self.loss))

    @property
    def relation(self) -> str:
        """What sets the two tables apart, in words."""
        return self.about.words

    def to_dict(self) -> dict[str, Any]:
        """Describe the row by plain strings and numbers; the words are there for people who read the file."""
        row = {"relation": self.relation, "size": self.size, "norm": self.norm, "loss": dict(self.loss)}
        return row if isinstance(self.about, Sentence) else {**row, "about": self.about.describe()}


def pure_pairs(epsilon: float, norm: str, differences: Sequence[str | Difference]) -> tuple[PairLoss, ...]:
    """Rows of a mechanism with mass proportional to ``exp(-epsilon ||z||)``: a loss of ``epsilon ||u||``.

    Parameters
    ----------
    epsilon : float
        Rate of the noise, per count.
    norm : {"l1", "l2"}
        Norm of the noise.
    differences : sequence of str or Difference
        Names in `DIFFERENCES`, or differences of one's own.

    Returns
    -------
    tuple of PairLoss

    Raises
    ------
    TypeError, ValueError
        If epsilon is not a positive number, or a name is unknown.

    Examples
    --------
    >>> [row.loss["epsilon"] for row in pure_pairs(0.25, "l1", ["substitution", "2x2 move", "3-cycle"])]
    [0.5, 1.0, 1.5]
    """
    epsilon = _validate.positive_real(epsilon, "epsilon")
    found = [_difference(item) for item in differences]
    sizes = [item.size(norm) for item in found]
    return tuple(
        PairLoss(Kept(item), size, norm, PureDP(epsilon * size)) for item, size in zip(found, sizes, strict=True)
    )


def gaussian_pairs(
    sigma: float, differences: Sequence[str | Difference], *, delta: float | None = None, continuous: bool = False
) -> tuple[PairLoss, ...]:
    """Rows of a Gaussian mechanism, on a lattice or continuous: a zCDP loss of ``||u||_2^2 / (2 sigma^2)``.

    Parameters
    ----------
    sigma : float
        Scale of the noise, in counts.
    differences : sequence of str or Difference
        Names in `DIFFERENCES`, or differences of one's own.
    delta : float, optional
        Adds the epsilon of each row at this delta. On a lattice it comes from zCDP by the tight conversion,
        which holds in any dimension; for continuous noise it is exact.
    continuous : bool, default False
        The noise is a continuous Gaussian on a linear subspace. Adds mu, of Gaussian differential privacy.

    Returns
    -------
    tuple of PairLoss

    Raises
    ------
    TypeError, ValueError
        If sigma is not a positive number, delta not in (0, 1), or a name is unknown.

    Examples
    --------
    >>> [round(row.loss["rho"], 4) for row in gaussian_pairs(2.0, ["substitution", "2x2 move", "3-cycle"])]
    [0.25, 0.5, 0.75]
    """
    rows = []
    for item in map(_difference, differences):
        rho = gaussian_rho(sigma, item.l2)
        losses: list[Loss] = [ZCDP(rho)]
        if continuous:
            losses.append(GaussianDP(math.sqrt(2.0 * rho)))
        if delta is not None:
            exact = continuous and item.l2 > 0.0
            epsilon = gaussian_epsilon(delta, sigma, item.l2) if exact else rho_to_epsilon(rho, delta)
            losses.append(ApproximateDP(epsilon, delta))
        rows.append(PairLoss(Kept(item), item.l2, "l2", all_of(losses)))
    return tuple(rows)


def _difference(item: str | Difference) -> Difference:
    if isinstance(item, Difference):
        return item
    return DIFFERENCES[_validate.choice(item, tuple(DIFFERENCES), "difference")]

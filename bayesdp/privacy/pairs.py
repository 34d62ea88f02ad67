"""What a mechanism costs for a given pair of tables.

With fixed invariants, two tables can only differ by a ``u`` that changes none of them, and a mechanism reveals the more the larger
``u`` is. So a guarantee is a list of rows: a `Relation` of two tables, the size of ``u`` in the mechanism's norm, and the loss.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bayesdp import _validate
from bayesdp.privacy.gaussian import gaussian_epsilon, gaussian_rho, rho_to_epsilon
from bayesdp.privacy.losses import ZCDP, ApproximateDP, GaussianDP, Loss, PureDP, all_of, stated_loss
from bayesdp.privacy.words import Choice, Described, described_from
from bayesdp.sensitivities.differences import DIFFERENCES, NEIGHBOURS, NORMS, Difference

BOUNDS: Mapping[str, str] = {
    "": "",
    "largest": " (the largest loss of all such pairs)",
    "upper": " (an upper bound of the loss of all such pairs)",
    "at most": " (at most)",
}
"""What is added to the words where not all pairs of a kind have the loss that is printed."""

_AMONG: Mapping[str, str] = {
    "": "neighbouring tables",
    "all": "neighbouring tables, whether or not the invariants tell them apart",
    "joint": "neighbouring tables, in what the joint invariants leave free, at most",
    "data": "neighbours",
}
_PUBLIC = "one record changes its cell (substitution; the number of records is public)"


class Relation(Described, ABC):
    """What sets the two tables of a row apart."""

    @property
    def words(self) -> str:
        """As it is printed."""
        return self._words()

    @abstractmethod
    def _words(self) -> str: ...


@dataclass(frozen=True)
class Neighbours(Relation):
    """Tables, or data sets (a key of `_AMONG`), in which one record is another or comes or goes; `bound` is a key of `BOUNDS`.

    Examples
    --------
    >>> Neighbours("add-remove").words
    'neighbouring tables: one record is added or removed (add-remove)'
    """

    change: Choice
    among: Choice = ""
    bound: Choice = ""

    def __post_init__(self) -> None:
        _validate.choice(self.change, tuple(NEIGHBOURS), "change")
        _validate.choice(self.among, tuple(_AMONG), "among")
        _validate.choice(self.bound, tuple(BOUNDS), "bound")

    def _words(self) -> str:
        public = self.change == "substitution" and self.among != "joint"
        change = _PUBLIC if public else NEIGHBOURS[self.change]
        return f"{_AMONG[self.among]}{BOUNDS[self.bound]}: {change}"


@dataclass(frozen=True)
class Conforming(Relation):
    """Tables that agree on all invariants and differ in a kind of way; what the loss is of those that do: a key of `BOUNDS`.

    Examples
    --------
    >>> from bayesdp.privacy import DIFFERENCES
    >>> Conforming(DIFFERENCES["3-cycle"], "upper").words.removeprefix(DIFFERENCES["3-cycle"].relation)
    ' (an upper bound of the loss of all such pairs)'
    """

    difference: Difference
    bound: Choice = ""

    name = "kept"

    def __post_init__(self) -> None:
        Sentence(self.difference.relation)
        _validate.choice(self.bound, tuple(BOUNDS), "bound")

    def _words(self) -> str:
        return self.difference.relation + BOUNDS[self.bound]


@dataclass(frozen=True)
class SemiAdjacent(Relation):
    """Any tables that agree on all invariants and are at most so many substituted records apart (Semi-DP, A_a).

    They are `joint` where the invariants are those of several releases, and the loss the sum of theirs.

    Examples
    --------
    >>> SemiAdjacent(1).words
    'any two tables with the same invariants that one substituted record tells apart (Semi-DP, A_1), at worst'
    """

    adjacency: int
    joint: bool = False

    name = "apart"

    def __post_init__(self) -> None:
        object.__setattr__(self, "adjacency", _validate.positive_integer(self.adjacency, "adjacency"))
        _validate.boolean(self.joint, "joint")

    def _words(self) -> str:
        apart = f"at most {self.adjacency} substituted records apart (Semi-DP, A_{self.adjacency})"
        if self.joint:
            return f"tables that agree on all invariants, {apart}, at most"
        if self.adjacency == 1:
            return "any two tables with the same invariants that one substituted record tells apart (Semi-DP, A_1), at worst"
        return f"any two tables with the same invariants, {apart}, at worst"


@dataclass(frozen=True)
class SemiAdjacentWithin(SemiAdjacent):
    """The same of tables with the answers to the invariants that are published, and of no others.

    Examples
    --------
    >>> SemiAdjacentWithin(2).words
    'any two tables with the published exact answers, at most 2 substituted records apart (Semi-DP, A_2), at worst'
    """

    name = "apart within"

    def _words(self) -> str:
        a = self.adjacency
        records = "one substituted record" if a == 1 else f"{a} substituted records"
        end = "at most" if self.joint else "at worst"
        return f"any two tables with the published exact answers, at most {records} apart (Semi-DP, A_{a}), {end}"


@dataclass(frozen=True)
class Sentence(Relation):
    """A relation that only its author can say; nothing follows from it."""

    text: Choice

    def __post_init__(self) -> None:
        text: Any = self.text
        if not isinstance(text, str) or not text:
            raise TypeError(f"relation must be a sentence, got {text!r}")

    def _words(self) -> str:
        return self.text


@dataclass(frozen=True)
class Convolved(Relation):
    """The tables of another row, at an epsilon and delta by convolution of all losses in the place of their sum.

    No epsilon below `least` will do at the delta of the row; 0 where that is not known, and the epsilon is an upper bound.

    Examples
    --------
    >>> Convolved(Neighbours("add-remove", "joint"), 1.25).words.removeprefix(Neighbours("add-remove", "joint").words)
    '; by convolution of the losses, where no epsilon below 1.25 will do'
    """

    of: Relation
    least: float = 0.0

    def __post_init__(self) -> None:
        of: Any = self.of
        if isinstance(of, Convolved):
            raise ValueError("the relation of a row by convolution must not be by convolution itself")
        if not isinstance(of, Neighbours | Conforming | SemiAdjacent):
            raise TypeError(f"of must be the relation of a row that losses are added in, got {self.of!r}")
        object.__setattr__(self, "least", _validate.nonnegative_real(self.least, "least"))

    def _words(self) -> str:
        bound = f"where no epsilon below {self.least:.6g} will do" if self.least > 0.0 else "an upper bound"
        return f"{self.of.words}; by convolution of the losses, {bound}"


def relation_from(description: Any) -> Relation:
    """Read what `Relation.describe` wrote.

    Examples
    --------
    >>> relation_from(SemiAdjacent(3).describe())
    SemiAdjacent(adjacency=3, joint=False)
    """
    known: tuple[type[Relation], ...] = (Neighbours, Conforming, SemiAdjacent, SemiAdjacentWithin, Convolved, Sentence)
    return described_from(description, known, "a relation")


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

    Examples
    --------
    >>> [row.loss["epsilon"] for row in pure_pairs(0.25, "l1", ["substitution", "2x2 move", "3-cycle"])]
    [0.5, 1.0, 1.5]
    """
    rate = _validate.positive_real(epsilon, "epsilon")
    found = map(_difference, differences)
    return tuple(PairLoss(Conforming(item), item.size(norm), norm, PureDP(rate * item.size(norm))) for item in found)


def gaussian_pairs(
    sigma: float, differences: Sequence[str | Difference], *, delta: float | None = None, continuous: bool = False
) -> tuple[PairLoss, ...]:
    """Rows of a Gaussian mechanism of scale sigma, in counts: a zCDP loss of ``||u||_2^2 / (2 sigma^2)``.

    Parameters
    ----------
    differences : sequence of str or Difference
        As in `pure_pairs`.
    delta : float, optional
        Adds the epsilon of each row at this delta. On a lattice it comes from zCDP by the tight conversion,
        which holds in any dimension; for continuous noise it is exact.
    continuous : bool, default False
        The noise is a continuous Gaussian on a linear subspace. Adds mu, of Gaussian differential privacy.

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
        rows.append(PairLoss(Conforming(item), item.l2, "l2", all_of(losses)))
    return tuple(rows)


def _difference(item: str | Difference) -> Difference:
    if isinstance(item, Difference):
        return item
    return DIFFERENCES[_validate.choice(item, tuple(DIFFERENCES), "difference")]

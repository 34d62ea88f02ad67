"""The caveats of guarantees that have no numbers, each with its key and its sentence.

Caveats of guarantees as values: which reservation it is, and its numbers; the sentences are made from them here.

Those without numbers are in `bayesdp.privacy.caveats`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bayesdp import _validate
from bayesdp.privacy.loss import Loss
from bayesdp.privacy.smooth import SmoothDP
from bayesdp.privacy.words import Words

__all__ = [
    "FLOATING_POINT_CAVEAT",
    "GENERATOR_CAVEAT",
    "SENTENCES",
    "AdjacencyEnough",
    "AdjacencyEnoughHere",
    "AdjacencyOpen",
    "CanonicalSteps",
    "Composed",
    "Convolution",
    "Drawn",
    "Fixed",
    "ForPublished",
    "InUnits",
    "IntegersOnly",
    "OfReleases",
    "OtherSamplers",
    "PaperElements",
    "PaperScale",
    "PaperSpace",
    "Rounded",
    "Sentence",
    "Smooth",
]

SENTENCES: Mapping[str, str] = {
    "floating point": (
        "The noise was computed in binary64 floating point: the statements hold for exact real arithmetic, and rounding errors "
        "are not accounted for."
    ),
    "generator": (
        "The random numbers come from a generator that the operating system seeds, but that is not a cryptographic one: no "
        "sampler with integer arithmetic only is known for this law."
    ),
    "determined cells": (
        "Cells that the published invariants and nonnegativity determine are not protected. Which cells these are depends on "
        "the table; a release lists them."
    ),
    "subspace": (
        "Neighbours that the invariants tell apart are not protected against that; the loss bounds what the noisy answers add "
        "about the part that the invariants leave free (subspace differential privacy)."
    ),
    "exact answers": (
        "Answers of the query, and sums and differences of answers, that the exact values determine carry no noise: whatever they "
        "tell, the exact values tell too."
    ),
    "upper bounds": (
        "Where a row is an upper bound, not all such pairs were compared: it is the loss of as many neighbouring steps, or of "
        "two 2x2 moves."
    ),
    "no kept differences": (
        "For tables that conform to the invariants nothing less than the loss of neighbouring tables is stated: the invariants "
        "are general and the table is too large to search for the smallest differences that keep them."
    ),
    "published coordinates": ("The distance of two tables is that of their answers in the published coordinates."),
    "Mahalanobis distance": (
        "The Mahalanobis distance of two tables is the length of the difference of their answers in the metric of the noise, "
        "scaled so that the largest distance of neighbouring tables is 1."
    ),
    "projected": (
        "The losses are upper bounds: projecting the noise cannot reveal more than the unprojected noise does."
    ),
    "public bounds of counts": (
        "The bounds must be public and the same for all tables, which cannot be checked here: computed from the table they "
        "would publish something about it without noise, and no loss would hold. They are among the exact parts of the release."
    ),
    "public bounds of statistics": (
        "The bounds and the sensitivity must be public and the same for all data sets, which cannot be checked here: computed "
        "from the data they would publish something about them without noise, and no epsilon would hold."
    ),
    "largest over sensitivities": (
        "The loss is the largest over all changes of the statistics that the sensitivities allow: at most this, where "
        "neighbours cannot attain all of these."
    ),
    "stated by the author": (
        "The loss for neighbouring tables is the one stated for the mechanism that was handed in."
    ),
    "stated by the author, Semi-DP": (
        "The loss for tables with the same invariants, so many records apart, is the one stated for the noise that was handed "
        "in: projecting it keeps that loss (Cho and Awan, Proposition 26)."
    ),
    "depends on the table": (
        "The mechanism is not additive: what is added to the answers may depend on the confidential table, no likelihood is "
        "known, and the values are not unbiased unless that was stated."
    ),
    "seed of the agents": (
        "The noise was drawn from a seed that all agents have in common. This protects against outsiders only: whoever holds "
        "the seed, every agent among them, can subtract the noise from the published values, and has the table. Agents are "
        "trusted not to. A seed that gets known, or is used for the same round twice, protects nothing. The noise is the output"
        " of NumPy's PCG64 generator, which is not a cryptographic one: the statements hold for ideal random bits."
    ),
    "of a release by itself": (
        "What is said of a release here is about that release by itself: its own invariants, and its own loss, not that of the "
        "composition."
    ),
    "shares rescaled": (
        "Shares are noisy proportions divided by their sum, which is post-processing; where all are 0, equal shares are "
        "published. The noisy proportions would cost the same and tell more."
    ),
    "shares but one": (
        "One share is what the others leave of 1, and may be outside its bounds: computed from released values, it costs "
        "nothing."
    ),
    "shares of a histogram": (
        "Shares are the leaves of a least-squares fit to the noisy sums, with negative ones set to 0: computed from released "
        "values, they cost nothing."
    ),
    "elements added up": (
        "Bounds of covariances come from released variances. The losses of all elements are added up, each with the bounds at "
        "which it is largest: at most this, where neighbours cannot attain all of these at once."
    ),
    "canonical": (
        "Canonical noise: neighbouring tables change one count by one, and the noise is canonical: no test between them does "
        "worse than the loss says."
    ),
    "canonical, two counts": (
        "Canonical noise: neighbouring tables change two counts by one each; the noise of each is canonical for half of the "
        "loss, and both together have the tensor product of two such trade-off functions."
    ),
}
"""What they say. The sentences are in files, where those of earlier versions are known by them: they must not change."""

_COMMON = ("floating point", "generator")


@dataclass(frozen=True, eq=False, repr=False)
class Fixed(Words):
    """A caveat without numbers.

    Parameters
    ----------
    which : str
        A key of `SENTENCES`.

    Examples
    --------
    >>> Fixed("published coordinates")
    'The distance of two tables is that of their answers in the published coordinates.'
    """

    which: str
    name = "fixed"

    @classmethod
    def _words(cls, which: Any) -> str:
        return SENTENCES[_validate.choice(which, tuple(SENTENCES), "which")]

    @property
    def of_all_noise(self) -> bool:
        """Whether it is true of all noise together if it is true of each."""
        return self.which in _COMMON


FLOATING_POINT_CAVEAT = Fixed("floating point")
"""A caveat for noise that no vetted integer-only sampler has drawn."""

GENERATOR_CAVEAT = Fixed("generator")
"""A caveat of noise that is drawn without ``rng`` by a generator which is not a cryptographic one (NumPy's PCG64).

A cryptographic one for real noise was weighed and not taken: bits of the operating system, handed to NumPy one by one, cost 20 to
140 times as much as PCG64, and float64 noise of real laws is not protected against attacks on its rounding in any case
(`FLOATING_POINT_CAVEAT`). Integer laws with an exact sampler have both protections."""


@dataclass(frozen=True, eq=False, repr=False)
class Sentence(Words):
    """A caveat that only its author can say; nothing follows from it.

    Examples
    --------
    >>> Sentence("made up")
    'made up'
    """

    text: str
    name = "sentence"
    template = "{text}"


@dataclass(frozen=True, eq=False, repr=False)
class Rounded(Words):
    """Released values are on a public grid.

    Parameters
    ----------
    exponent : int
        They are multiples of ``2**exponent``.
    within : bool
        Whether bounds are kept; otherwise invariants.
    """

    exponent: int
    within: bool = False
    name = "rounded"

    @classmethod
    def _words(cls, exponent: int, within: bool) -> str:
        kept = " within the bounds" if within else ", invariants kept"
        return f"Released values are rounded to multiples of 2**{exponent}{kept}."


@dataclass(frozen=True, eq=False, repr=False)
class Drawn(Words):
    """How noise is drawn exactly."""

    how: str
    name = "drawn"
    template = "How noise is drawn: {how}."


@dataclass(frozen=True, eq=False, repr=False)
class IntegersOnly(Words):
    """The noise is drawn with integer arithmetic only.

    Parameters
    ----------
    opendp : str
        The version of OpenDP that draws it; "" for this package's own sampler.
    extra : bool
        Whether OpenDP could draw it.
    redrawn : bool
        Whether values outside of bounds are drawn again.
    """

    opendp: str
    extra: bool = True
    redrawn: bool = False
    name = "integers only"

    @classmethod
    def _words(cls, opendp: str, extra: bool, redrawn: bool) -> str:
        instead = " (the extra 'secure' uses OpenDP instead)" if extra else ""
        words = (
            f"The noise is drawn by OpenDP {opendp}, with integer arithmetic only, from the operating system's entropy: there is "
            "no rounding."
            if opendp
            else "The noise is drawn with integer arithmetic only, from the operating system's entropy, by the algorithms of Canonne, "
            f"Kamath and Steinke (2020): there is no rounding. Nobody outside has vetted this implementation{instead}, and how "
            "long it runs depends on the noise."
        )
        if not redrawn:
            return words
        return (
            f"{words} Values outside the bounds are drawn again (bounds at most two scales apart take uniform integers, which "
            "our own integers accept or reject): how long that takes depends on the answers, and nobody may be able to time it."
        )


@dataclass(frozen=True, eq=False, repr=False)
class AdjacencyEnough(Words):
    """The adjacency of Semi-DP gives every record a protected alternative, whatever the totals are."""

    bound: int
    name = "adjacency enough"
    template = (
        "Whatever the published totals are, they force at most {bound} records to change where one does, so that every value of "
        "every record has a protected alternative."
    )


@dataclass(frozen=True, eq=False, repr=False)
class AdjacencyEnoughHere(Words):
    """The adjacency of Semi-DP gives every record a protected alternative under the totals that are published."""

    bound: int
    name = "adjacency enough here"
    template = (
        "The published totals force at most {bound} records to change where one does, so that every value that a record can have "
        "under them has a protected alternative."
    )


@dataclass(frozen=True, eq=False, repr=False)
class ForPublished(Words):
    """The noise of Semi-DP is made for the differences that occur under the published totals.

    Parameters
    ----------
    unit : str
        Norm of the noise.
    sensitivity : float
        The largest difference in it.
    """

    unit: str
    sensitivity: float
    name = "for published"
    template = (
        "The noise is made for the published exact answers, and for nothing else of the table: {unit} sensitivity "
        "{sensitivity:.6g} is that of tables with these answers. Tables with other answers are told apart by them, and "
        "tables with these answers that "
        "are farther apart lose at most in proportion to their distance in that norm."
    )


@dataclass(frozen=True, eq=False, repr=False)
class AdjacencyOpen(Words):
    """Whether the adjacency of Semi-DP is enough depends on the totals."""

    adjacency: int
    name = "adjacency open"
    template = (
        "Whether {adjacency} records are enough for every value of every record to have a protected alternative depends on the "
        "published totals: see bayesdp.privacy.semi_adjacency."
    )


@dataclass(frozen=True, eq=False, repr=False)
class InUnits(Words):
    """Answers are multiples of a unit, and so are distances between them and the scale of the noise.

    Parameters
    ----------
    unit : str
        As a number or a fraction.
    """

    unit: str
    name = "in units"
    template = "Answers, noise and sensitivities are counted in units of {unit}."


@dataclass(frozen=True, eq=False, repr=False)
class PaperSpace(Words):
    """The noise is made for the sensitivity space that Proposition 32 of Cho and Awan prints.

    Parameters
    ----------
    unit : str
        Norm of the noise.
    sensitivity, true_sensitivity : float
        That of the printed space, and of the definition.
    loss, true_loss : Loss
        At these.
    """

    unit: str
    sensitivity: float
    true_sensitivity: float
    loss: Loss
    true_loss: Loss
    name = "paper space"

    @classmethod
    def _words(cls, unit: str, sensitivity: float, true_sensitivity: float, loss: Loss, true_loss: Loss) -> str:
        start = (
            f"convention='paper': the noise is made for the sensitivity space that Cho and Awan print in Proposition 32, of {unit} "
            f"sensitivity {sensitivity:.6g}, which is that of two records (A_2)."
        )
        if str(loss) == str(true_loss):
            return f"{start} Here three records (A_3) are no farther apart, and the guarantee stands."
        return (
            f"{start} Three records (A_3) are up to {true_sensitivity:.6g} apart, so that the guarantee under A_3 is {true_loss} and "
            f"not {loss}."
        )


@dataclass(frozen=True, eq=False, repr=False)
class PaperScale(Words):
    """The noise has the scale of Liu (2019), which states another epsilon than it has.

    Parameters
    ----------
    scale, epsilon, true_epsilon : float
        Of the noise; as the paper states it; as it is.
    counts : bool
        Whether it is noise on counts; otherwise on statistics.
    """

    scale: float
    epsilon: float
    true_epsilon: float
    counts: bool = False
    name = "paper scale"

    @classmethod
    def _words(cls, scale: float, epsilon: float, true_epsilon: float, counts: bool) -> str:
        start = (
            f"noise of scale {scale:.6g} is stated as epsilon = {epsilon:.6g} in Liu (2019)"
            if counts
            else f"the noise has scale {scale:.6g}, which Liu (2019) states as epsilon = {epsilon:.6g}"
        )
        return f"Paper convention: {start}. The true epsilon is {true_epsilon:.6g}. See docs/CORRECTIONS.md."


@dataclass(frozen=True, eq=False, repr=False)
class PaperElements(Words):
    """All elements of a covariance matrix have noise of the scale of Liu (2019), and together another epsilon than stated."""

    true_epsilon: float
    name = "paper elements"
    template = (
        "Paper convention: each element has noise of scale sensitivity / epsilon, for which Liu (2019) states the epsilons of the "
        "parts. The true epsilon of all is {true_epsilon:.6g}. See docs/CORRECTIONS.md."
    )


@dataclass(frozen=True, eq=False, repr=False)
class CanonicalSteps(Words):
    """Canonical noise of a trade-off function, for tables whole steps apart.

    Parameters
    ----------
    type_one, type_two : tuple of float
        Errors of tests between tables one step apart: levels, and the least type II error at each.
    """

    type_one: tuple[float, ...]
    type_two: tuple[float, ...]
    name = "canonical steps"

    @classmethod
    def _words(cls, type_one: tuple[float, ...], type_two: tuple[float, ...]) -> str:
        levels = "; ".join(f"{one:g}: {two:.6g}" for one, two in zip(type_one, type_two, strict=True))
        return (
            "Canonical noise: tables one step apart are told apart exactly as well as the trade-off function f says, and tables k "
            "steps apart as well as f for groups of k. Least type II error of a test, by its type I error, one step: "
            f"{levels}."
        )


@dataclass(frozen=True, eq=False, repr=False)
class Composed(Words):
    """The guarantee is that of several releases."""

    parts: int
    name = "composed"
    template = (
        "This is the composition of {parts} releases. Only pairs of tables that agree on the invariants of all of them are "
        "protected, which are fewer than each release protects alone. The losses of the releases are added, each at its largest "
        "over the pairs of a row; a row that says neither 'upper bound' nor 'at most' is exact for all its pairs."
    )


@dataclass(frozen=True, eq=False, repr=False)
class Convolution(Words):
    """Some rows of a composition are by convolution of the losses.

    Parameters
    ----------
    delta : float
        At which they state an epsilon.
    """

    delta: float
    name = "convolution"

    @classmethod
    def _words(cls, delta: float) -> str:
        return (
            f"Rows by convolution of the losses state an epsilon at delta = {delta:.6g}: the laws of the privacy losses of all "
            "releases are put together, and not their largest values. The epsilon is rounded up, and the one below which none will do "
            "down."
        )


@dataclass(frozen=True, eq=False, repr=False)
class OfReleases(Words):
    """A caveat of some of the releases of a composition.

    Parameters
    ----------
    releases : tuple of int
        Their numbers, from 1.
    said : Words
        The caveat.
    """

    releases: tuple[int, ...]
    said: Words
    name = "of releases"

    @classmethod
    def _words(cls, releases: tuple[int, ...], said: Words) -> str:
        return f"Release {', '.join(map(str, releases))}: {said}"


@dataclass(frozen=True, eq=False, repr=False)
class OtherSamplers(Words):
    """How the noise of other releases of a composition was drawn."""

    samplers: tuple[str, ...]
    name = "other samplers"

    @classmethod
    def _words(cls, samplers: tuple[str, ...]) -> str:
        return f"The noise of other releases: {'; '.join(samplers)}."


@dataclass(frozen=True, eq=False, repr=False)
class Smooth(Words):
    """The loss grows with the distance of two tables, as Definition 2 of Dharangutte et al. states it.

    Parameters
    ----------
    epsilon : float
        For each unit of distance.
    delta : float
        At distance 1; 0 for pure privacy.
    norm : str

    Examples
    --------
    >>> Smooth(0.25, 0.0, "l1").split(": ")[0]
    'Smooth differential privacy (Dharangutte et al., Definition 2), epsilon = 0.25 for each unit of l1 distance'
    """

    epsilon: float
    delta: float
    norm: str
    name = "smooth"

    @classmethod
    def _words(cls, epsilon: float, delta: float, norm: str) -> str:
        loss = SmoothDP(epsilon, delta, norm)
        and_delta = f" and delta = {delta:.6g}" if delta else ""
        grows = ", together with delta (exp(epsilon d) - 1) / (exp(epsilon) - 1)" if delta else ""
        return (
            f"Smooth differential privacy (Dharangutte et al., Definition 2), epsilon = {epsilon:.6g}{and_delta} for each unit of "
            f"{norm} distance: two tables with the same invariants at distance d are told apart at epsilon d at most{grows}. "
            f"{loss.growth()}. The invariants may leave only some of these distances."
        )

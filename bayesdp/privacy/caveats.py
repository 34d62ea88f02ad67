"""Caveats of guarantees as values: which reservation it is, and its numbers; the sentences are made from them here."""

from __future__ import annotations

import re
from typing import Any

from bayesdp import _validate
from bayesdp.privacy.losses import Loss
from bayesdp.privacy.smooth import smooth_loss
from bayesdp.privacy.words import Choice, Statement


def _texts(block: str) -> dict[str, str]:
    """Texts by their keys: each begins at the margin with its key and a colon, and its further lines are indented."""
    entries = (entry.partition(": ") for entry in re.split(r"\n(?=\S)", block.strip()))
    return {key: " ".join(text.split()) for key, _, text in entries}


SENTENCES = _texts("""
floating point: The noise was computed in binary64 floating point: the statements hold for exact real arithmetic, and rounding
    errors are not accounted for.
generator: The random numbers come from a generator that the operating system seeds, but that is not a cryptographic one: no sampler
    with integer arithmetic only is known for this law.
determined cells: Cells that the published invariants and nonnegativity determine are not protected. Which cells these are depends
    on the table; a release lists them.
subspace: Neighbours that the invariants tell apart are not protected against that; the loss bounds what the noisy answers add about
    the part that the invariants leave free (subspace differential privacy).
exact answers: Answers of the query, and sums and differences of answers, that the exact values determine carry no noise: whatever
    they tell, the exact values tell too.
upper bounds: Where a row is an upper bound, not all such pairs were compared: it is the loss of as many neighbouring steps, or of
    two 2x2 moves.
no kept differences: For tables that conform to the invariants nothing less than the loss of neighbouring tables is stated: the
    invariants are general and the table is too large to search for the smallest differences that keep them.
published coordinates: The distance of two tables is that of their answers in the published coordinates.
Mahalanobis distance: The Mahalanobis distance of two tables is the length of the difference of their answers in the metric of the
    noise, scaled so that the largest distance of neighbouring tables is 1.
projected: The losses are upper bounds: projecting the noise cannot reveal more than the unprojected noise does.
public bounds of statistics: The bounds and the sensitivity must be public and the same for all data sets, which cannot be checked
    here: computed from the data they would publish something about them without noise, and no epsilon would hold.
largest over sensitivities: The loss is the largest over all changes of the statistics that the sensitivities allow: at most this,
    where neighbours cannot attain all of these.
stated by the author: The loss for neighbouring tables is the one stated for the mechanism that was handed in.
stated by the author, Semi-DP: The loss for tables with the same invariants, so many records apart, is the one stated for the noise
    that was handed in: projecting it keeps that loss (Cho and Awan, Proposition 26).
depends on the table: The mechanism is not additive: what is added to the answers may depend on the confidential table, no
    likelihood is known, and the values are not unbiased unless that was stated.
seed of the agents: The noise was drawn from a seed that all agents have in common. This protects against outsiders only: whoever
    holds the seed, every agent among them, can subtract the noise from the published values, and has the table. Agents are trusted
    not to. A seed that gets known, or is used for the same round twice, protects nothing. The noise is the output of NumPy's PCG64
    generator, which is not a cryptographic one: the statements hold for ideal random bits.
of a release by itself: What is said of a release here is about that release by itself: its own invariants, and its own loss, not
    that of the composition.
shares rescaled: Shares are noisy proportions divided by their sum, which is post-processing; where all are 0, equal shares are
    published. The noisy proportions would cost the same and tell more.
shares but one: One share is what the others leave of 1, and may be outside its bounds: computed from released values, it costs
    nothing.
shares of a histogram: Shares are the leaves of a least-squares fit to the noisy sums, with negative ones set to 0: computed from
    released values, they cost nothing.
elements added up: Bounds of covariances come from released variances. The losses of all elements are added up, each with the bounds
    at which it is largest: at most this, where neighbours cannot attain all of these at once.
canonical: Canonical noise: neighbouring tables change one count by one, and the noise is canonical: no test between them does worse
    than the loss says.
canonical, two counts: Canonical noise: neighbouring tables change two counts by one each; the noise of each is canonical for half
    of the loss, and both together have the tensor product of two such trade-off functions.
""")
"""What caveats without numbers say. The sentences are in files, where they are known by their keys: they must not change."""

TEMPLATES = _texts("""
drawn: How noise is drawn: {how}.
adjacency enough: Whatever the published totals are, they force at most {bound} records to change where one does, so that every
    value of every record has a protected alternative.
adjacency enough here: The published totals force at most {bound} records to change where one does, so that every value that a
    record can have under them has a protected alternative.
for published: The noise is made for the published exact answers, and for nothing else of the table: {unit} sensitivity
    {sensitivity:.6g} is that of tables with these answers. Tables with other answers are told apart by them, and tables with these
    answers that are farther apart lose at most in proportion to their distance in that norm.
adjacency open: Whether {adjacency} records are enough for every value of every record to have a protected alternative depends on
    the published totals: see bayesdp.privacy.semi_adjacency.
in units: Answers, noise and sensitivities are counted in units of {unit}.
paper elements: Paper convention: each element has noise of scale sensitivity / epsilon, for which Liu (2019) states the epsilons of
    the parts. The true epsilon of all is {true_epsilon:.6g}. See docs/CORRECTIONS.md.
composed: This is the composition of {parts} releases. Only pairs of tables that agree on the invariants of all of them are
    protected, which are fewer than each release protects alone. The losses of the releases are added, each at its largest over the
    pairs of a row; a row that says neither 'upper bound' nor 'at most' is exact for all its pairs.
convolution: Rows by convolution of the losses state an epsilon at delta = {delta:.6g}: the laws of the privacy losses of all
    releases are put together, and not their largest values. The epsilon is rounded up, and the one below which none will do down.
""")
"""What caveats with fields say, by their names."""


class Fixed(Statement):
    """A caveat without numbers: `which` is a key of `SENTENCES`.

    Examples
    --------
    >>> Fixed("published coordinates")
    'The distance of two tables is that of their answers in the published coordinates.'
    """

    which: Choice

    @classmethod
    def _words(cls, given: Any) -> str:
        return SENTENCES[_validate.choice(given.which, tuple(SENTENCES), "which")]


FLOATING_POINT_CAVEAT = Fixed("floating point")
"""A caveat for noise that no vetted integer-only sampler has drawn."""

GENERATOR_CAVEAT = Fixed("generator")
"""A caveat of noise that is drawn without ``rng`` by a generator which is not a cryptographic one (NumPy's PCG64).

A cryptographic one for real noise was weighed and not taken: bits of the operating system, handed to NumPy one by one, cost 20 to
140 times as much as PCG64, and float64 noise of real laws is not protected against attacks on its rounding in any case
(`FLOATING_POINT_CAVEAT`). Integer laws with an exact sampler have both protections."""


class Sentence(Statement):
    """A caveat that only its author can say; nothing follows from it."""

    text: str
    template = "{text}"


class Rounded(Statement):
    """Released values are multiples of ``2**exponent``, a public grid; whether bounds are kept (`within`), or invariants."""

    exponent: int
    within: bool = False

    @classmethod
    def _words(cls, given: Any) -> str:
        kept = " within the bounds" if given.within else ", invariants kept"
        return f"Released values are rounded to multiples of 2**{given.exponent}{kept}."


class Drawn(Statement):
    """How noise is drawn exactly."""

    how: str
    template = TEMPLATES["drawn"]


class IntegersOnly(Statement):
    """The noise is drawn with integer arithmetic only.

    By that version of `opendp`, or, where that is "", by this package's own sampler; whether OpenDP could draw it (`extra`), and
    whether values outside of bounds are drawn again (`redrawn`).
    """

    opendp: str
    extra: bool = True
    redrawn: bool = False

    @classmethod
    def _words(cls, given: Any) -> str:
        instead = " (the extra 'secure' uses OpenDP instead)" if given.extra else ""
        words = (
            f"The noise is drawn by OpenDP {given.opendp}, with integer arithmetic only, from the operating system's entropy: there "
            "is no rounding."
            if given.opendp
            else "The noise is drawn with integer arithmetic only, from the operating system's entropy, by the algorithms of Canonne, "
            f"Kamath and Steinke (2020): there is no rounding. Nobody outside has vetted this implementation{instead}, and how "
            "long it runs depends on the noise."
        )
        if not given.redrawn:
            return words
        return (
            f"{words} Values outside the bounds are drawn again (bounds at most two scales apart take uniform integers, which "
            "our own integers accept or reject): how long that takes depends on the answers, and nobody may be able to time it."
        )


class AdjacencyEnough(Statement):
    """The adjacency of Semi-DP gives every record a protected alternative, whatever the totals are."""

    bound: int
    template = TEMPLATES["adjacency enough"]


class AdjacencyEnoughHere(Statement):
    """The adjacency of Semi-DP gives every record a protected alternative under the totals that are published."""

    bound: int
    template = TEMPLATES["adjacency enough here"]


class ForPublished(Statement):
    """The noise of Semi-DP is made for the differences that occur under the published totals, the largest in the norm `unit`."""

    unit: str
    sensitivity: float
    template = TEMPLATES["for published"]


class AdjacencyOpen(Statement):
    """Whether the adjacency of Semi-DP is enough depends on the totals."""

    adjacency: int
    template = TEMPLATES["adjacency open"]


class InUnits(Statement):
    """Answers are multiples of a unit (a number or a fraction), and so are distances between them and the scale of the noise."""

    unit: str
    template = TEMPLATES["in units"]


class PaperSpace(Statement):
    """The noise is made for the sensitivity space that Proposition 32 of Cho and Awan prints, not for that of the definition."""

    unit: str
    sensitivity: float
    true_sensitivity: float
    loss: Loss
    true_loss: Loss

    @classmethod
    def _words(cls, given: Any) -> str:
        start = (
            "convention='paper': the noise is made for the sensitivity space that Cho and Awan print in Proposition 32, of "
            f"{given.unit} sensitivity {given.sensitivity:.6g}, which is that of two records (A_2)."
        )
        if str(given.loss) == str(given.true_loss):
            return f"{start} Here three records (A_3) are no farther apart, and the guarantee stands."
        return (
            f"{start} Three records (A_3) are up to {given.true_sensitivity:.6g} apart, so that the guarantee under A_3 is "
            f"{given.true_loss} and not {given.loss}."
        )


class PaperScale(Statement):
    """The noise, on counts or on statistics, has the scale of Liu (2019), which states another epsilon than it has."""

    scale: float
    epsilon: float
    true_epsilon: float
    counts: bool = False

    @classmethod
    def _words(cls, given: Any) -> str:
        start = (
            f"noise of scale {given.scale:.6g} is stated as epsilon = {given.epsilon:.6g} in Liu (2019)"
            if given.counts
            else f"the noise has scale {given.scale:.6g}, which Liu (2019) states as epsilon = {given.epsilon:.6g}"
        )
        return f"Paper convention: {start}. The true epsilon is {given.true_epsilon:.6g}. See docs/CORRECTIONS.md."


class PaperElements(Statement):
    """All elements of a covariance matrix have noise of the scale of Liu (2019), and together another epsilon than stated."""

    true_epsilon: float
    template = TEMPLATES["paper elements"]


class CanonicalSteps(Statement):
    """Canonical noise for tables whole steps apart: levels of tests between tables one step apart, and the least error at each."""

    type_one: tuple[float, ...]
    type_two: tuple[float, ...]

    @classmethod
    def _words(cls, given: Any) -> str:
        levels = "; ".join(f"{one:g}: {two:.6g}" for one, two in zip(given.type_one, given.type_two, strict=True))
        return (
            "Canonical noise: tables one step apart are told apart exactly as well as the trade-off function f says, and tables k "
            "steps apart as well as f for groups of k. Least type II error of a test, by its type I error, one step: "
            f"{levels}."
        )


class Composed(Statement):
    """The guarantee is that of several releases."""

    parts: int
    template = TEMPLATES["composed"]


class Convolution(Statement):
    """Some rows of a composition state an epsilon at `delta`, by convolution of the losses."""

    delta: float
    template = TEMPLATES["convolution"]


class OfReleases(Statement):
    """What is `said` of some of the releases of a composition, by their numbers from 1."""

    releases: tuple[int, ...]
    said: Statement

    @classmethod
    def _words(cls, given: Any) -> str:
        return f"Release {', '.join(map(str, given.releases))}: {given.said}"


class OtherSamplers(Statement):
    """How the noise of other releases of a composition was drawn."""

    samplers: tuple[str, ...]

    @classmethod
    def _words(cls, given: Any) -> str:
        return f"The noise of other releases: {'; '.join(given.samplers)}."


_DISTANCES = (1, 2, 4, 8, 16)  # at which `Smooth` states the loss, up to the first that says nothing


class Smooth(Statement):
    """The loss grows with the distance of two tables, as `bayesdp.privacy.smooth_loss` states it.

    Examples
    --------
    >>> Smooth(0.25, 0.0, "l1").split(": ")[0]
    'Smooth differential privacy (Dharangutte et al., Definition 2), epsilon = 0.25 for each unit of l1 distance'
    """

    epsilon: float
    delta: float
    norm: str

    @classmethod
    def _words(cls, given: Any) -> str:
        _validate.choice(given.norm, ("l1", "l2"), "norm")
        losses = [smooth_loss(d, given.epsilon, given.delta) for d in _DISTANCES]
        telling = next((i for i, loss in enumerate(losses) if loss.says_nothing), len(losses)) + 1
        grown = "; ".join(f"d = {d}: {loss}" for d, loss in zip(_DISTANCES[:telling], losses, strict=False))
        and_delta = f" and delta = {given.delta:.6g}" if given.delta else ""
        grows = ", together with delta (exp(epsilon d) - 1) / (exp(epsilon) - 1)" if given.delta else ""
        return (
            f"Smooth differential privacy (Dharangutte et al., Definition 2), epsilon = {given.epsilon:.6g}{and_delta} for each unit "
            f"of {given.norm} distance: two tables with the same invariants at distance d are told apart at epsilon d at most{grows}. "
            f"{grown}. The invariants may leave only some of these distances."
        )

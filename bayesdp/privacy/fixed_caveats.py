"""The caveats of guarantees that have no numbers, each with its key and its sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bayesdp import _validate
from bayesdp.privacy.words import Words

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

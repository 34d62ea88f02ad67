"""What may have been done to numbers after the noise was added, why that leaves them without a likelihood, and the way out."""

from __future__ import annotations

_BEFORE = (
    "Use the noisy measurements from before the post-processing (agencies publish them as noisy measurement files), or a noise law "
    "of your own that includes it"
)

KINDS: dict[str, tuple[str, str]] = {
    "topdown": (
        "the TopDown algorithm fits whole, nonnegative counts to many noisy tables at once, by optimisation, and every number depends "
        "on all of them",
        "Use the noisy measurement files that it started from: bayesdp.datasets.read_nmf reads those of the 2020 Census",
    ),
    "consistent": (
        "making tables add up moves every number by a combination of the noise of the others, so that their errors are tied "
        "together, in a way that depends on the method",
        "Ask for the noisy numbers from before that, cells and totals as they were drawn (such as noisy measurement files): all of "
        "them go into one release, and the posterior adds up by itself",
    ),
    "nonnegative": (
        "setting negative numbers to zero, or scaling the others down to make up for it, hides how far below zero they were",
        "Ask for the numbers with their negative values (such as noisy measurement files), which do no harm here. Numbers that were "
        "only clipped at public bounds, each by itself, have a law of their own: boundary-inflated-discrete-laplace and its relatives",
    ),
    "clipped": (
        "clipping puts all noise beyond the bound on the bound",
        "Use the numbers from before (such as noisy measurement files), or the law of numbers that were clipped at public bounds, "
        "each by itself: boundary-inflated-discrete-laplace and its relatives",
    ),
    "rounded": (
        "rounding noisy numbers adds an error that the law of the noise does not know",
        "Use the numbers from before (such as noisy measurement files). True counts that were rounded, at random or not, with no "
        "other noise, follow a law of their own: state that law in place of this one",
    ),
    "ratio": (
        "a percentage is made of two noisy counts, cut to 0 to 100% and rounded (as the broadband usage by ZIP code is), and of "
        "neither is the noisy value left",
        "Ask for the noisy counts themselves: both go into one release, and the posterior of the percentage follows. A range of "
        "errors that is published beside a percentage is no law of noise",
    ),
    "swapped": (
        "swapping moves records between areas before the table is made, and which ones is secret",
        "There is no way back from the table alone. Use noisy measurement files, or a table that was perturbed cell by cell",
    ),
}
"""Reason and way out, by a word that a statement of post-processing has in it; the first that fits counts."""

_WORDS = {
    "topdown": "topdown", "top-down": "topdown", "consisten": "consistent", "additiv": "consistent", "adjusted": "consistent",
    "nonneg": "nonnegative", "non-neg": "nonnegative", "negative": "nonnegative", "clip": "clipped", "truncat": "clipped",
    "percent": "ratio", "ratio": "ratio", "round": "rounded", "swap": "swapped",
}  # fmt: skip


def refused(stated: str, law: str) -> str:
    """Why numbers with this post-processing are refused, and what to do; a message.

    Parameters
    ----------
    stated : str
        What was done, in the words of the user or of a reader.
    law : str
        Name of the law that was stated.

    Examples
    --------
    >>> print(refused("consistent", "discrete-gaussian")[:90])
    postprocessing is 'consistent': making tables add up moves every number by a combination o
    """
    kind = next((kind for word, kind in _WORDS.items() if word in str(stated).lower()), None)
    reason, way_out = KINDS.get(
        kind or "", ("after clipping, rounding, making consistent or the like numbers have another law", _BEFORE)
    )
    return (
        f"postprocessing is {stated!r}: {reason}. The published numbers no longer follow the noise law {law!r}, and no likelihood for "
        f"them is known here. {way_out}"
    )

"""Which sampler draws noise on a lattice, and noise drawn by it."""

from __future__ import annotations

import operator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bayesdp._validate import choice, positive_integer, positive_real
from bayesdp.invariants import Invariants
from bayesdp.lattices.fixed_sum import draw_fixed_sums
from bayesdp.lattices.gibbs import draw_gibbs
from bayesdp.lattices.lines import draw_lines, has_lines

__all__ = ["DEFAULT_SWEEPS", "LAWS", "METHODS", "Sampler", "choose_sampler", "sample_noise"]

LAWS = ("l1", "l2", "gaussian")
"""Mass ``exp(-scale ||z||_1)``, ``exp(-scale ||z||_2)``, ``exp(-||z||_2**2 / (2 scale**2))``."""

METHODS = ("auto", "exact", "mcmc")
"""``auto``: exact where there is an exact sampler, else mcmc."""

DEFAULT_SWEEPS = 1000
"""Sweeps of the Gibbs sampler for each draw; a sweep has as many steps as the lattice has dimensions."""

_LARGEST = 2.0**52
"""Noise beyond this would not be safe to add to a count in float64 later on."""


@dataclass(frozen=True)
class Sampler:
    """How noise on a lattice is drawn.

    Parameters
    ----------
    exact : bool
        Whether every draw has exactly the stated law, up to floating point.
    name : {"lines", "fixed-sum", "gibbs"}
    sweeps : int or None
        Length of the chain behind each draw; None for exact samplers.
    words : str
        What is done, in a sentence.
    """

    exact: bool
    name: str
    sweeps: int | None
    words: str


_LINES = Sampler(True, "lines", None, "independent discrete noise along orthogonal directions of the lattice")
_FIXED_SUM = Sampler(
    True, "fixed-sum", None, "difference of two uniform compositions of a random common mass in each block"
)


def _exact_sampler(invariants: Invariants, law: str) -> Sampler | None:
    if has_lines(invariants, law):
        return _LINES
    if law == "l1" and invariants.is_disjoint_totals:
        return _FIXED_SUM
    return None


def choose_sampler(invariants: Invariants, law: str, method: str = "auto", sweeps: int = DEFAULT_SWEEPS) -> Sampler:
    """Say how noise would be drawn.

    Parameters
    ----------
    invariants : Invariants
        What the noise must not change.
    law : {"l1", "l2", "gaussian"}
    method : {"auto", "exact", "mcmc"}
    sweeps : int
        Length of the chain behind each draw where it is MCMC.

    Returns
    -------
    Sampler

    Raises
    ------
    NotImplementedError
        If exact draws are asked for and there is no exact sampler.

    Examples
    --------
    >>> from bayesdp.queries import Margins
    >>> table = {"county": ["Alpha", "Beta"], "education": ["Low", "Mid", "High"]}
    >>> choose_sampler(Invariants(Margins(table, ["county"])), "l1").name
    'fixed-sum'
    >>> choose_sampler(Invariants(Margins(table, ["county"], ["education"])), "l1").words
    'Gibbs sampler, 1000 sweeps from zero for each draw'
    """
    choice(law, LAWS, "law")
    choice(method, METHODS, "method")
    positive_integer(sweeps, "sweeps")
    exact = _exact_sampler(invariants, law) if method != "mcmc" else None
    if exact is not None:
        return exact
    if method == "exact":
        raise NotImplementedError(
            f"no exact sampler of {law} noise under {invariants!r} is known here: there is one for the l1 "
            "norm with disjoint totals, for the l1 norm and the Gaussian without invariants, and for any law "
            "where one number is free; use method='auto' or 'mcmc'"
        )
    return Sampler(False, "gibbs", sweeps, f"Gibbs sampler, {sweeps} sweeps from zero for each draw")


def sample_noise(
    invariants: Invariants,
    law: str,
    scale: float,
    rng: np.random.Generator | None = None,
    size: int = 1,
    method: str = "auto",
    sweeps: int = DEFAULT_SWEEPS,
) -> npt.NDArray[np.int64]:
    """Draw integer noise that changes no invariant.

    Parameters
    ----------
    invariants : Invariants
        What the noise must not change.
    law : {"l1", "l2", "gaussian"}
        Mass proportional to ``exp(-scale ||z||_1)``, ``exp(-scale ||z||_2)`` or
        ``exp(-||z||_2**2 / (2 scale**2))``.
    scale : float
        Rate per count (l1, l2), or scale in counts (gaussian).
    rng : numpy.random.Generator, optional
        Without one, entropy of the operating system.
    size : int
        Number of independent draws.
    method : {"auto", "exact", "mcmc"}
        See `choose_sampler`, which says what is used.
    sweeps : int
        Length of the chain behind each draw where it is MCMC.

    Returns
    -------
    int64 array, shape (size, *table)

    Raises
    ------
    NotImplementedError
        If exact draws are asked for and there is no exact sampler.
    TypeError, ValueError
        If an argument is not valid, or the noise is so wide that it could leave the exact integers of
        float64.

    Examples
    --------
    >>> from bayesdp.queries import Totals
    >>> fixed = Invariants(Totals({"county": ["Alpha", "Beta", "Gamma"]}))
    >>> noise = sample_noise(fixed, "l1", 0.1, np.random.default_rng(1), size=1000)
    >>> noise.shape, int(abs(noise.sum(axis=1)).max())
    ((1000, 3), 0)
    """
    sampler = choose_sampler(invariants, law, method, sweeps)
    scale = positive_real(scale, "scale")
    cells = invariants.frame.size
    # Exponential tails: a sum of as many as there are cells, each below exp(-37) of its mass.
    reach = 40.0 * scale if law == "gaussian" else 40.0 * (cells + 1) / scale
    if reach > _LARGEST:
        raise ValueError(f"scale must keep the noise below 2**52; {scale!r} does not for {cells} cells")
    count = operator.index(size)
    if count < 0:
        raise ValueError(f"size must be an integer of at least 0, got {size!r}")
    if rng is not None and not isinstance(rng, np.random.Generator):
        raise TypeError(f"rng must be a numpy.random.Generator or None, got {type(rng).__name__}")
    rng = np.random.default_rng() if rng is None else rng
    if sampler.name == "lines":
        draws = draw_lines(invariants, law, scale, rng, count)
    elif sampler.name == "fixed-sum":
        blocks = invariants.blocks
        assert blocks is not None  # that is when the sampler is chosen
        draws = draw_fixed_sums(blocks, scale, rng, count)
    else:
        draws = draw_gibbs(invariants, law, scale, rng, count, sweeps)
    return draws.reshape(count, *invariants.frame.shape)

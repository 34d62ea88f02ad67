"""Rounding: all published numbers are multiples of a base."""

from __future__ import annotations

import math

import numpy as np

from bayesdp.consistency._published import Floats, Published
from bayesdp.noise import law_names

BASES = (0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 25.0, 50.0, 100.0, 500.0, 1000.0)
"""Bases that are looked for; those below 2 only where noise is real, and of a scale that they matter for."""

_FINER = 10.0


def multiples(answers: Published) -> list[tuple[float, str]]:
    r"""Bounds on the probability that all numbers are multiples of a base, with words for it.

    Integer noise: a number is a multiple of r if the noise has one residue modulo r, which one depends on the confidential
    answer. Both laws are positive-definite functions of the integer, so that the residue 0 is the likeliest (the Fourier
    series of the residues' masses has no negative coefficient), and n numbers are all multiples with probability at most
    ``rho**n``, ``rho = P(r divides the noise)``. That is a ratio of two normalisers: the multiples of r have the masses of the
    same law of scale ``scale / r``.

    Real noise, published to a grid no coarser than a tenth of r: a number is a multiple of r if the noisy value is within
    half the grid of one, and the density modulo r is at most ``1 / r + f(0)`` as f falls on both sides. So ``rho`` is at most
    ``(r / 10) (1 / r + f(0))``. Bases of less than a tenth of the smallest scale are not looked for: rounding to them hardly
    changes the law.

    Returns
    -------
    list of (float, str)
        One a base that divides all published numbers, the largest base first.
    """
    values, scale = answers.values[answers.measures], answers.scale[answers.measures]
    integer = answers.measured.law.integer
    found = []
    for base in reversed(BASES):
        if base < (2.0 if integer else float(scale.min()) / _FINER):
            continue
        steps = values / base
        if np.all(np.abs(steps - np.rint(steps)) <= 1e-9 * np.maximum(np.abs(steps), 1.0)):
            share = _residue(answers, scale, base) if integer else _band(answers, scale, base)
            words = f"all {len(values)} noisy numbers ({answers.words}) are multiples of {base:g}"
            if not integer and base == math.floor(base):
                words += ", and real noise gives no whole numbers"
                discrete = f"discrete-{answers.measured.law.name}"
                words += f", as {discrete} does" if discrete in law_names() else ""
            found.append((float(np.exp(np.sum(np.log(share)))), words))
    return found


def _residue(answers: Published, scale: Floats, base: float) -> Floats:
    """P(base divides the noise), for each answer."""
    zero = np.zeros(len(scale))
    fine, coarse = (answers.law(own).log_mass(zero) for own in (scale, scale / base))
    return np.asarray(np.minimum(np.exp(fine - coarse), 1.0))


def _band(answers: Published, scale: Floats, base: float) -> Floats:
    """A bound on the probability of falling within half the grid of a multiple, for each answer."""
    peak = np.exp(answers.law(scale).log_density(np.zeros(len(scale))))
    return np.asarray(np.minimum(base / _FINER * (1.0 / base + peak), 1.0))

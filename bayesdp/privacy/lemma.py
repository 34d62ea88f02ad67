"""The Gaussian scale of the paper's Lemma 3.4, with the check that it lacks."""

from __future__ import annotations

import math

from bayesdp import _validate
from bayesdp.privacy.gaussian import gaussian_delta, gaussian_sigma


def lemma_3_4_sigma(epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """Give the scale of Lemma 3.4, ``sensitivity (1 + sqrt(1 + log(1/delta))) / epsilon``, where it is private.

    The paper states the lemma for all positive epsilon and delta, but it does not hold for all. The exact delta of that
    scale is computed by `gaussian_delta`, and the scale is refused if it exceeds the one asked for. Use `gaussian_sigma`,
    which always holds and is never larger than a scale that holds. See docs/CORRECTIONS.md.

    Parameters
    ----------
    epsilon : float
        Greater than 0.
    delta : float
        Strictly between 0 and 1.
    sensitivity : float, default 1
        Largest l2 distance between the statistics of two neighbouring tables, in counts.

    Returns
    -------
    float
        sigma, in counts.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of its range, or the scale is not (epsilon, delta)-differentially private; the message
        states its exact delta.

    References
    ----------
    Gao, Gong and Yu (2022), Subspace Differential Privacy, Lemma 3.4.

    Examples
    --------
    >>> print(f"{lemma_3_4_sigma(1.0, 1e-6):.4f}")
    4.8491
    >>> lemma_3_4_sigma(2.0, 1e-10)
    Traceback (most recent call last):
        ...
    ValueError: Lemma 3.4 does not hold at epsilon=2, delta=1e-10: ...
    """
    epsilon = _validate.positive_real(epsilon, "epsilon")
    delta = _validate.probability(delta, "delta")
    distance = _validate.positive_real(sensitivity, "sensitivity")
    sigma = distance * (1.0 + math.sqrt(1.0 - math.log(delta))) / epsilon
    exact = gaussian_delta(epsilon, sigma, distance)
    if exact > delta:
        raise ValueError(
            f"Lemma 3.4 does not hold at epsilon={epsilon:g}, delta={delta:g}: noise of its scale {sigma:.6g} has the exact "
            f"delta {exact:.3g}; gaussian_sigma gives {gaussian_sigma(epsilon, delta, distance):.6g}, which holds"
        )
    return sigma

"""The rank of a true value among posterior draws, as a number that is uniform on (0, 1) if the posterior is right."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

type Floats = npt.NDArray[np.float64]


def uniform_rank(truth: float, draws: npt.ArrayLike, rng: np.random.Generator) -> float:
    """Rank of the truth among draws, ties and the place within the rank at random.

    Parameters
    ----------
    truth : float
        The value that the data were simulated from.
    draws : array_like, shape (draws,)
        Independent draws from the posterior.
    rng : numpy.random.Generator
        For ties, which integers have many of: counted as smaller, they would spoil every table of counts.

    Returns
    -------
    float
        If truth and draws are exchangeable, exactly uniform for any number of draws, whatever the ties.

    Raises
    ------
    ValueError
        If there are no draws, or a number is not one.

    Notes
    -----
    With r draws smaller and e equal, (r + K + U) / (draws + 1), K uniform on 0, ..., e and U on (0, 1).

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> 2 / 5 < uniform_rank(2.5, [1, 2, 3, 4], rng) < 3 / 5
    True
    """
    values = np.asarray(draws, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"draws must be a vector of at least one number, got shape {values.shape}")
    if np.isnan(truth) or np.isnan(values).any():
        raise ValueError("truth and draws must be numbers, got NaN")
    smaller, equal = int(np.sum(values < truth)), int(np.sum(values == truth))
    place = smaller + int(rng.integers(equal + 1)) + rng.random()
    return float(place / (values.size + 1))


def squared_error_rank(truth: float, draws: npt.ArrayLike, rng: np.random.Generator) -> float:
    """Rank of the squared standardised error of the truth among those of draws.

    Every second draw gives the mean and the standard deviation of the posterior, the others are ranked: a mean that
    has seen a draw is nearer to it than to the truth.

    Parameters, errors as in `uniform_rank`, with at least four draws.

    Returns
    -------
    float
        NaN if all draws are one number: the posterior claims to be certain, and has no scale to be tested.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> squared_error_rank(10.0, rng.normal(size=200), rng) > 0.99
    True
    """
    values = np.asarray(draws, dtype=np.float64)
    if values.ndim != 1 or values.size < 4:
        raise ValueError(f"draws must be a vector of at least four numbers, got shape {values.shape}")
    if values[::2].min() == values[::2].max():  # the deviation of equal numbers need not be zero: their mean is rounded
        return float("nan")
    centre, spread = values[::2].mean(), values[::2].std()
    return uniform_rank(((truth - centre) / spread) ** 2, ((values[1::2] - centre) / spread) ** 2, rng)

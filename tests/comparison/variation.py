"""Total variation between draws and a law on finitely many points, with a proved false-alarm rate."""

import arviz as az
import numpy as np
import numpy.typing as npt

from tests.comparison.chi_square import TooFewBinsError

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]


def variation_limit(probability: npt.ArrayLike, size: float, rate: float) -> float:
    """What the distance of `size` independent draws from their law exceeds with a probability of at most `rate`.

    Its mean is at most ``sum_i sqrt(p_i (1 - p_i) / size) / 2``, and one draw moves it by at most ``1 / size``, so that by
    McDiarmid's inequality it is further above its mean than t with a probability of at most ``exp(-2 size t**2)``.
    """
    p = np.asarray(probability, np.float64)
    return float(0.5 * np.sqrt(p * (1.0 - p) / size).sum() + np.sqrt(np.log(1.0 / rate) / (2.0 * size)))


def total_variation(index: Ints, probability: npt.ArrayLike) -> float:
    """Half the sum of absolute differences between shares of draws and a law, both over the same points."""
    p = np.asarray(probability, np.float64)
    shares = np.bincount(np.reshape(index, -1), minlength=len(p)) / np.size(index)
    return float(0.5 * np.abs(shares - p).sum())


def effective_size(index: Ints, probability: npt.ArrayLike, most: int = 20) -> float:
    """Effective sample size of indices (chain, draw), the least over the likeliest points; of one axis, independent, their number."""
    if np.ndim(index) == 1:
        return float(len(index))
    p = np.asarray(probability, np.float64)
    sizes = [float(np.size(index))]
    for k in np.argsort(-p)[:most]:
        own = (np.asarray(index) == k).astype(np.float64)
        if p[k] * own.size >= 20.0 and np.ptp(own):
            sizes.append(float(az.ess(own, method="mean")))
    return min(sizes)


def assert_close_in_variation(
    index: Ints, probability: npt.ArrayLike, *, rate: float, largest: float = 0.2, what: str = "draws"
) -> None:
    """Compare indices of points, (n,) if independent or (chain, draw), with a law; a limit above `largest` shows nothing: an error."""
    p = np.asarray(probability, np.float64)
    if np.count_nonzero(p > 0.0) < 2:
        raise TooFewBinsError(f"a law on {np.count_nonzero(p > 0.0)} points cannot be compared by total variation")
    size = effective_size(index, p)
    limit, found = variation_limit(p, size, rate), total_variation(index, p)
    assert limit <= largest, f"{what}: {size:.0f} effective draws give a limit of {limit:.3f}, which shows nothing"
    assert found <= limit, f"{what}: total variation {found:.4f}, limit {limit:.4f} at {size:.0f} effective draws"

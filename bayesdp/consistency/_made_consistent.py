"""Noisy numbers that add up everywhere, which independent noise does not: refused, with the reason and the way out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bayesdp.consistency._differences import Differences, agreeing, answers_of, differences_of
from bayesdp.consistency._general import equalities
from bayesdp.consistency._perturbed import perturbed_adding_up
from bayesdp.consistency.post_processed import FALSE_ALARMS
from bayesdp.measurements import Exact, Measured

FEWEST_SUMS = 10
"""Fewer sums that agree are warned about, where chance does not explain them, and not refused."""


def made_consistent(
    measurements: Iterable[Measured], exact: Iterable[Exact] = (), groups: Sequence[Differences] | None = None
) -> str | None:
    """Which published sums add up although their noise is independent, with a bound on the chance of it; None where none do.

    Differences of sums under independent noise of a law with a scale, or exact, as `bayesdp.check_law` compares them: their laws give
    the chance that all are 0, whatever the true table is. It is reported where at least `FEWEST_SUMS` agree, all that both
    determine, and it is below `FALSE_ALARMS` divided by the number of comparisons.

    Perturbed counts (rounded, cell keys) add up now and then: the chance that all published sums of the finest numbers agree with
    these is worked out from the laws, and reported below one in a thousand. Counts whose remainders by a base are not equally likely,
    such as multiples of ten, are another matter: these may add up although each was rounded on its own.

    Parameters
    ----------
    measurements : iterable of Measured
    exact : iterable of Exact
    groups : sequence, optional
        The differences of a `bayesdp.check_law` of these, where it was made before.

    Returns
    -------
    str or None

    Examples
    --------
    Twelve areas, whose totals are the sums of their noisy cells:

    >>> import numpy as np
    >>> from bayesdp.noise import DiscreteGaussian
    >>> from bayesdp.queries import Identity, Margins
    >>> table = {"area": list("abcdefghijkl"), "sex": ["f", "m"]}
    >>> law = DiscreteGaussian(sigma=5.0)
    >>> noisy = law.draw(np.random.default_rng(1), (12, 2), location=30)
    >>> cells = Measured(Identity(table), noisy, law)
    >>> made_consistent([cells, Measured(Margins(table, ["area"]), noisy.sum(axis=1), law)])
    '24 answers by area × sex and 12 answers by area agree exactly on all 12 sums that both determine (chance at most 9e-17)'

    Totals with noise of their own agree on some:

    >>> own = law.draw(np.random.default_rng(2), (12,), location=60)
    >>> made_consistent([cells, Measured(Margins(table, ["area"]), own, law)]) is None
    True
    """
    measurements, exact = list(measurements), list(exact)
    groups = differences_of(answers_of(measurements, exact)[0])[0] if groups is None else groups
    found = [(bound, words) for bound, words in agreeing(groups, FEWEST_SUMS) if bound * len(groups) < FALSE_ALARMS]
    found += perturbed_adding_up(measurements, equalities(exact))
    return "; ".join(f"{words} (chance at most {max(bound, 1e-99):.0e})" for bound, words in found) or None


def check_not_made_consistent(
    measurements: Iterable[Measured], exact: Iterable[Exact] = (), groups: Sequence[Differences] | None = None
) -> None:
    """Refuse noisy numbers that add up everywhere, see `made_consistent`."""
    measurements = list(measurements)
    told = made_consistent(measurements, exact, groups)
    if told is None:
        return
    laws = ", ".join(dict.fromkeys(str(part.law) for part in measurements if part.law.independent))
    raise ValueError(
        f"{told}: noise drawn on its own for each number (law {laws}) does not add up. Either the table was made consistent after "
        "the noise was added, and its numbers do not follow that law: use the noisy numbers from before (such as noisy measurement "
        "files), where the posterior adds up by itself. Or the totals are sums of the noisy cells, and say nothing new: leave them "
        "out. If neither is so, adding_up='warn' (--adding-up warn) takes them as they are"
    )

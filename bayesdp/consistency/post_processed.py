"""Published numbers that cannot well have come from the stated law: clipped, rounded, or made consistent."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence

from bayesdp.consistency._differences import Differences, agreeing, answers_of, differences_of
from bayesdp.consistency._general import equalities
from bayesdp.consistency._multiples import BASES, multiples
from bayesdp.consistency._near_zero import TESTS, near_zero
from bayesdp.consistency._perturbed import EVERYTHING, perturbed_adding_up
from bayesdp.consistency._published import published_of
from bayesdp.measurements import Exact, Measured

FALSE_ALARMS = 1e-6
"""Probability, at most, that a release whose numbers do follow their law is warned about, whatever the true table."""


class PostProcessedWarning(UserWarning):
    """The published numbers look clipped, rounded or made consistent after the noise was added, or as if they were of two tables."""


def signs_of_post_processing(
    measurements: Iterable[Measured], exact: Iterable[Exact] = (), groups: Sequence[Differences] | None = None
) -> str | None:
    """What about the published numbers the stated law does not explain, with advice; None where nothing was found.

    For independent noise of the laws `DiscreteLaplace`, `DiscreteGaussian`, `Laplace` and `Gaussian`; noise that keeps exact
    totals is checked against these by `check_noisy_keeps_invariants`. Looked for are

    * no negative number among many zeros, or among many numbers of at most one scale;
    * numbers that are all multiples of 2, 3, 5, 10 and so on;
    * noisy sums that add up exactly, to one another or to exact values.

    Each sign has a bound on its probability that holds for every true table of counts. It is reported where that bound is below
    `FALSE_ALARMS` divided by the number of signs looked for, so that all together have at most that rate of false alarms.
    Perturbed counts that add up are reported besides, as by `made_consistent`. A table that was changed in other ways, or is small or
    far from zero, gives no sign: this does not show that the numbers follow their law.

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
    >>> import numpy as np
    >>> from bayesdp.noise import DiscreteGaussian
    >>> from bayesdp.queries import Identity
    >>> county = Identity({"county": [f"c{i}" for i in range(60)]})
    >>> noisy = DiscreteGaussian(5.0).draw(np.random.default_rng(1), (60,), location=2.0)
    >>> signs_of_post_processing([Measured(county, noisy, DiscreteGaussian(5.0))]) is None
    True
    >>> clipped = Measured(county, np.maximum(noisy, 0), DiscreteGaussian(5.0))
    >>> signs_of_post_processing([clipped]).split(" (probability")[0]
    'none of the 60 noisy numbers (60 answers by county) is negative and 23 are exactly 0'
    """
    measurements, exact = list(measurements), list(exact)
    published = published_of(measurements)
    groups = differences_of(answers_of(measurements, exact)[0])[0] if groups is None else groups
    level = FALSE_ALARMS / max(len(groups) + len(published) * (TESTS + len(BASES)), 1)
    reported = perturbed = perturbed_adding_up(measurements, equalities(exact))
    for answers in published:
        for signs in (near_zero(answers), multiples(answers)):
            # One sign of a kind: exact zeros before small numbers, the largest base before its divisors.
            reported = reported + [sign for sign in signs if sign[0] < level][:1]
    reported = reported + [sign for sign in agreeing(groups) if sign[0] < level]
    if not reported:
        return None
    listed = "; ".join(
        f"{words} (probability at most {_shown(bound)} under the stated law)" for bound, words in reported
    )
    laws = ", ".join(dict.fromkeys(str(measured.law) for measured in measurements if measured.law.independent))
    return (
        f"{listed}. The numbers do not follow the stated law ({laws}), whatever the true table: it seems that they were "
        "clipped, rounded or made consistent after the noise was added, or that the law is another one, and a posterior would be "
        "wrong. Ask for the noisy numbers from before that. If you know what was done, say so "
        "(postprocessing='clipped at zero', or --postprocessing), and they are refused; numbers clipped to public bounds have a "
        "law of their own (such as boundary-inflated-discrete-laplace), and so have true counts that were rounded (random-rounding, "
        "conventional-rounding). Numbers that follow their law are warned about with "
        f"probability below {EVERYTHING if perturbed else FALSE_ALARMS:g}"
    )


def warn_if_post_processed(
    measurements: Iterable[Measured],
    exact: Iterable[Exact],
    groups: Sequence[Differences] | None = None,
    stacklevel: int = 2,
) -> None:
    """Warn of `signs_of_post_processing`.

    Warns
    -----
    PostProcessedWarning
    """
    reported = signs_of_post_processing(measurements, exact, groups)
    if reported is not None:
        warnings.warn(reported, PostProcessedWarning, stacklevel=stacklevel + 1)


def _shown(bound: float) -> str:
    return f"{max(bound, 1e-99):.0e}"

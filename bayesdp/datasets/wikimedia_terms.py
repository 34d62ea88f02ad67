"""Under which law and threshold Wikimedia published its differentially private page views: by day, and by country."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from dataclasses import dataclass

from bayesdp._validate import positive_integer, shown
from bayesdp.noise import DiscreteGaussian, DiscreteLaplace
from bayesdp.noise.base import NoiseLaw


@dataclass(frozen=True)
class WikimediaTerms:
    """The law of the noise, and the number that a noisy count had to be above to be published.

    Parameters
    ----------
    law : NoiseLaw
        Of whole numbers.
    threshold : int
        Rows are published if their noisy count is above it.

    Raises
    ------
    TypeError, ValueError
        If the law is none of independent whole numbers, or the threshold is not a positive whole number.

    Examples
    --------
    >>> WIKIMEDIA_TERMS["laplace-30"]
    WikimediaTerms(law=DiscreteLaplace(b=30.0), threshold=450)
    """

    law: NoiseLaw
    threshold: int

    def __post_init__(self) -> None:
        if not isinstance(self.law, NoiseLaw):
            raise TypeError(f"law must be a noise law such as DiscreteGaussian(sigma=18.26), got {self.law!r}")
        if not (self.law.integer and self.law.independent):
            raise ValueError(
                f"law must be one of independent whole numbers, got {self.law.name!r}: page views are published whole"
            )
        positive_integer(self.threshold, "threshold")

    @classmethod
    def on(cls, day: dt.date | str, country: str) -> WikimediaTerms:
        """The documented terms of a country on a day.

        Parameters
        ----------
        day : datetime.date or str
            Such as "2023-02-06".
        country : str
            Its code, such as "AU".

        Raises
        ------
        ValueError
            If the day is none or before July 2015, or the terms depended on the risk of that country, which is in no file.

        Examples
        --------
        >>> WikimediaTerms.on("2023-02-05", "AU"), WikimediaTerms.on("2023-02-06", "AU").threshold
        (WikimediaTerms(law=DiscreteLaplace(b=30.0), threshold=450), 90)
        """
        when = day if isinstance(day, dt.date) else dt.date.fromisoformat(day)
        return terms_of(when, {country: country}, {})[0]


def _gaussian(rho: float) -> DiscreteGaussian:
    """Noise for the first ten views of a device: it changes ten counts by one each, an l2 change of at most sqrt(10).

    With rho = 0.015 sigma is 18.26, and 1.96 sigma 35.8: the README's 95 % interval of 35.7. Its "noise scale 10" is no sigma.
    """
    return DiscreteGaussian(sigma=math.sqrt(10.0 / (2.0 * rho)))


WIKIMEDIA_TERMS: Mapping[str, WikimediaTerms] = {
    "laplace-300": WikimediaTerms(DiscreteLaplace(b=300.0), 3500),
    "laplace-30": WikimediaTerms(DiscreteLaplace(b=30.0), 450),
    "gaussian-lower": WikimediaTerms(_gaussian(0.015), 90),
    "gaussian-medium": WikimediaTerms(_gaussian(6.166e-4), 550),
    "gaussian-higher": WikimediaTerms(_gaussian(1.546e-4), 1000),
}
"""Terms by name: of 2015 to 8 February 2017, of 9 February 2017 to 5 February 2023, and from then on by the risk of the country."""

_FIRST, _SECOND, _THIRD = dt.date(2015, 7, 1), dt.date(2017, 2, 9), dt.date(2023, 2, 6)
_TIERS = dt.date(2024, 2, 15)
_REPAIRED = frozenset(
    dt.date(2023, *own) for own in ((6, 19), (10, 25), (11, 13), (11, 17), (11, 19), (11, 23), (11, 27))
)
_LAST_OF_GAP = dt.date(2023, 9, 19)

_NOT_ALWAYS_LOWER = frozenset(
    "AE AF AZ BD BH BT BY CN CU DJ EG ER ET HK HN IQ IR KH KP KW KZ LA MM MO NI OM PK PS RU RW SA SD SY TJ TM TR UZ VE VN YE".split()
)
"""Countries that were of medium or higher risk, or protected altogether, on some version of the Country and Territory Protection
List from 2024 on. Which version held on a day is not in the files, so these are asked for and never guessed."""


def terms_of(day: dt.date, countries: Mapping[str, str], stated: Mapping[str, WikimediaTerms]) -> list[WikimediaTerms]:
    """The terms of some countries (code to name) on a day: those that are stated, else the documented ones."""
    if day < _FIRST:
        raise ValueError(
            f"date must be {_FIRST} or later, from when on Wikimedia publishes noisy page views, got {day}"
        )
    unknown = [code for code in stated if code not in countries]
    if unknown:
        raise ValueError(f"terms are stated for {shown(unknown)}, but the countries are {shown(countries)}")
    return [stated[code] if code in stated else _documented(day, code, name) for code, name in countries.items()]


def _documented(day: dt.date, code: str, name: str) -> WikimediaTerms:
    if day < _SECOND:
        return WIKIMEDIA_TERMS["laplace-300"]
    if day < _THIRD or day in _REPAIRED:
        return WIKIMEDIA_TERMS["laplace-30"]
    if code == "US" and day <= _LAST_OF_GAP:
        return WIKIMEDIA_TERMS["laplace-30"]
    if day >= _TIERS and code in _NOT_ALWAYS_LOWER:
        raise ValueError(
            f"terms of {name!r} ({code}) must be stated: from {_TIERS} on noise and threshold depend on the risk of a country, "
            f"and that of {code} is not, or was not always, the lower one. Look it up in the Country and Territory Protection List of "
            f"that day, and give terms={{{code!r}: 'gaussian-medium'}} or 'gaussian-higher', 'gaussian-lower', or a WikimediaTerms; "
            "or leave the country out"
        )
    return WIKIMEDIA_TERMS["gaussian-lower"]

"""Who publishes data with a noise law, as far as public documents say so; by the law's name in files."""

from __future__ import annotations

__all__ = ["PUBLISHERS"]

_NONE = "No agency that we know of. "

PUBLISHERS: dict[str, str] = {
    "discrete-gaussian": "US Census Bureau: the noisy measurement files of the 2020 Census (redistricting data and the Demographic "
    "and Housing Characteristics File), read by `bayesdp.datasets.read_nmf`.",
    "discrete-laplace": _NONE
    + "It is the geometric mechanism, which libraries for differential privacy offer for counts.",
    "gaussian": "Facebook and Social Science One: the Privacy-Protected Full URLs Data Set of 2020.",
    "laplace": "Google: the COVID-19 Community Mobility Reports, whose numbers were changed after the noise (small ones are missing).",
    "tulap": _NONE + "Awan and Slavković (2018) use it for uniformly most powerful tests.",
    "canonical": _NONE + "Awan and Vadhan (2023) define it for any trade-off function.",
    "truncated-laplace": _NONE + "Liu (2019) truncates Laplace noise to the bounds of a statistic.",
    "boundary-inflated-laplace": _NONE
    + "Liu (2019); numbers that were clipped to their bounds after Laplace noise have this law.",
    "truncated-gaussian": _NONE + "Numbers that are drawn again until they are within bounds have such a law.",
    "boundary-inflated-gaussian": _NONE
    + "Numbers that were clipped to public bounds after Gaussian noise have this law.",
    "truncated-discrete-laplace": _NONE + "The counts' version of the truncated Laplace law.",
    "boundary-inflated-discrete-laplace": _NONE
    + "Counts that were clipped at zero after discrete Laplace noise, and at an upper bound, "
    "have this law.",
    "boundary-inflated-discrete-gaussian": _NONE
    + "Counts that were clipped at zero after discrete Gaussian noise, and at an upper bound, "
    "have this law.",
    "rescaled-laplace": _NONE + "Liu (2019): proportions that were divided by their sum after the noise.",
    "lattice-laplace": _NONE + "Dharangutte, Gao, Gong and Yu (2023).",
    "lattice-gaussian": _NONE + "Dharangutte, Gao, Gong and Yu (2023).",
    "projected-gaussian": _NONE + "Gao, Gong and Yu (2022).",
    "projected-laplace": _NONE + "Gao, Gong and Yu (2022).",
    "extended-laplace": _NONE + "Gao, Gong and Yu (2022).",
    "correlated-gaussian": _NONE + "Gaussian noise on a subspace, of the shape that a query needs.",
    "subspace-norm": _NONE + "Noise by a norm, on the subspace that the invariants leave.",
    "k-norm": _NONE + "Hardt and Talwar (2010), on the subspace that the invariants leave.",
    "semi-k-norm": _NONE + "Cho and Awan (2024), for Semi-DP.",
    "censored": "Wikimedia Foundation: page views by country with noise, of which rows below a release threshold are left out.",
    "rounded": "Whoever adds Laplace or Gaussian noise, drawn as real numbers, and publishes whole numbers or one decimal.",
    "random-rounding": "Stats NZ (counts to base 3) and Statistics Canada (census counts to base 5).",
    "conventional-rounding": "Many statistical offices, to the nearest 5 or 10; HESA in the United Kingdom to the nearest 5.",
    "cell-key": "The Australian Bureau of Statistics (TableBuilder), the Office for National Statistics (Census 2021 of England and "
    "Wales) and Destatis (Zensus 2022 in Germany). Their parameters are public in part only.",
    "unknown-perturbation": "Offices that perturb counts by cell keys and keep their table of probabilities: the Australian Bureau of "
    "Statistics (2016 Census DataPacks).",
    "transition-table": "Any office whose table of probabilities is public.",
}
"""A sentence or two for each law. "No agency that we know of" is what it says: nobody has told us."""

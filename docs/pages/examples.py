"""A small example of each mechanism, to show the guarantee of: those of the calibration, and the others."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import bayesdp as bdp
from bayesdp import mechanisms
from bayesdp.papers import bounded_statistics, covariance_cone
from bayesdp.privacy import approximate_dp
from pages import calibrated

__all__ = ["MECHANISMS", "WITHOUT", "guarantee_text", "instances", "page"]

_PAIR = {"sex": ["men", "women"], "admission": ["yes", "no"]}
_LINE = {"county": ["Alpha", "Beta", "Gamma"]}


def _either() -> mechanisms.PublishedChoice:
    total = bdp.Totals(_LINE)
    return mechanisms.PublishedChoice(
        [mechanisms.ExtendedLaplace(total, epsilon=0.5), mechanisms.KNorm(total, epsilon=0.25)], [0.1, 0.9]
    )


MECHANISMS: dict[str, Callable[[], Any]] = {
    "AllButOne": lambda: bounded_statistics.AllButOne(1.0, 50, ["a", "b", "c"], last="a"),
    "RescaledProportions": lambda: bounded_statistics.RescaledProportions(1.0, 50, ["a", "b", "c"]),
    "UniversalHistogram": lambda: bounded_statistics.UniversalHistogram(1.0, 50, ["a", "b", "c", "d"]),
    "MultipleSynthesis": lambda: bounded_statistics.MultipleSynthesis.split(
        bounded_statistics.RescaledProportions, 1.0, 200, ["a", "b", "c"], parts=5
    ),
    "CovarianceMatrix": lambda: covariance_cone.CovarianceMatrix(
        1.0, 200, [(-3.0, 3.0), (-4.5, 4.5)], ["height", "weight"]
    ),
    "PublishedChoice": _either,
    "SemiCanonical": lambda: mechanisms.SemiCanonical(bdp.Margins(_PAIR, ["sex"], ["admission"]), approximate_dp(1.0)),
    "TruncatedGaussian": lambda: mechanisms.TruncatedGaussian(1.0, (0.0, 2.0), rho=0.5),
    "BoundaryInflatedGaussian": lambda: mechanisms.BoundaryInflatedGaussian(1.0, (0.0, 2.0), rho=0.5),
}
"""By the name of the class in `bayesdp.mechanisms`, or in a module of `bayesdp.papers`."""

WITHOUT = frozenset(
    {"Mechanism", "AdditiveMechanism", "StatisticMechanism", "ProportionMechanism", "SemiProjectedMechanism"}
)
"""Bases of mechanisms, and what `semi_project` makes of noise that users bring."""


@cache
def instances() -> dict[str, Any]:
    """An example of each mechanism, by the name of its class."""
    found = {type(made).__name__: made for made in calibrated.cases().values()}
    return found | {name: make() for name, make in MECHANISMS.items()}


def guarantee_text(made: Any) -> str:
    """What the example protects, in its own words."""
    if isinstance(made, mechanisms.PublishedChoice):
        return "\n\n".join(str(own) for own in made.guarantees)
    if isinstance(made, bounded_statistics.MultipleSynthesis):
        made = made.mechanisms[0]
    return str(made.guarantee)


def page(kind: str) -> str:
    """The page of a mechanism, for links: under `bayesdp` where it has its name there."""
    if kind not in mechanisms.__all__:
        return f"/made/reference/{type(instances()[kind]).__module__}"
    package = "bayesdp" if getattr(bdp, kind, None) is getattr(mechanisms, kind) else "bayesdp.mechanisms"
    return f"/made/reference/{package}.{kind}"

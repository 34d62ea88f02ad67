"""One scale from what a methods note states: the scale itself, a privacy parameter with a sensitivity, or a variance."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bayesdp._validate import shown
from bayesdp.noise.arrays import positive_scale
from bayesdp.noise.base import Floats


@dataclass(frozen=True)
class Ways:
    """The ways in which the scale of a law may be stated: names, and functions of arrays that give the scale."""

    scale: str
    loss: str  # the privacy parameter that gives the scale together with `sensitivity`
    from_loss: Callable[[Floats, Floats], Floats]
    from_variance: Callable[[Floats], Floats]
    relation: str  # these formulas, for messages

    @property
    def others(self) -> tuple[str, ...]:
        """Names of the parameters that may stand in place of the scale."""
        return (self.loss, "sensitivity", "variance", "standard_deviation")

    def value(self, law: str, stated: Mapping[str, Any], wrong: Mapping[str, Any]) -> float | Floats:
        """The scale of a law of that name, from what was stated: one of the scale and `others`, None where nothing was given."""
        # TypeError if there is a `wrong` parameter, one that no law of this kind has, or nothing was stated; ValueError for the
        # rest.
        if wrong:
            raise TypeError(f"noise law {law!r} has no parameter {shown(wrong)}; it takes {self.relation}")
        given = {name: value for name, value in stated.items() if value is not None}
        if not given:
            raise TypeError(f"{self.scale} must be a positive real number, got None; {law} takes {self.relation}")
        if set(given) == {self.scale}:
            return positive_scale(given[self.scale], self.scale)
        numbers = {name: np.asarray(positive_scale(value, name), dtype=np.float64) for name, value in given.items()}
        if set(given) == {self.loss, "sensitivity"}:
            found = self.from_loss(numbers[self.loss], numbers["sensitivity"])
        elif set(given) == {"variance"}:
            found = self.from_variance(numbers["variance"])
        elif set(given) == {"standard_deviation"}:
            found = self.from_variance(numbers["standard_deviation"] ** 2)
        elif set(given) <= {self.loss, "sensitivity"}:
            missing = "sensitivity" if self.loss in given else self.loss
            raise ValueError(f"{next(iter(given))} needs {missing} beside it: {law} takes {self.relation}")
        else:
            raise ValueError(f"{' and '.join(given)} state the scale of {law} more than once; it takes {self.relation}")
        return positive_scale(found if found.ndim else float(found), self.scale)


def _laplace_loss(epsilon: Floats, sensitivity: Floats) -> Floats:
    return np.asarray(sensitivity / epsilon)


def _gaussian_loss(rho: Floats, sensitivity: Floats) -> Floats:
    return np.asarray(sensitivity / np.sqrt(2.0 * rho))


def _discrete_laplace_variance(variance: Floats) -> Floats:
    """The variance is ``2 q / (1 - q)**2 = 1 / (2 sinh(1 / (2 b))**2)`` with ``q = exp(-1 / b)``."""
    return np.asarray(0.5 / np.arcsinh(1.0 / np.sqrt(2.0 * variance)))


def _discrete_gaussian_variance(variance: Floats) -> Floats:
    if np.any(variance < 1.0):
        raise ValueError(
            "variance must be at least 1 for the discrete Gaussian, got "
            f"{float(np.min(variance)):g}: below that sigma**2 and the variance of the noise are two numbers, and notes call "
            "either the variance; give sigma"
        )
    return np.asarray(np.sqrt(variance))


_L1 = (
    "b, or epsilon with sensitivity, the largest change of all answers together (l1) that epsilon is for: "
    "b = sensitivity / epsilon"
)
_L2 = (
    "sigma, or rho (zCDP) with sensitivity, the largest l2 change of the answers that rho is for: sigma = sensitivity / "
    "sqrt(2 rho)"
)
_NO_EPSILON = (
    "epsilon and delta give a sigma by several formulas, so look it up, or take it from mechanisms.DiscreteGaussian(table, "
    "epsilon=..., delta=...).sigma"
)

LAPLACE = Ways(
    "b",
    "epsilon",
    _laplace_loss,
    lambda variance: np.asarray(np.sqrt(0.5 * variance)),
    f"{_L1}; or variance = 2 b**2, or standard_deviation",
)
DISCRETE_LAPLACE = Ways(
    "b",
    "epsilon",
    _laplace_loss,
    _discrete_laplace_variance,
    f"{_L1}; or variance = 1 / (2 sinh(1 / (2 b))**2), or standard_deviation",
)
GAUSSIAN = Ways(
    "sigma",
    "rho",
    _gaussian_loss,
    lambda variance: np.asarray(np.sqrt(variance)),
    f"{_L2}; or variance = sigma**2, or standard_deviation; {_NO_EPSILON}",
)
DISCRETE_GAUSSIAN = Ways(
    "sigma",
    "rho",
    _gaussian_loss,
    _discrete_gaussian_variance,
    f"{_L2}; or variance = sigma**2 (from 1 on), or standard_deviation; {_NO_EPSILON}",
)


class _Stated:
    """A law whose scale is worked out by its `Ways` when it is made."""

    name: ClassVar[str]
    ways: ClassVar[Ways | None]

    def _set_scale(self, wrong: Mapping[str, Any], **stated: Any) -> None:
        assert self.ways is not None
        object.__setattr__(self, self.ways.scale, self.ways.value(self.name, stated, wrong))


class StatedByEpsilon(_Stated):
    """The constructor of laws with scale b."""

    def __init__(
        self,
        b: Any = None,
        *,
        epsilon: Any = None,
        sensitivity: Any = None,
        variance: Any = None,
        standard_deviation: Any = None,
        **wrong: Any,
    ) -> None:
        stated = {"b": b, "epsilon": epsilon, "sensitivity": sensitivity}
        self._set_scale(wrong, **stated, variance=variance, standard_deviation=standard_deviation)


class StatedByRho(_Stated):
    """The constructor of laws with scale sigma."""

    def __init__(
        self,
        sigma: Any = None,
        *,
        rho: Any = None,
        sensitivity: Any = None,
        variance: Any = None,
        standard_deviation: Any = None,
        **wrong: Any,
    ) -> None:
        stated = {"sigma": sigma, "rho": rho, "sensitivity": sensitivity}
        self._set_scale(wrong, **stated, variance=variance, standard_deviation=standard_deviation)

"""Whether what a release of statistics says of its mechanism and its guarantee is true of its law.

What `bayesdp.mechanisms.stated.tables` is for tables: the mechanism is made again from its description, and law and
guarantee have to be its own. Of a mechanism that is not described the law alone is known. It loses a certain amount at least,
whatever the statistics are, and no guarantee may state less.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, cast

import numpy as np

from bayesdp._validate import shown
from bayesdp.mechanisms.bounded.covariance import CovarianceMatrix
from bayesdp.mechanisms.bounded.described import DescribedMechanism
from bayesdp.mechanisms.bounded.joint_covariance import JointCovariance
from bayesdp.mechanisms.bounded.proportion_base import ProportionMechanism
from bayesdp.mechanisms.bounded.statistic_release import names_of
from bayesdp.mechanisms.bounded.statistics import StatisticMechanism
from bayesdp.mechanisms.stated.agreement import alike, check_loss, check_person, words
from bayesdp.mechanisms.stated.covariance import PublishedElements, published_elements
from bayesdp.mechanisms.stated.gaussian_laws import check_gaussian_law
from bayesdp.noise import (
    BoundaryInflatedGaussian,
    BoundaryInflatedLaplace,
    BoxNorm,
    NoiseLaw,
    RescaledLaplace,
    TruncatedGaussian,
    TruncatedLaplace,
)
from bayesdp.privacy import EXACT_SAMPLER, Guarantee
from bayesdp.privacy.loss import LOSS_KINDS, Loss
from bayesdp.privacy.losses import PureDP
from bayesdp.release import Measured, Release

__all__ = ["check_guarantee", "check_statistics"]

type _Described = StatisticMechanism | ProportionMechanism | PublishedElements


def check_statistics(release: Release, composed: int = 0) -> None:
    """Check a release of statistics."""
    # `composed`: of how many releases its mechanism is the composition; 0 if it is none.
    if composed:
        _check_total(release, composed)
        return
    if release.mechanism is not None:
        if len(release.measurements) != 1:
            raise ValueError(
                f"the mechanism {release.mechanism.get('mechanism')!r} publishes statistics once, but there are "
                f"{len(release.measurements)} measurements"
            )
        mechanism = _rebuilt(release.mechanism, release.measurements[0], release.guarantee)
        _same_measurement(mechanism, release, release.measurements[0])
    if release.guarantee is not None:
        own = mechanism.guarantee if release.mechanism is not None else None
        check_guarantee(own, release.guarantee, release.simulated, "the statistics", release.mechanism)
        if own is None:
            for measured in release.measurements:
                _check_by_law(measured.law, measured.query.shape if names_of(release) else (), release.guarantee)


def _check_total(release: Release, count: int) -> None:
    """Of several releases of one statistic: each mechanism has a measurement of its own, and what they lose adds up."""
    parts = (release.mechanism or {}).get("releases")
    unknown = sorted(set(release.mechanism or {}) - {"mechanism", "composition_of", "releases", "total_loss"})
    if unknown:
        raise ValueError(f"the mechanism of a composition of statistics has no key {shown(unknown)}")
    if not isinstance(parts, list) or len(parts) != count:
        raise ValueError("the mechanism of a composition must list the mechanisms of all releases")
    if len(parts) != len(release.measurements):
        raise ValueError(f"a composition of {len(parts)} releases has {len(release.measurements)} measurements")
    least: list[Loss] = []
    for part, measured in zip(parts, release.measurements, strict=True):
        if part is not None:
            mechanism = _rebuilt(part, measured)
            _same_measurement(mechanism, release, measured)
            least.append(_loss_of(mechanism))
    if release.guarantee is None:
        return
    check_guarantee(None, release.guarantee, release.simulated, "the statistics")
    # Of others a part of the loss alone.
    known = all(part is not None and ("epsilon" in part or "rho" in part) for part in parts)
    for stated in (release.guarantee.parameters.loss, *(row.loss for row in release.guarantee.pairs)):
        _check_sum(stated, least, known)


def _loss_of(mechanism: _Described) -> Loss:
    return mechanism.true_loss if isinstance(mechanism, StatisticMechanism) else PureDP(mechanism.true_epsilon)


def _check_sum(stated: Loss, parts: Sequence[Loss], known: bool) -> None:
    """A stated total is the sum of the losses of the parts; no less, where not all of them are known."""
    for kind in (kind for kind in LOSS_KINDS if stated.stated(kind) is not None):
        own = [part.stated(kind) for part in parts]
        if any(part is None for part in own):
            raise ValueError(f"the guarantee states {stated}, but a mechanism states no {LOSS_KINDS[kind]}")
        if not own:
            continue
        total = reduce(lambda one, two: one.compose(two), [part for part in own if part is not None])
        for name, value in stated.stated(kind).items():  # type: ignore[union-attr]  # it was asked above
            if not alike(value, total[name]) and (value < total[name] or known):
                raise ValueError(
                    f"the guarantee states {name} = {value!r}, but the mechanisms together have {name} = {total[name]!r}"
                )


def check_guarantee(
    own: Guarantee | None, stated: Guarantee, simulated: bool, what: str, mechanism: Mapping[str, Any] | None = None
) -> None:
    """Check a guarantee of statistics against the one that follows from the mechanism, where that is known."""
    # `simulated`: of the release. `what`: what is released. `mechanism`: its description.
    if stated.simulated != simulated:
        raise ValueError(
            f"simulated of the release is {simulated}, but simulated of its guarantee is {stated.simulated}: either the noise came "
            "from a generator whose seed somebody may know, or it did not"
        )
    if stated.determined_cells or stated.determined_complete is not None:
        named = shown(list(stated.determined_cells)) or f"determined_complete = {stated.determined_complete}"
        raise ValueError(f"the guarantee speaks of determined cells, {named}, but {what} have no cells")
    if own is None:
        return
    who = f"the mechanism {mechanism['mechanism']!r}" if mechanism else f"the noise of {what}"
    check_loss(own, stated, who)
    if stated.sampler != EXACT_SAMPLER:
        raise ValueError(
            f"the guarantee's sampler is {stated.sampler!r}, but noise of {who} is drawn {EXACT_SAMPLER!r}ly"
        )
    check_person(stated.person, [own.person], who)


def _rebuilt(description: Any, measured: Measured, stated: Guarantee | None = None) -> _Described:
    try:
        if isinstance(description, Mapping) and description.get("mechanism") == CovarianceMatrix.name:
            return published_elements(description, measured, stated)
        made: Any = DescribedMechanism.from_description(description)
        if isinstance(made, JointCovariance):
            return PublishedElements(made.query, made.law, made.guarantee, made.name)
    except (TypeError, ValueError, ArithmeticError) as error:
        raise ValueError(f"mechanism: {error}") from None
    return cast("_Described", made)


def _same_measurement(mechanism: _Described, release: Release, measured: Measured) -> None:
    """Names, law and query of a measurement are those of the mechanism."""
    names = names_of(release)
    if mechanism.names != names:
        mine, theirs = (shown(each) if each else "a single one without a name" for each in (mechanism.names, names))
        raise ValueError(
            f"the mechanism {mechanism.name!r} publishes statistics of names {mine}, but released are {theirs}"
        )
    _same_law(mechanism, measured.law)
    own, asked = mechanism.query, measured.query
    # Which elements of a matrix are left out follows from the released variances.
    left_out = measured.unmeasured.any() and not isinstance(mechanism, PublishedElements)
    if own.matrix.shape != asked.matrix.shape or (own.matrix != asked.matrix).nnz or left_out:
        raise ValueError(
            f"the mechanism {mechanism.name!r} measures {shown(own.names)}, but measured are "
            f"{shown(asked.names)} by another linear map, or not all of them"
        )


def _same_law(mechanism: _Described, law: NoiseLaw) -> None:
    mine, theirs = mechanism.law.describe(), law.describe()
    if not alike(mine, theirs):
        raise ValueError(
            f"the mechanism {mechanism.name!r} has noise of the law {words(mine)}, but the release says {words(theirs)}"
        )


def _check_by_law(law: NoiseLaw, shape: tuple[int, ...], stated: Guarantee) -> None:
    """Whether a guarantee states less than the law loses at any rate, for want of a mechanism that would say it exactly.

    Statistics at one bound are told apart from others by values there. Clipped, the mass or density at the other bound differs by
    exactly exp(distance / b); truncated, that at the bound itself by this and the ratio of the normalisers, which is above 1.
    Of several scales the largest is taken. Shares with all of the mass in one category have a density that differs between
    proportions (1, 0, ...) and (1 - d/2, d/2, 0, ...), which are d apart, by exp(d / (2 b)) for the share that is 0, and by factors
    above 1 for the share that is 1. Noise of vectors loses the largest difference in scales: of one of a length in a norm, the least
    where all entries differ by equally many scales.
    """
    if stated.kind == "pure" and isinstance(law, BoxNorm):
        _check_vectors(law, shape, stated)
        return
    if isinstance(law, (TruncatedGaussian, BoundaryInflatedGaussian)):
        check_gaussian_law(law, shape, stated)
        return
    if stated.kind != "pure" or not isinstance(law, (TruncatedLaplace, BoundaryInflatedLaplace, RescaledLaplace)):
        return
    if stated.unit != "l1" and shape:
        return
    if isinstance(law, RescaledLaplace):
        room, scale = 2.0, 2.0 * float(np.max(law.b))
    else:
        low, high = (np.broadcast_to(np.asarray(side, dtype=np.float64), shape) for side in law.bounds)
        room, scale = float(np.sum(high - low)), float(np.max(law.b))
    for size, epsilon in _claims(stated, "l1"):
        _at_least(law, size, epsilon, min(size, room) / scale)


def _claims(stated: Guarantee, norm: str) -> list[tuple[float, float]]:
    """Lengths and the epsilons that are stated for them: of the whole guarantee, then of its rows in a norm."""
    claims = [(stated.parameters.get("sensitivity", 1.0), stated.parameters["epsilon"])]
    return claims + [
        (row.size, row.loss["epsilon"]) for row in stated.pairs if row.norm == norm and "epsilon" in row.loss
    ]


def _at_least(law: NoiseLaw, size: float, epsilon: float, least: float) -> None:
    if epsilon < least and not alike(epsilon, least):
        raise ValueError(
            f"the guarantee states epsilon = {epsilon!r} for statistics that are {size!r} apart, but noise of the law "
            f"{words(law.describe())} loses at least epsilon = {least!r} there"
        )


def _check_vectors(law: BoxNorm, shape: tuple[int, ...], stated: Guarantee) -> None:
    scales = np.broadcast_to(np.asarray(law.b), shape).reshape(-1)
    norms = {"l1": float(scales.sum()), "l2": float(np.linalg.norm(scales)), "linf": float(scales.max())}
    for norm, unit in norms.items():
        claims = _claims(stated, norm)
        for size, epsilon in claims if norm == stated.unit else claims[1:]:
            _at_least(law, size, epsilon, size / unit)

"""What releases of statistics may state of their privacy: worked out again from the mechanism.

Whether what a release of statistics says of its mechanism and its guarantee is true of its law.

What `bayesdp.mechanisms.stated.tables` is for tables: the mechanism is made again from its description, and law and
guarantee have to be its own. Of a mechanism that is not described the law alone is known. It loses a certain amount at least,
whatever the statistics are, and no guarantee may state less.

Whether two descriptions say the same, and whether a guarantee states the losses that follow from a mechanism.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np

from bayesdp._validate import shown
from bayesdp.mechanisms.bounded.statistic_release import names_of
from bayesdp.mechanisms.bounded.statistics import DescribedMechanism, StatisticMechanism
from bayesdp.noise import (
    BoundaryInflatedGaussian,
    BoundaryInflatedLaplace,
    NoiseLaw,
    TruncatedGaussian,
    TruncatedLaplace,
)
from bayesdp.privacy import (
    EXACT_SAMPLER,
    Guarantee,
    PairLoss,
)
from bayesdp.privacy.caveats import Sentence
from bayesdp.privacy.loss import LOSS_KINDS, Loss
from bayesdp.privacy.losses import PureDP
from bayesdp.privacy.words import OnePerson
from bayesdp.release import Measured, Release

_ROUNDING = 1e-6
"""Relative difference up to which two numbers are one: laws come from root finding, and another machine rounds otherwise."""

LOSS = ("epsilon", "delta", "rho", "mu")
"""Names of privacy parameters."""


def check_loss(own: Guarantee, stated: Guarantee, who: str) -> None:
    """Check kind, unit, parameters and rows of a guarantee against `own`, which follows from the mechanism `who`.

    The guarantee may leave rows out. ValueError if a number differs; the message names both sides.
    """
    for key in ("kind", "unit"):
        mine, theirs = getattr(own, key), getattr(stated, key)
        if mine != theirs:
            raise ValueError(f"the guarantee's {key} is {theirs!r}, but that of {who} is {mine!r}")
    if not alike(dict(own.parameters), dict(stated.parameters)):
        raise ValueError(
            f"the guarantee states {words(stated.parameters)}, but noise of {who} as described has {words(own.parameters)}"
        )
    for row in stated.pairs:
        _check_row(row, own, who)


def _check_row(row: PairLoss, own: Guarantee, who: str) -> None:
    """A row of the guarantee is a row of the mechanism; a row of which only a sentence is known is compared by norm and length."""
    same_pairs = [mine for mine in own.pairs if mine.about == row.about]
    same_length = [mine for mine in own.pairs if mine.norm == row.norm and alike(mine.size, row.size)]
    if any(_row_agrees(row, mine) for mine in same_pairs or (same_length if isinstance(row.about, Sentence) else [])):
        return
    claim = f"{words(row.loss)} at {row.norm} distance {row.size:.10g} ({row.relation})"
    mine = "; ".join(f"{words(own.loss)} at {own.norm} distance {own.size:.10g} ({own.relation})" for own in own.pairs)
    raise ValueError(f"the guarantee states {claim}, but {who} has {mine or 'no such row'}")


def _row_agrees(row: PairLoss, mine: PairLoss) -> bool:
    same = row.norm == mine.norm and alike(row.size, mine.size) and set(row.loss) <= set(mine.loss)
    if "epsilon" in row.loss and "delta" in mine.loss and "delta" not in row.loss:
        return False  # an epsilon without its delta is another claim: pure differential privacy
    return same and all(alike(value, mine.loss[name]) for name, value in row.loss.items())


def alike(one: Any, other: Any) -> bool:
    """Whether two descriptions say the same, up to rounding of real numbers."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return set(one) == set(other) and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, str | bool | None) or isinstance(other, str | bool | None):
        return bool(one == other)
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other) == 2:
        return all(map(alike, one, other))  # bounds: one side may be a number, and the other a list
    try:
        mine, theirs = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)
    except OverflowError:  # a whole number beyond all floats
        return bool(one == other)
    return mine.shape == theirs.shape and bool(np.allclose(mine, theirs, rtol=_ROUNDING, atol=0.0, equal_nan=True))


def check_person(stated: str, own: Sequence[str], who: str) -> None:
    """Check that what is said of one person's record is one of those that are true, or nothing ("").

    Files of older versions have a sentence in place of numbers. ValueError if something else is said; the message has both sides.
    """
    if isinstance(stated, OnePerson):
        true = any(isinstance(way, OnePerson) and alike(stated.describe(), way.describe()) for way in own)
    else:
        true = not stated or stated in own
    if not true:
        raise ValueError(f"person says {str(stated)!r}, but {who} says {repr(str(own[0])) if own[0] else 'nothing'}")


def words(description: Mapping[str, Any]) -> str:
    """A law or a loss in a few words, with all digits."""
    texts = []
    for key, value in description.items():
        if isinstance(value, list) and (len(value) > 2 or any(isinstance(own, list) and len(own) > 2 for own in value)):
            sizes = {np.shape(own) for own in value}
            shape = (len(value), *sizes.pop()) if len(sizes) == 1 else (sum(map(np.size, value)),)
            value = f"<{' × '.join(map(str, shape))} numbers>"
        texts.append(
            f"{value}" if key == "law" else f"{key} = {value!r}" if not isinstance(value, str) else f"{key} = {value}"
        )
    return ", ".join(texts)


_REACH = 12.0
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(200)


def check_gaussian_law(
    law: TruncatedGaussian | BoundaryInflatedGaussian, shape: tuple[int, ...], stated: Guarantee
) -> None:
    """Refuse a guarantee that states less than the law loses for two values of one statistic that are as far apart as it says."""
    # The values lie symmetrically about the middle of the bounds, or 12 standard deviations from the only bound. What they lose is
    # compared by the divergence of order 1, which rho and half of the square of mu are not below, and by delta at the stated
    # epsilon. For vectors nothing is known of the single statistics.
    if shape:
        return
    claims: list[tuple[float, Loss]] = [(stated.parameters.size, stated.parameters.loss)]
    claims += [(row.size, row.loss) for row in stated.pairs if row.norm in ("l1", "l2", "linf")]
    for size, loss in claims:
        divergence, first, second = _of_pair(law, size)
        told = {
            kind: part for kind in ("zcdp", "gdp", "pure", "approximate") if (part := loss.stated(kind)) is not None
        }
        for kind, part in told.items():
            name, slack, there = {"zcdp": "rho", "gdp": "mu"}.get(kind, "delta"), 0.0, ""
            if name == "delta":
                slack, there = 1e-12, f" at epsilon = {part['epsilon']!r}"
                least = float(np.sum(np.maximum(first - np.exp(np.minimum(part["epsilon"], 700.0)) * second, 0.0)))
            else:
                least = divergence if name == "rho" else float(np.sqrt(2.0 * divergence))
            value = part.get(name, 0.0)
            if value < least - slack and not alike(value, least):
                raise ValueError(
                    f"the guarantee states {name} = {value!r}{there} for statistics that are {size!r} apart, but noise of the law "
                    f"{words(law.describe())} loses at least {name} = {least!r}{there}"
                )


def _of_pair(law: TruncatedGaussian | BoundaryInflatedGaussian, size: float) -> tuple[float, np.ndarray, np.ndarray]:
    """Divergence of order 1 of two laws `size` apart, and their masses by quadrature; the atoms come first."""
    low, high, sigma = float(np.max(law.lower)), float(np.min(law.upper)), float(np.max(law.scale))
    t = min(size, high - low)
    if np.isinf(high) or np.isinf(low):
        middle = low + _REACH * sigma + t if np.isinf(high) else high - _REACH * sigma - t
    else:
        middle = 0.5 * (low + high)
    one, two = middle - 0.5 * t, middle + 0.5 * t
    start, end = max(low, one - _REACH * sigma), min(high, two + _REACH * sigma)
    y = start + 0.5 * (end - start) * (1.0 + _NODES)
    weights = np.log(0.5 * (end - start) * _WEIGHTS)
    edges = np.array([side for side in (low, high) if law.has_atoms and np.isfinite(side)])
    logs = [
        np.concatenate([law.log_each(edges, np.full(edges.shape, s)), law.log_each(y, np.full(y.shape, s)) + weights])
        for s in (one, two)
    ]
    first, second = np.exp(logs[0]), np.exp(logs[1])
    return float(np.sum(first * np.where(first > 0.0, logs[0] - logs[1], 0.0))), first, second


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


def _loss_of(mechanism: Any) -> Loss:
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


def _rebuilt(description: Any, measured: Measured, stated: Guarantee | None = None) -> Any:
    try:
        return DescribedMechanism._described(description)._that_published(description, measured, stated)
    except (TypeError, ValueError, ArithmeticError) as error:
        raise ValueError(f"mechanism: {error}") from None


def _same_measurement(mechanism: Any, release: Release, measured: Measured) -> None:
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
    left_out = measured.unmeasured.any() and not mechanism.leaves_out
    if own.matrix.shape != asked.matrix.shape or (own.matrix != asked.matrix).nnz or left_out:
        raise ValueError(
            f"the mechanism {mechanism.name!r} measures {shown(own.names)}, but measured are "
            f"{shown(asked.names)} by another linear map, or not all of them"
        )


def _same_law(mechanism: Any, law: NoiseLaw) -> None:
    mine, theirs = mechanism.law.describe(), law.describe()
    if not alike(mine, theirs):
        raise ValueError(
            f"the mechanism {mechanism.name!r} has noise of the law {words(mine)}, but the release says {words(theirs)}"
        )


def _check_by_law(law: NoiseLaw, shape: tuple[int, ...], stated: Guarantee) -> None:
    """Whether a guarantee states less than the law loses at any rate, for want of a mechanism that would say it exactly.

    Statistics at one bound are told apart from others by values there. Clipped, the mass or density at the other bound differs by
    exactly exp(distance / b); truncated, that at the bound itself by this and the ratio of the normalisers, which is above 1.
    Of several scales the largest is taken.
    What Gaussian noise within bounds loses is worked out; other laws say what they lose at least (`NoiseLaw._least_losses`).
    """
    if isinstance(law, (TruncatedGaussian, BoundaryInflatedGaussian)):
        check_gaussian_law(law, shape, stated)
        return
    if stated.kind != "pure":
        return
    losses = law._least_losses(shape)
    if isinstance(law, (TruncatedLaplace, BoundaryInflatedLaplace)):
        low, high = (np.broadcast_to(np.asarray(side, dtype=np.float64), shape) for side in law.bounds)
        losses = {"l1": (float(np.sum(high - low)), float(np.max(law.b)))}
    for norm, (room, scale) in losses.items():
        claims = _claims(stated, norm)
        for size, epsilon in claims if norm == stated.unit or not shape else claims[1:]:
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

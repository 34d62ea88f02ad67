"""Published numbers that cannot well have come from the stated law: clipped, rounded, or made consistent.

Looked for are multiples of a base, no negative number among many that are close to zero, perturbed counts that add up, and noisy
numbers that add up everywhere, which independent noise does not: these are refused, with the reason and the way out.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bayesdp._arrays import Floats, Ints, Mask
from bayesdp._text import printable
from bayesdp.measurements import Exact, Measured, described
from bayesdp.measurements.consistency.differences import Differences, agreeing, answers_of, differences_of, grid_of
from bayesdp.measurements.consistency.exact import (
    FALSE_ALARMS,
    ExactPart,
    PostProcessedWarning,
    equalities,
    meet,
    row_map,
)
from bayesdp.noise import PerturbedLaw, UnknownPerturbation, law_names
from bayesdp.queries import SumPart
from bayesdp.queries.query import has_negative_entry


@dataclass(frozen=True, eq=False)
class Published:
    """Answers with independent noise of a scale each."""

    measured: Measured
    law: Callable[[Floats], Any]  # from scales to the law of noise of these scales (`NoiseLaw.at_scales`)
    values: Floats  # shape (answers,), as all that follow
    scale: Floats
    measures: Mask  # which were published
    nonnegative: Mask  # which are sums of counts, and so at least zero in every table
    grid: float  # distance of numbers that may have been published: 1 for integer noise, else a power of ten


def published_of(measurements: Iterable[Measured]) -> list[Published]:
    """Those measurements whose noise is independent in each answer, with a law that is unbounded and has one scale."""
    # Laws that give one cell one value are left out: the same cell in two tables agrees by its making.
    found = []
    for measured in measurements:
        law: Any = measured.law
        if law.at_scales(1.0) is not None and not law.same_cell_same_value:
            values = np.asarray(measured.values, dtype=np.float64).reshape(-1)
            measures = ~measured.unmeasured.reshape(-1)
            scale = np.broadcast_to(law.scale, measured.query.shape).reshape(-1)
            grid = 1.0 if law.integer else grid_of(values[measures])
            nonnegative = ~has_negative_entry(measured.query)
            found.append(Published(measured, law.at_scales, values, scale, measures, nonnegative, grid))
    return found


BASES = (0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 25.0, 50.0, 100.0, 500.0, 1000.0)
"""Bases that are looked for; those below 2 only where noise is real, and of a scale that they matter for."""

_FINER = 10.0


def multiples(answers: Published) -> list[tuple[float, str]]:
    r"""Bounds on the probability that all numbers are multiples of a base, with words for it.

    Integer noise: a number is a multiple of r if the noise has one residue modulo r, which one depends on the confidential
    answer. Both laws are positive-definite functions of the integer, so that the residue 0 is the likeliest (the Fourier
    series of the residues' masses has no negative coefficient), and n numbers are all multiples with probability at most
    ``rho**n``, ``rho = P(r divides the noise)``. That is a ratio of two normalisers: the multiples of r have the masses of the
    same law of scale ``scale / r``.

    Real noise, published to a grid no coarser than a tenth of r: a number is a multiple of r if the noisy value is within
    half the grid of one, and the density modulo r is at most ``1 / r + f(0)`` as f falls on both sides. So ``rho`` is at most
    ``(r / 10) (1 / r + f(0))``. Bases of less than a tenth of the smallest scale are not looked for: rounding to them hardly
    changes the law.
    """
    values, scale = answers.values[answers.measures], answers.scale[answers.measures]
    integer = answers.measured.law.integer
    found = []
    for base in reversed(BASES):
        if base < (2.0 if integer else float(scale.min()) / _FINER):
            continue
        steps = values / base
        if np.all(np.abs(steps - np.rint(steps)) <= 1e-9 * np.maximum(np.abs(steps), 1.0)):
            zero = np.zeros(len(scale))
            if integer:  # P(base divides the noise)
                fine, coarse = (answers.law(own).log_mass(zero) for own in (scale, scale / base))
                share = np.exp(fine - coarse)
            else:  # a bound on the probability of falling within half the grid of a multiple
                share = base / _FINER * (1.0 / base + np.exp(answers.law(scale).log_density(zero)))
            words = f"all {len(values)} noisy numbers ({described(answers.measured.query)}) are multiples of {base:g}"
            if not integer and base == math.floor(base):
                words += ", and real noise gives no whole numbers"
                discrete = f"discrete-{answers.measured.law.name}"
                words += f", as {discrete} does" if discrete in law_names() else ""
            if not integer:
                words += f", and of rounded noise the law is 'rounded law=({answers.measured.law}) base={base:g}'"
            found.append((float(np.exp(np.sum(np.log(np.minimum(share, 1.0))))), words))
    return found


TESTS = 2
"""Windows that are looked at: exact zeros, and up to one scale."""

_SCALES = 500
"""Largest number of different scales whose answers enter the test; of more, this many, spread evenly from small to large."""
_POINTS = 640
_FAR = 40.0
_WEIGHTS = 1.0 + np.geomspace(1e-2, 1e8, 80)


def near_zero(answers: Published) -> list[tuple[float, str]]:
    r"""Bounds on the probability of what was published near zero, with words for it.

    Let the answers be ``x_i``, whole numbers of at least zero, and ``Y_i`` what is published. Under the law the `Y_i` are
    independent, with ``a(x) = P(0 <= Y <= w)`` and ``c(x) = P(Y < 0)``. For the event that none is negative and that at least
    m of them are in the window ``0 .. w``, and any ``s > 1``,

    .. math:: P \le s^{-m} \; E \Bigl[ \prod_i 1\{Y_i \ge 0\} \, s^{1\{Y_i \le w\}} \Bigr]
        = s^{-m} \prod_i \bigl(1 + (s - 1) a(x_i) - c(x_i)\bigr) \le s^{-m} \prod_i \Bigl(1 + \sup_x \{(s - 1) a(x) - c(x)\}\Bigr).

    The first step is Markov's inequality, the last one holds for every true table: clipping is told from large counts because
    a count that is often published as zero is as often published below. (For discrete Laplace noise of ratio q the supremum is
    0 at ``s = 1 / (1 - q)``: given that a number is zero or negative, it is zero with probability 1 - q.) The bound does not
    rise with m, so that the smallest over s is a p-value: reject when it is below a level, and the level bounds the rate of
    false alarms. The supremum is taken over intervals of x, with the largest a and the smallest c of each, which are at
    their ends.
    """
    known = answers.measures & answers.nonnegative
    every = np.unique(answers.scale)
    if len(every) > _SCALES:
        known &= np.isin(answers.scale, every[np.linspace(0, len(every) - 1, _SCALES).astype(np.int64)])
    values = answers.values[known]
    if not len(values) or np.any(values < -0.25 * answers.grid):
        return []
    scales = np.unique(answers.scale[known])
    which = np.searchsorted(scales, answers.scale[known])
    sizes = np.bincount(which, minlength=len(scales))
    found = []
    for wide in (False, True):
        window = np.floor(scales) if answers.measured.law.integer else scales
        window = window if wide else np.zeros(len(scales))
        near = int(np.sum(values <= window[which] + 0.25 * answers.grid))
        if near:
            gains = _gains(answers, scales, window)
            logs = -near * np.log(_WEIGHTS) + sizes @ np.log1p(gains)
            what = "at most one scale of the noise" if wide else "exactly 0"
            words = f"none of the {len(values)} noisy numbers ({described(answers.measured.query)}) is negative and {near} are {what}"
            found.append((float(np.exp(min(float(logs.min()), 0.0))), words))
    return found


def _gains(answers: Published, scales: Floats, window: Floats) -> Floats:
    """The supremum over x of ``(s - 1) a(x) - c(x)``, or 0 if that is more, shape (scales, weights)."""
    half = 0.5 * answers.grid
    gains = np.zeros((len(scales), len(_WEIGHTS)))
    for i, scale in enumerate(scales):
        size, w, law = float(scale), float(window[i]), answers.law(np.array(scale))
        step = float(max(1, math.ceil(_FAR * size / _POINTS)))
        low = np.arange(0.0, _FAR * size + w + 2.0 * step, step)
        high = low + step - 1.0  # the last whole number of the interval
        below = np.asarray(law.cdf(-half - high))
        inside = law.cdf(w + half - low) - below
        # From the end of the last interval on: all below the window at its end, and nothing surely negative.
        inside = np.append(inside, law.cdf(w + half - low[-1:] - step))
        below = np.append(below, 0.0)
        gains[i] = np.max(np.outer(_WEIGHTS - 1.0, inside) - below, axis=1, initial=0.0)
    return gains


EVERYTHING, _SOMETHING = 1e-3, 1e-6
"""Largest chance that is reported where all sums of the finest published numbers agree, and where some sets of them do."""

_PERIOD = 4096
"""Differences are added up modulo this: what is farther out is counted too, so that no chance comes out smaller."""

_DRAWS = 50_000


class _Counts(NamedTuple):
    """Sums (exact if law is None): at d, `mass` has p(y | y + d) by kind of y, and `laws` the chance of y + d given y."""

    part: SumPart
    values: Ints
    known: Mask
    law: Any
    mass: Floats
    kind: Ints
    laws: Floats
    law_of: Ints


class _Total(NamedTuple):
    """Sums of finer counts: into which each of these goes, and which sums say something that is not certain."""

    counts: _Counts
    target: Ints
    agree: bool
    open: Mask

    def weights(self, off: Ints) -> Floats:
        """The probability of each sum given differences of the counts that it adds up: (draws, sums) from (draws, counts)."""
        at = np.zeros((len(self.open), len(off)), dtype=np.int64)
        np.add.at(at, self.target, off.T)
        return np.where(self.open, self.counts.mass[self.counts.kind[:, None], at % _PERIOD].T, 1.0)


def perturbed_adding_up(measurements: Iterable[Measured], exact: Iterable[ExactPart]) -> list[tuple[float, str]]:
    """Which perturbed counts add up to others, or to exact ones, where the chance of that is too small; and the chance.

    The chance is that of the published sums given the finer numbers y, whose true counts x have the probabilities p(y | x): all x
    equally likely before, but a published 0 a true 0 where it can be one (multiples of a base add up with certainty, and so do
    zeros). Sums of one set are independent: an exact convolution. Those of several sets share the true counts: the chance of the least
    likely set times that of the others given it, simulated, four standard errors above. By cell keys a sum whose other parts are
    published as 0 has the people of the one that is not, and its number: it counts once. Where all that the finest numbers determine
    agrees, a chance below `EVERYTHING` over the number of finest sets is reported, else below `_SOMETHING` over that of choices.
    Nothing is of a law that is not known: it may hardly perturb.
    """
    sums = [(part, values) for part, values in exact if isinstance(part, SumPart)]
    sets = [_counts(part, values, np.ones(part.rows, dtype=np.bool_), None) for part, values in sums]
    for measured in measurements:
        law, values = measured.law, measured.values.reshape(-1)
        unknown = not isinstance(law, PerturbedLaw) or isinstance(law, UnknownPerturbation)
        known = ~np.any([measured.unmeasured, *law.withheld(measured.values).values()], axis=0).reshape(-1)
        for part, rows in () if unknown else measured.query.placed_parts:
            if isinstance(part, SumPart):
                sets.append(_counts(part, values[rows], known[rows], law))
    totals = [_totals(sets, place) for place in range(len(sets))]
    coarse = {id(total.counts) for coarser in totals for total in coarser}
    finest = [bool(coarser) and id(base) not in coarse for base, coarser in zip(sets, totals, strict=True)]
    found = []
    for base, own_totals, first in zip(sets, totals, finest, strict=True):
        agreeing = [total for total in own_totals if total.agree]
        everything = first and len(agreeing) == len(own_totals)
        level = EVERYTHING / sum(finest) if everything else _SOMETHING / (len(sets) * 2.0 ** len(own_totals))
        if agreeing and (chance := _chance(base, agreeing, level)) < level:
            words = [
                f"{'exact' if counts.law is None else 'perturbed'} answers by {printable(' × '.join(counts.part.keep)) or 'nothing'}"
                for counts in (base, *(total.counts for total in agreeing))
            ]
            found.append((chance, f"{words[0]} add up exactly to {', '.join(words[1:])}"))
    return found


def _counts(part: SumPart, values: npt.NDArray[Any], known: Mask, law: Any) -> _Counts:
    whole = np.where(known, values, 0).astype(np.int64)
    different, which = np.unique(whole, return_inverse=True)
    narrow, off = np.ones((len(different), 1)), np.zeros(1, dtype=np.int64)
    if law is not None:
        off = -np.arange(law.transitions.lowest, law.transitions.highest + 1)
        narrow = np.exp(law.log_each(different[:, None], different[:, None] + off))
    narrow, kind = np.unique(narrow, axis=0, return_inverse=True)
    mass, kind = np.zeros((len(narrow), _PERIOD)), kind.reshape(-1)[which]
    np.add.at(mass.T, off % _PERIOD, narrow.T)
    laws = np.concatenate([mass / np.maximum(mass.sum(axis=1, keepdims=True), 1e-300), np.eye(1, _PERIOD)])
    law_of = np.where((whole == 0) & (mass[kind, 0] > 0.0), len(mass), kind)
    return _Counts(part, whole, known, law, mass, kind, laws, law_of)


def _totals(sets: Sequence[_Counts], place: int) -> list[_Total]:
    """The other sets that are sums of one, where either is perturbed."""
    base, found, seen = sets[place], list[_Total](), set[bytes]()
    for other, total in enumerate(sets):
        common = meet(base.part, total.part)
        again = base.part.keep == total.part.keep and other < place  # published twice: compared once
        if other == place or again or common is None or common.keep != total.part.keep or base.law is total.law is None:
            continue
        target = row_map(base.part, total.part)
        sums, clear = np.zeros_like(total.values), total.known.copy()
        np.add.at(sums, target, base.values)
        np.logical_and.at(clear, target, base.known)
        if not clear.any():
            continue
        agree, uncertain = bool(np.all((sums == total.values)[clear])), clear.copy()
        if agree and base.law is not None and total.law is not None and base.law.same_cell_same_value:
            order = np.argsort(np.where(base.values > 0, target, len(clear)), kind="stable")
            ends = np.cumsum(np.bincount(target[base.values > 0], minlength=len(clear)))
            for group, places in enumerate(np.split(order, ends)[:-1]):
                uncertain[group] &= len(places) > 1 and places.tobytes() not in seen
                seen.add(places.tobytes())
        found.append(_Total(total, target, agree, uncertain))
    return found


def _chance(base: _Counts, totals: list[_Total], level: float) -> float:
    """An upper bound on the chance that all these agree: of the least likely set alone, where that is below the level."""
    alone = [_alone(base, total) for total in totals]
    chance = min(alone)
    if chance < level or np.prod(alone) >= level:
        return chance
    rng, cells = np.random.default_rng(0), len(base.values)
    off = np.empty((1 + min(_DRAWS, 20_000_000 // cells), cells), dtype=np.int64)
    for which in np.unique(base.law_of):
        alike = base.law_of == which
        off[:, alike] = rng.choice(_PERIOD, size=(len(off), alike.sum()), p=base.laws[which])
    # Given that the least likely set agrees, sum by sum: they have no part in common.
    first = totals.pop(alone.index(chance))
    accepted = rng.random((len(off), len(first.open))) < first.weights(off)
    for group in np.flatnonzero(first.open):
        added, draws = first.target == group, np.flatnonzero(accepted[:, group])
        if not draws.size:
            return chance
        off[:, added] = off[rng.choice(draws, len(off))][:, added]
    others = np.prod([total.weights(off).prod(axis=1) for total in totals], axis=0)
    return chance * min(float(others.mean() + 4.0 * others.std() / np.sqrt(len(off))) + 10.0 / len(off), 1.0)


def _alone(base: _Counts, total: _Total) -> float:
    """The chance that all sums of one set agree."""
    waves, many = np.fft.rfft(base.laws), np.zeros((len(total.open), len(base.laws)), dtype=np.int64)
    np.add.at(many, (total.target, base.law_of), 1)
    chance = 1.0
    for group in np.flatnonzero(total.open):
        off = np.fft.irfft(np.prod(waves ** many[group][:, None], axis=0), _PERIOD)
        chance *= float(np.clip(total.counts.mass[total.counts.kind[group]] @ off, 0.0, 1.0))
        if chance < 1e-30:
            break
    return chance


def signs_of_post_processing(
    measurements: Iterable[Measured], exact: Iterable[Exact] = (), groups: Sequence[Differences] | None = None
) -> str | None:
    """What about the published numbers the stated law does not explain, with advice; None where nothing was found.

    Looked for, under independent noise of a law with a scale, are

    * no negative number among many zeros, or among many numbers of at most one scale;
    * numbers that are all multiples of 2, 3, 5, 10 and so on;
    * noisy sums that add up exactly, to one another or to exact values.

    Each sign has a bound on its probability that holds for every true table of counts. It is reported where that bound is below
    `FALSE_ALARMS` divided by the number of signs looked for, so that all together have at most that rate of false alarms.
    Perturbed counts that add up are reported besides, as by `made_consistent`. A table that was changed in other ways, or is small or
    far from zero, gives no sign. `groups` are the differences of a `bayesdp.check_law` of these, where it was made before.
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
        f"{words} (probability at most {max(bound, 1e-99):.0e} under the stated law)" for bound, words in reported
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
    measurements: Iterable[Measured], exact: Iterable[Exact], groups: Sequence[Differences] | None = None
) -> None:
    """Warn of `signs_of_post_processing`, at the line that called the caller."""
    reported = signs_of_post_processing(measurements, exact, groups)
    if reported is not None:
        warnings.warn(reported, PostProcessedWarning, stacklevel=3)


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

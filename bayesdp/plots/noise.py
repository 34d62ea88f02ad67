"""Pictures of noise: its size, its law, what may be published of a perturbed count, and trade-off functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.special import ndtr

from bayesdp._arrays import Floats, Ints
from bayesdp._validate import instance
from bayesdp.invariants import Invariants
from bayesdp.measurements import Measured
from bayesdp.noise import PerturbedLaw
from bayesdp.plots.cells import measurement_of
from bayesdp.plots.style import COLOURS, figure, plain, style, together
from bayesdp.posterior import Posterior
from bayesdp.privacy import TradeOff
from bayesdp.queries import SumPart, answer_labels

_STEPS = 3_000_000
"""Steps of the noise sampler that a picture is worth: about a second."""
_SWEEPS = 1000
_MOST, _FEWEST = 4000, 20
_LARGEST_DIMENSION = 5000


@dataclass(frozen=True, eq=False)
class NoiseScale:
    """Standard deviation of the noise of each answer, in counts; NaN where it is not known.

    `draws`, shape ``(draws, answers)``, is the noise that it was computed from, None if there is a closed form. An `exchangeable` law
    treats all cells alike, with the invariants that it keeps, so that `sd` pools them.
    """

    sd: Floats
    draws: Floats | None = None
    exchangeable: bool = False

    @property
    def words(self) -> str:
        """Where the numbers come from."""
        if np.isnan(self.sd).all():
            return "no closed form, and no simulation here (a table too large, or noise that depends on confidential numbers)"
        if self.draws is None:
            return "from the closed form of the law"
        alike = ", pooled over the cells because the law and the invariants treat them alike"
        return f"no closed form: from {len(self.draws)} simulated draws of the law{alike if self.exchangeable else ''}"


def noise_scale(measured: Measured) -> NoiseScale:
    """Find the standard deviation of the noise of each answer of a measurement, before any answers were held back.

    Examples
    --------
    >>> from bayesdp.noise import DiscreteGaussian
    >>> from bayesdp.queries import Identity
    >>> cells = Identity({"county": ["Alpha", "Beta"]})
    >>> noise_scale(Measured(cells, [3, 4], DiscreteGaussian(sigma=5.0))).sd
    array([5., 5.])
    """
    law, invariants = measured.law.uncensored, measured.noise_invariants
    shape = measured.query.shape if invariants is None else invariants.frame.shape
    variance = law.variance(shape, invariants)
    if variance is not None:
        exchangeable = invariants is not None and law.isotropic and _are_margins(invariants)
        return NoiseScale(np.sqrt(np.broadcast_to(variance, shape)).reshape(-1), exchangeable=exchangeable)
    dimension = measured.query.rows if invariants is None else invariants.dimension
    if not law.additive or dimension > _LARGEST_DIMENSION:  # within bounds it depends on the confidential values
        return NoiseScale(np.full(measured.query.rows, np.nan))
    sweeps = _SWEEPS if invariants is not None else 1
    drawn = _simulated(measured, int(np.clip(_STEPS // (sweeps * max(dimension, 1)), _FEWEST, _MOST)))
    squares = (drawn**2).mean(axis=0)  # the mean of the noise is zero
    varies = any(isinstance(value, np.ndarray) for value in law.model_parameters().values())
    exchangeable = law.isotropic and (not varies if invariants is None else _are_margins(invariants))
    sd = np.sqrt(np.full_like(squares, squares.mean()) if exchangeable else squares)
    return NoiseScale(sd, drawn, exchangeable)


def _simulated(measured: Measured, size: int) -> Floats:
    """Draws of the noise, shape ``(size, answers)``, by a fixed seed: a report that is written twice shall say the same."""
    invariants = measured.noise_invariants
    shape = measured.query.shape if invariants is None else invariants.frame.shape
    drawn = measured.law.uncensored.draw(np.random.default_rng(0), shape, size=size, invariants=invariants)
    return np.asarray(drawn, dtype=np.float64).reshape(size, -1)


def _are_margins(invariants: Invariants) -> bool:
    """Whether the invariants are margins: permutations of labels that bring any cell to the place of any other keep these."""
    return all(
        isinstance(part, SumPart) and all(name in part.frame.dims for name in part.keep)
        for part in invariants.query.parts
    )


def count_shown(measured: Measured) -> int:
    """The true count of the picture: of those that can lead to the published value in the middle, one whose noise is largest.

    Examples
    --------
    >>> from bayesdp.noise import RandomRounding
    >>> from bayesdp.queries import Identity
    >>> cells = Identity({"county": ["Alpha", "Beta", "Gamma"]})
    >>> count_shown(Measured(cells, [3, 9, 60], RandomRounding(3)))
    7
    """
    law = measured.law
    assert isinstance(law, PerturbedLaw)
    published = np.sort(measured.values[~measured.unmeasured])
    middle = published[len(published) // 2 : len(published) // 2 + 1]
    windows = law.windows(middle)
    counts = windows.low[0] + np.flatnonzero(np.isfinite(windows.log_mass))
    variance = law.variance(counts.shape, location=counts)
    assert variance is not None
    return int(counts[int(np.argmax(variance.round(9)))])


def draw_perturbed_law(measured: Measured) -> Figure:
    """Draw the probabilities of what may be published for one true count."""
    law, count = measured.law, count_shown(measured)
    assert isinstance(law, PerturbedLaw)
    table = law.transitions
    values = np.arange(count + table.lowest, count + table.highest + 1)
    mass = np.exp(law.log_each(values, count))
    seen = np.flatnonzero(mass > 0.0)
    values, mass = values[seen[0] : seen[-1] + 1], mass[seen[0] : seen[-1] + 1]
    with style():
        drawn = figure(3.0)
        axes = drawn.add_subplot()
        _bars(axes, values, mass)
        axes.axvline(count, color=COLOURS["truth"], linestyle="--", linewidth=1.2, label=f"true count {count:,}")
        _finish(drawn, axes, f"{plain(law.name)}, what is published for a count of {count:,}", "published value")
        axes.set_ylabel("probability")
    return drawn


def _finish(drawn: Figure, axes: Axes, title: str, label: str) -> None:
    """Title, axes and key."""
    axes.set_title(f"Noise: {title}")
    axes.set_xlabel(label)
    axes.set_ylim(bottom=0)
    axes.locator_params(axis="x", integer=True)
    drawn.legend(loc="outside lower left")


_REACH = 4.0
"""Standard deviations to each side."""
_MOST_BARS = 121


def noise_law(posterior: xr.DataTree | Posterior, *, measurement: int = 0, var: str | None = None) -> Figure:
    """Draw the law of the noise that was added to one answer of a measurement; arguments are those of all pictures (`bayesdp.plots`).

    Mass (integer noise) or density of the noise of one answer, with dashed lines at one standard deviation. Where scales differ
    between answers: that with the median scale. Where the marginal law of a cell has no formula: relative frequencies of simulated
    noise. Of perturbed counts: the probabilities of what may be published for one true count that can lead to the published value in
    the middle, with a dashed line at that count.
    """
    measured = measurement_of(Posterior.of(posterior, var), measurement)
    return draw_noise_law(measured, noise_scale(measured))


def draw_noise_law(measured: Measured, scale: NoiseScale) -> Figure:
    """Draw the law of a measurement whose scale is known already."""
    if isinstance(measured.law, PerturbedLaw):
        return draw_perturbed_law(measured)
    known = scale.sd[np.isfinite(scale.sd)]
    # The answer in the middle, not the mean of two: its noise can be looked up.
    answer = int(np.argsort(scale.sd, kind="stable")[len(known) // 2]) if known.size else 0
    sd = float(scale.sd[answer]) if known.size else np.nan
    with style():
        drawn = figure(3.0)
        axes = drawn.add_subplot()
        if not np.isfinite(sd) or sd == 0:
            message = "the noise is always 0 here" if sd == 0 else "the size of the noise is not known here"
            axes.text(0.5, 0.5, message, transform=axes.transAxes, ha="center")
            axes.set_axis_off()
            return drawn
        which = _curve(axes, measured, scale, answer, sd)
        for side in (-1, 1):
            label = f"± 1 standard deviation = {sd:,.3g} counts" if side > 0 else None
            axes.axvline(side * sd, color=COLOURS["truth"], linestyle="--", linewidth=1.2, label=label)
        law = measured.law.uncensored
        before = "" if law is measured.law else ", before answers were held back"
        _finish(drawn, axes, f"{plain(law.name)}{before}{which}", "noise (count)")
    return drawn


def _curve(axes: Axes, measured: Measured, scale: NoiseScale, answer: int, sd: float) -> str:
    """Draw mass, density or frequencies; say which answer they are of."""
    varies = bool(np.ptp(scale.sd[np.isfinite(scale.sd)]) > 1e-9)
    which = f", {together(answer_labels(measured.query, [answer])[0])}" if varies else ""
    law, shape = measured.law.uncensored, measured.query.shape
    reach = int(np.ceil(_REACH * sd))
    at = np.arange(-reach, reach + 1.0) if law.integer else np.linspace(-reach, reach, 401)
    heights = law.of_answer(answer, shape).picture(at, sd)
    if heights is not None and law.integer:
        _bars(axes, at.astype(np.int64), heights)
        axes.set_ylabel("probability")
        return which
    if heights is not None:
        axes.fill_between(at, heights, color=COLOURS["release"], alpha=0.35)
        axes.plot(at, heights, color=COLOURS["release"])
        axes.set_ylabel("density (per count)")
        return which
    drawn = _simulated(measured, _MOST) if scale.draws is None else scale.draws
    sample = drawn.reshape(-1) if scale.exchangeable else drawn[:, answer]
    if not law.integer:
        counted, edges = np.histogram(sample, bins=_MOST_BARS, range=(-reach, reach))
        axes.stairs(counted / (len(sample) * np.diff(edges)), edges, fill=True, color=COLOURS["release"], alpha=0.5)
        axes.set_ylabel("density (per count, simulated)")
        return which or ", one answer"
    # Bins of an odd number of integers, so that one of them is centred at zero.
    width = 2 * (2 * reach // (2 * _MOST_BARS)) + 1
    inside = np.rint(sample / width).astype(np.int64)
    values, counts = np.unique(inside, return_counts=True)
    _bars(axes, values * width, counts / (counts.sum() * width), width)
    axes.set_xlim(-reach - 0.5, reach + 0.5)
    axes.set_ylabel("frequency (simulated)")
    return which or ", one cell"


def _bars(axes: Axes, values: Ints, heights: Floats, width: int = 1) -> None:
    """Draw a bar at each integer (or bin of integers), or a line where bars would touch."""
    if len(values) <= _MOST_BARS:
        axes.bar(values, heights, width=(0.7 if width == 1 else 1.0) * width, color=COLOURS["release"], alpha=0.75)
    else:
        axes.plot(values, heights, color=COLOURS["release"])
        axes.fill_between(values, heights, color=COLOURS["release"], alpha=0.35)


_LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)))
_LEVELS = ndtr(np.linspace(-5.0, 5.0, 601))


def tradeoffs(curves: Mapping[str, TradeOff]) -> Figure:
    """Draw trade-off functions: type II error against type I error of the best test that tells two tables apart.

    The higher a curve, the better the protection; the grey line is that of a release that says nothing. The legend has the labels of
    `curves` in their order.

    Examples
    --------
    Two releases at epsilon = 0.5, of a table whose invariant moves tables two records apart (paper 003, Proposition 21):

    >>> from bayesdp.privacy import approximate_dp, composition_first, semi_first
    >>> releases = [approximate_dp(0.5)] * 2
    >>> picture = tradeoffs(
    ...     {"Semi-DP first": semi_first(releases, 2), "composition first": composition_first(releases, 2)}
    ... )
    >>> picture.axes[0].get_xlabel()
    'type I error'
    """
    instance(curves, Mapping, "curves must be a mapping of labels to trade-off functions")
    if not curves:
        raise ValueError("curves must hold at least one trade-off function")
    for label, f in curves.items():
        instance(f, TradeOff, f"curves[{label!r}] must be a trade-off function")
    with style():
        picture = figure(5.2)
        axes = picture.subplots()
        axes.plot([0.0, 1.0], [1.0, 0.0], color=COLOURS["grid"], linewidth=1.0, label="nothing is learned")
        for i, (label, f) in enumerate(curves.items()):
            a = np.unique(np.concatenate([[0.0, 1.0], _LEVELS, f._kinks()]))
            axes.plot(a, f(a), linestyle=_LINES[i % len(_LINES)], linewidth=1.8, label=plain(label))
        axes.set(xlabel="type I error", ylabel="smallest type II error", title="How well two tables can be told apart")
        axes.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0), aspect="equal")
        axes.legend()
    return picture

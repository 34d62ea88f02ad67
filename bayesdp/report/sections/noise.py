"""How much of the uncertainty is privacy noise, and how much would be there without it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bayesdp.noise.perturbed.base import PerturbedLaw
from bayesdp.plots.noise_scale import NoiseScale
from bayesdp.plots.streamed_fit import StreamedFit
from bayesdp.release import Measured
from bayesdp.report.context import Context
from bayesdp.report.html import Html, element, joined, paragraph
from bayesdp.report.numbers import decimal, plural, spread
from bayesdp.report.tables import MOST_ROWS, Table, labels, numeric

ANCHOR = "noise"
TITLE = "Noise against sampling uncertainty"

type Floats = npt.NDArray[np.float64]


def write(context: Context) -> Html:
    """The section."""
    if not context.fit.measurements:
        return paragraph("Nothing noisy is published.")
    parts = [
        paragraph(
            "The noise sd is what was added to a published number to protect it. The posterior sd is what is left of it once the "
            "exact values, the other numbers and the prior have spoken: posterior / noise below 1 is what they contribute. The "
            "sampling sd is a yardstick: √(posterior mean), by which a count would vary anyway if such tables were drawn anew "
            "(Poisson). Where noise / sampling is far below 1, the noise hardly matters for conclusions about a population."
        )
    ]
    if any(isinstance(measured.law, PerturbedLaw) for measured in context.fit.measurements):
        parts.append(
            paragraph(
                "How far a perturbed count is from the true one depends on the true one: the noise sd of such an answer is the "
                "root of the mean squared difference under its law, averaged over the posterior."
            )
        )
    for i, (measured, own) in enumerate(zip(context.fit.measurements, context.noise, strict=True)):
        found = noise_sizes(context, measured, own)
        if len(context.fit.measurements) > 1:
            parts.append(element("h3", context.measurement_title(i)))
        parts.append(_words(context, measured, found))
        if measured.query.rows <= MOST_ROWS:
            parts.append(noise_table(context, measured, found, i).to_html())
    return joined(parts)


def noise_sizes(context: Context, measured: Measured, scale: NoiseScale) -> Floats:
    """The size of the noise of each answer, shape ``(answers,)``; NaN where it is not known.

    That of perturbed counts depends on the true ones: it is averaged over their posterior, or taken at the posterior mean of sums
    whose draws were not kept.
    """
    law, query = measured.law, measured.query
    if not isinstance(law, PerturbedLaw):
        return scale.sd
    fit = context.fit
    only_moments = query.is_identity and isinstance(fit, StreamedFit)
    kept = fit.has(query) and not only_moments
    counts = fit.answers(query) if kept else np.rint(_moments(context, measured)[0])[None]
    squares = np.zeros(query.rows)
    for own in counts:
        variance = law.variance(own.shape, location=own)
        squares += law.bias(own) ** 2 + (0.0 if variance is None else variance)
    return np.asarray(np.sqrt(squares / len(counts)))


def _compared(context: Context, measured: Measured) -> tuple[Floats, Floats]:
    """Posterior and sampling standard deviation of each answer; the former is NaN where draws of sums were not kept."""
    mean, sd = _moments(context, measured)
    return sd, np.sqrt(np.maximum(mean, 0.0))


def _moments(context: Context, measured: Measured) -> tuple[Floats, Floats]:
    """Posterior mean and standard deviation of each answer; the latter is NaN where draws of sums were not kept."""
    fit, query = context.fit, measured.query
    if fit.has(query):
        return fit.moments(query)
    means = fit.moments(fit.cells)[0].reshape(context.frame.shape)  # means of sums are sums of means
    return np.asarray(query.apply(means), dtype=np.float64).reshape(-1), np.full(query.rows, np.nan)


def _ratio(above: Floats, below: Floats) -> Floats:
    return np.asarray(np.divide(above, below, out=np.full(above.shape, np.nan), where=below > 0))


def _words(context: Context, measured: Measured, sizes: Floats) -> Html:
    """Medians of the noise, the posterior and their ratio over the free published numbers."""
    posterior, sampling = _compared(context, measured)
    published = np.isfinite(np.asarray(measured.published, dtype=np.float64).reshape(-1))
    free = ~context.fit.fixed(measured.query) & published & np.isfinite(sizes)
    if not free.any():
        return paragraph("No free published number has noise of a known size.")
    if not context.fit.has(measured.query):
        return paragraph(
            f"Median noise sd {spread(float(np.median(sizes[free])))}. The posterior sd of these sums is not known: their draws "
            "were not recorded."
        )
    shrunk = float(np.nanmedian(_ratio(posterior, sizes)[free]))
    larger = int((sizes > sampling)[free].sum())
    return paragraph(
        f"Median over {plural(int(free.sum()), 'free published number')}: noise sd {spread(float(np.median(sizes[free])))}, "
        f"posterior sd {spread(float(np.median(posterior[free])))}, median ratio {spread(shrunk)}. The noise is larger than the "
        f"sampling sd in {larger:,} of them."
    )


def noise_table(context: Context, measured: Measured, sizes: Floats, number: int = 0) -> Table:
    """The table of one measurement's answers."""
    posterior, sampling = _compared(context, measured)
    fixed = context.fit.fixed(measured.query)
    noise = np.where(np.isfinite(np.asarray(measured.published, dtype=np.float64).reshape(-1)), sizes, np.nan)
    columns = [
        *labels(measured.query),
        numeric("Noise sd", noise, spread, "noise_sd"),
        numeric("Posterior sd", posterior, spread, "posterior_sd"),
        numeric("Posterior / noise", _ratio(posterior, noise), spread, "posterior_over_noise"),
        numeric("Sampling sd √mean", sampling, decimal, "sampling_sd"),
        numeric("Noise / sampling", _ratio(noise, sampling), spread, "noise_over_sampling"),
    ]
    caption = (
        "Standard deviations, in counts, and their ratios. Grey rows are known exactly; – where no number was published, or the size "
        "of its noise is not known."
    )
    return Table(caption, columns, context.file(f"noise-{number + 1}.csv"), fixed.tolist())

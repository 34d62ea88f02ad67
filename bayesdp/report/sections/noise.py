"""How much of the uncertainty is privacy noise, and how much would be there without it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bayesdp.plots.noise_scale import NoiseScale
from bayesdp.release import Measured
from bayesdp.report.context import Context
from bayesdp.report.html import Html, element, joined, paragraph
from bayesdp.report.numbers import decimal, plural, spread
from bayesdp.report.tables import MOST_ROWS, Table, labels, numeric

__all__ = ["ANCHOR", "TITLE", "noise_table", "write"]

ANCHOR = "noise"
TITLE = "Noise against sampling uncertainty"

type Floats = npt.NDArray[np.float64]


def write(context: Context) -> Html:
    """The section."""
    if not context.fit.measurements:
        return paragraph("Nothing noisy is published.")
    parts = [
        paragraph(
            "The noise sd is what privacy adds to a published number. The posterior sd is what is left of it once the exact values, "
            "the other numbers and the prior have spoken: posterior / noise below 1 is what they contribute. The sampling sd "
            "is a yardstick: √(posterior mean), by which a count would vary anyway if such tables were drawn anew "
            "(Poisson). Where noise / sampling is far below 1, the noise hardly matters for conclusions about a population."
        )
    ]
    for i, (measured, scale) in enumerate(zip(context.fit.measurements, context.noise, strict=True)):
        if len(context.fit.measurements) > 1:
            parts.append(element("h3", context.measurement_title(i)))
        parts.append(_words(context, measured, scale))
        if measured.query.rows <= MOST_ROWS:
            parts.append(noise_table(context, measured, scale, i).to_html())
    return joined(parts)


def _compared(context: Context, measured: Measured) -> tuple[Floats, Floats]:
    """Posterior and sampling standard deviation of each answer; the former is NaN where draws of sums were not kept."""
    fit, query = context.fit, measured.query
    if fit.has(query):
        mean, sd = fit.moments(query)
    else:  # means of sums are sums of means, and standard deviations are not
        means = fit.moments(fit.cells)[0].reshape(context.frame.shape)
        mean = np.asarray(query.apply(means), dtype=np.float64).reshape(-1)
        sd = np.full(query.rows, np.nan)
    return sd, np.sqrt(np.maximum(mean, 0.0))


def _ratio(above: Floats, below: Floats) -> Floats:
    return np.asarray(np.divide(above, below, out=np.full(above.shape, np.nan), where=below > 0))


def _words(context: Context, measured: Measured, scale: NoiseScale) -> Html:
    """Medians of the noise, the posterior and their ratio over the free published numbers."""
    posterior, sampling = _compared(context, measured)
    free = ~context.fit.fixed(measured.query) & ~measured.unmeasured.reshape(-1) & np.isfinite(scale.sd)
    if not free.any():
        return paragraph("No free published number has noise of a known size.")
    if not context.fit.has(measured.query):
        return paragraph(
            f"Median noise sd {spread(float(np.median(scale.sd[free])))}. The posterior sd of these sums is not known: their draws "
            "were not recorded."
        )
    shrunk = float(np.nanmedian(_ratio(posterior, scale.sd)[free]))
    larger = int((scale.sd > sampling)[free].sum())
    return paragraph(
        f"Median over {plural(int(free.sum()), 'free published number')}: noise sd {spread(float(np.median(scale.sd[free])))}, "
        f"posterior sd {spread(float(np.median(posterior[free])))}, median ratio {spread(shrunk)}. The noise is larger than the "
        f"sampling sd in {larger:,} of them."
    )


def noise_table(context: Context, measured: Measured, scale: NoiseScale, number: int = 0) -> Table:
    """The table of one measurement's answers."""
    posterior, sampling = _compared(context, measured)
    fixed = context.fit.fixed(measured.query)
    noise = np.where(measured.unmeasured.reshape(-1), np.nan, scale.sd)
    columns = [
        *labels(measured.query),
        numeric("Noise sd", noise, spread, "noise_sd"),
        numeric("Posterior sd", posterior, spread, "posterior_sd"),
        numeric("Posterior / noise", _ratio(posterior, noise), spread, "posterior_over_noise"),
        numeric("Sampling sd √mean", sampling, decimal, "sampling_sd"),
        numeric("Noise / sampling", _ratio(noise, sampling), spread, "noise_over_sampling"),
    ]
    caption = "Standard deviations, in counts, and their ratios. Grey rows are known exactly; – where no number was published."
    return Table(caption, columns, context.file(f"noise-{number + 1}.csv"), fixed.tolist())

"""What can be wrong with the result: convergence, sources of error, the prior, and how much it matters."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bayesdp._arrays import Floats, Mask
from bayesdp.plots.cells import prior_predictive
from bayesdp.plots.rank import ranks
from bayesdp.posterior import flat, summarise_draws
from bayesdp.report.context import Context, Whole
from bayesdp.report.html import Html, boxed, element, embedded, items, joined, paragraph
from bayesdp.report.tables import Column, Table, decimal, labels, numeric, plural, spread


def banner(whole: Whole) -> Html | None:
    """A red banner if the chains have not converged or there are no diagnostics, a calm one if they are too short; else None."""
    model = whole.model
    if model.converged:
        return None
    if model.converged is None:
        told = "The posterior file has no diagnostics. Do not rely on its numbers yet."
        return boxed("bad", "Convergence was not assessed.", told)
    if model.diagnostics.get("verdict") == "not judged":
        told = f"{model.message} Draw more, in two chains or more."
        return boxed("warn", "Too little to judge convergence.", told)
    return boxed("bad", "Do not report these numbers.", f"{model.message} Draw more, or look at the model.")


def convergence(whole: Whole) -> Html:
    """Whether the chains can be trusted."""
    fit = whole.tables[0].fit
    if fit.computed:
        return boxed("good", "No chain was run.", f"{whole.model.message} {_monte_carlo(whole)}")
    told = [
        f"{plural(fit.chains, 'chain')} of {plural(fit.draws, 'draw')} after tuning.",
        *_reach(whole),
        _divergences(whole),
        str(whole.model.diagnostics.get("missed_modes_message", "")),
        "Cells that the exact values determine are left out of R-hat and effective sample sizes: they mean nothing there.",
    ]
    picture = ranks(fit)
    if picture is None:
        shown = paragraph("No rank plots: they compare chains, and there is one, or nothing that moves.", class_="note")
    else:
        shown = embedded(
            picture,
            "Rank plots of the quantities with the smallest effective sample sizes: one line a chain, the share of its draws below a "
            "rank less what is expected. Chains that agree leave the bands (simultaneous, over everything that moves) in 5% "
            "of posteriors at most; a chain that leaves its band is drawn thick.",
        )
    good = banner(whole) or boxed("good", "The chains agree.", whole.model.message)
    return joined([good, items(sentence for sentence in told if sentence), shown])


def _reach(whole: Whole) -> list[str]:
    """Whether the moves reach every table of the fiber, as far as the posterior says so."""
    limits = {context.of_table: context.fit.limits for context in whole.tables}
    claims = {of: str(group.attrs.get("connectivity", "")).strip() for of, group in limits.items() if group is not None}
    told = "Whether the moves reach every table that agrees with the exact values"
    return [f"{told}{of_table}: {claim}" for of_table, claim in claims.items() if claim]


def _divergences(whole: Whole) -> str:
    group = whole.model.tree.children.get("sample_stats")
    if group is None or "diverging" not in group.data_vars:
        return ""
    found = int(group["diverging"].sum())
    if not found:
        return "No divergent transitions of NUTS."
    return (
        f"{plural(found, 'divergent transition')} of NUTS: the parameters may be biased where the posterior is narrow."
    )


def sources_of_error(whole: Whole) -> Html:
    """Sources of error other than the noise, which the posterior accounts for."""
    counted = [(f"{table.fit.name}: " if table.several else "") + _kind_of_numbers(table) for table in whole.tables]
    law = (
        "The noise law: taken as published, and exact. Numbers that were rounded, truncated or made consistent after the noise was "
        "added do not follow it."
    )
    model = "The prior and the model of the data: the intervals are right if they are."
    if not all(table.of_statistics for table in whole.tables):
        where = "see the sensitivity to the prior above"
        model = f"The prior and the model of the counts: {where}. The intervals are right if the model is."
    return items([_monte_carlo(whole), *counted, law, model])


def _monte_carlo(whole: Whole) -> str:
    if whole.tables[0].fit.computed:
        return f"Monte Carlo error: none in cells. Sums have {plural(whole.tables[0].fit.draws, 'independent draw')}."
    worst = float(whole.model.diagnostics.get("worst_ess", np.nan))  # of any quantity that can move
    if np.isnan(worst):
        return "Monte Carlo error: not known, as the posterior file states no effective sample size."
    return (
        "Monte Carlo error: the draws are finitely many. The standard error of a posterior mean is at most about "
        f"{spread(1 / np.sqrt(worst))} posterior standard deviations (smallest effective sample size {worst:,.0f})."
    )


def _kind_of_numbers(context: Context) -> str:
    """Whether counts are whole numbers, or a continuous relaxation of them."""
    if context.of_statistics:
        return "Statistics: real numbers, as functions of the parameters of the model."
    if not context.fit.relaxed:
        return "Counts: whole numbers, as they are. No approximation."
    return (
        "Counts: a continuous relaxation. Real numbers stand for whole ones, so that the posterior is close to that of the counts "
        "where they are large, and wrong about cells near 0."
    )


def prior(whole: Whole) -> Html:
    """The prior, and its predictive intervals of the published numbers."""
    text, printed = whole.model.described
    undescribed = paragraph(
        "The posterior file does not describe its prior. Say what it was when you cite these results; it is what the "
        "code that built the model says."
    )
    stated = element("pre", text or printed) if text or printed else undescribed
    none = paragraph("Nothing noisy is published that the prior could be compared with.")
    if any(context.fit.measurements for context in whole.tables):
        none = paragraph(
            "There are no prior draws in the posterior file, so the prior is not compared with the published numbers here. Add the "
            "groups of ",
            element("code", "pm.sample_prior_predictive"),
            " to have the check.",
        )
    found = [part for context in whole.tables for part in _predictive(context)] or [none]
    return joined([stated, element("h3", "Prior predictive check"), *found])


def _predictive(context: Context) -> list[Html]:
    written: list[Html] = []
    for i, measured in enumerate(context.fit.measurements):
        found = context.fit.prior_predictive(i)
        picture = prior_predictive(context.fit, prob=context.prob, measurement=i)
        if found is None or picture is None:
            continue
        draws, what = found
        published = flat(measured.published)
        shown = np.isfinite(published)
        expected = summarise_draws(draws[:, shown], context.prob)
        inside = int(((published[shown] >= expected.lower) & (published[shown] <= expected.upper)).sum())
        text = (
            f"{context.measurement_title(i)}{context.of_table}: {inside:,} of {plural(int(shown.sum()), 'published value')} lie in "
            f"the {context.kind} of the {what}. Many outside would say that prior and data disagree."
        )
        alt = f"Prior predictive {context.kind} and published values, in counts."
        written += [paragraph(text), embedded(picture, alt)]
    return written


_CLOSE = 0.15
"""Largest distance between the distribution functions of prior and posterior that still counts as the same: with 1,000
prior draws and 400 effective posterior draws, chance alone gives up to 0.08 (95%)."""
_FEWEST = 200
"""With fewer prior draws the distance is chance."""
_SD_RATIO = (0.8, 1.25)


def sensitivity(context: Context) -> Html:
    """How much the prior matters: cells on which nothing was published, and cells where the posterior is the prior."""
    seen = np.zeros(context.frame.size, dtype=np.int64)
    for measured in context.fit.measurements:
        seen += abs(measured.query.matrix).T @ (~measured.unmeasured.reshape(-1)).astype(np.int64)
    unseen = (seen == 0) & ~context.fit.determined
    if not unseen.any():
        return joined(
            [paragraph("Every free cell is part of at least one published noisy number."), *_same_as_prior(context)]
        )
    heading = f"No noisy number was published that involves {plural(int(unseen.sum()), 'free cell')}."
    text = "What the posterior says about them comes from the prior, the exact values and the model's other cells."
    return joined([boxed("warn", heading, text), context.cells(unseen), *_same_as_prior(context)])


def prior_distance(prior: npt.NDArray[np.generic], posterior: npt.NDArray[np.generic]) -> Floats:
    """The statistic of Kolmogorov and Smirnov, column by column: the largest difference between two distribution functions."""
    found = np.empty(prior.shape[1])
    for i in range(prior.shape[1]):
        before, after = np.sort(prior[:, i]), np.sort(posterior[:, i])
        at = np.union1d(before, after)
        gap = np.searchsorted(before, at, "right") / before.size - np.searchsorted(after, at, "right") / after.size
        found[i] = np.abs(gap).max()
    return found


def same_as_prior(distance: Floats, ratio: Floats, fixed: Mask) -> Mask:
    """Free cells whose posterior is the prior: distance and ratio of standard deviations both say so."""
    return np.asarray((distance <= _CLOSE) & (ratio >= _SD_RATIO[0]) & (ratio <= _SD_RATIO[1]) & ~fixed)


def _same_as_prior(context: Context) -> list[Html]:
    """Prior and posterior of each cell, and the cells where they are the same."""
    fit, summary, prior = context.fit, context.summary, context.fit.prior_draws
    if prior is None or len(prior) < _FEWEST:
        there = "no prior draws" if prior is None else f"only {plural(len(prior), 'prior draw')}"
        return [
            paragraph(
                f"There are {there} in the posterior file, so cells where the posterior is the prior cannot be listed. A "
                "first indication is the table above: the further posterior / noise is below 1, the more of the result comes "
                "from the prior and the exact values. To be sure, fit again with another prior."
            )
        ]
    prior_sd = prior.std(axis=0)
    ratio = np.divide(summary.sd, prior_sd, out=np.full(summary.sd.shape, np.nan), where=prior_sd > 0)
    distance = prior_distance(prior, fit.answers(fit.cells))
    same = same_as_prior(distance, ratio, fit.determined)
    columns = [
        *labels(fit.cells),
        numeric("Prior mean", prior.mean(axis=0), decimal, "prior_mean"),
        numeric("Prior sd", prior_sd, decimal, "prior_sd"),
        numeric("Posterior mean", summary.mean, decimal, "posterior_mean"),
        numeric("Posterior sd", summary.sd, spread, "posterior_sd"),
        numeric("Posterior sd / prior sd", ratio, spread, "sd_ratio"),
        numeric("Distance", distance, spread, "distance"),
    ]
    told = [paragraph("There is no free cell where the posterior is the prior.")]
    if same.any():
        columns.append(Column("Remark", np.where(same, "posterior is the prior", "").tolist(), kind="text"))
        heading = f"In {plural(int(same.sum()), 'cell')} the posterior is the prior."
        text = (
            f"The published numbers taught next to nothing about them (distance at most {_CLOSE}, ratio of standard deviations "
            f"{_SD_RATIO[0]} to {_SD_RATIO[1]})."
        )
        told = [boxed("warn", heading, text), context.cells(same)]
    caption = (
        "Prior (before any published number, exact ones included) and posterior of each cell, in counts. Distance: largest "
        "difference of the two distribution functions, 0 the same, 1 disjoint. Grey rows are known exactly."
    )
    advice = paragraph(
        "This shows where the data spoke, not how another prior would have changed the result; fit again with another prior "
        "to see that.",
        class_="note",
    )
    return [*told, Table(caption, columns, context.file("prior.csv"), fit.determined.tolist()).to_html(), advice]

"""What is published and protected: exact answers, laws, guarantees; the size of the noise; laws that are not known."""

from __future__ import annotations

import math

import numpy as np

from bayesdp._arrays import Floats
from bayesdp._text import printable
from bayesdp.fibers import Fiber
from bayesdp.measurements import SIGNS, Exact, described, held_back
from bayesdp.mechanisms.composition import LOSS_UNKNOWN, check_law
from bayesdp.noise.perturbed.base import PerturbedLaw
from bayesdp.plots import law_comparison
from bayesdp.plots.noise import NoiseScale, draw_noise_law
from bayesdp.posterior import LawComparison, SummarisedPosterior, flat
from bayesdp.privacy.guarantee import KINDS
from bayesdp.queries import Query, answer_labels
from bayesdp.release import Measured, Release
from bayesdp.report.context import Context, Whole
from bayesdp.report.html import Html, boxed, element, embedded, items, joined, label, paragraph
from bayesdp.report.tables import (
    MOST_ROWS,
    Column,
    Table,
    count,
    decimal,
    is_grand_total,
    labels,
    numeric,
    plural,
    significant,
    spread,
)

_LISTED = 12
"""Largest number of exact values that are written out; more are in the table of totals only."""
SIGN_WORDS = dict(zip(SIGNS, ("", "at least ", "at most "), strict=True))
"""How the page says that an exact value is a bound."""


def published(context: Context) -> Html:
    """Exact answers, noise laws, guarantees, and the cells that have no protection."""
    number = len(context.fit.releases)
    several = f" {number} releases of it were published, and all are accounted for." if number > 1 else ""
    exact = [
        joined([f"release {i + 1}: " if several else "", _stated(part)])
        for i, release in enumerate(context.fit.releases)
        for part in release.exact
    ]
    return joined(
        [
            paragraph(f"One confidential table of counts: {context.table}.{several}"),
            element("h3", "Exact"),
            items(exact, what="exact statistics") if exact else paragraph("Nothing is published exactly."),
            element("h3", "Noisy"),
            *_noisy(context),
            *_compatible(context),
            element("h3", "Whom the noise protects"),
            *guarantees(context),
            element("h3", "Cells that the exact values determine"),
            _determined(context),
        ]
    )


def _stated(exact: Exact) -> Html:
    """An exact part: its values, or how large they are where there are many, and what is assumed."""
    query, sign, values = exact.query, SIGN_WORDS[exact.sign], exact.values.reshape(-1)
    if query.rows == 1:
        name = "Grand total" if is_grand_total(query) else label(*answer_labels(query, [0])[0])
        told = [name, f": {sign}{count(float(values[0]))}"]
    elif query.rows <= _LISTED:
        named = zip(answer_labels(query, range(query.rows)), values.tolist(), strict=True)
        listed = items(joined([label(*name), f": {sign}{count(value)}"]) for name, value in named)
        told = [f"{described(query)}:", listed]
    else:
        bounds = f" ({sign.strip()} the published values)" if sign else ""
        ends = f"{count(float(values.min()))} to {count(float(values.max()))}"
        told = [f"{described(query)}{bounds}, values {ends}"]
    return joined(told if exact.assumption is None else [*told, " ", element("em", f"({exact.assumption})")])


def _noisy(context: Context) -> list[Html]:
    if not context.fit.measurements:
        return [paragraph("Nothing noisy is published: the posterior is the prior, held to the exact values.")]
    written = []
    for i, (measured, scale) in enumerate(zip(context.fit.measurements, context.noise, strict=True)):
        hidden = int(measured.unmeasured.sum())
        keeps = "independent noise" if measured.invariants is None else "noise that changes none of the exact values"
        if measured.law.support == "counts":  # around the true ones
            size, lines = "Its size depends on the true count.", "for one true count, at a dashed line"
        else:
            sd = scale.sd[~np.isnan(scale.sd)]
            ends = [spread(float(end(sd))) if sd.size else spread(math.nan) for end in (np.min, np.max)]
            between = " to ".join(dict.fromkeys(ends))
            size = f"Standard deviation of the noise: {between} counts ({scale.words})."
            lines = "dashed lines at one standard deviation"
        law = paragraph(
            f"{context.measurement_title(i)}: law ",
            element("code", str(measured.law)),
            f", {keeps}. {size}",
            *(
                f" Of its answers, {words.replace(' of them', '')} (not published, and known by that alone)."
                for words in held_back(measured)
            ),
            f" {plural(hidden, 'answer was', 'answers were')} not published." if hidden else "",
        )
        alt = f"Law of the noise {measured.law}; {lines}, in counts."
        written += [law, embedded(draw_noise_law(measured, scale), alt)]
    return written


def _compatible(context: Context) -> list[Html]:
    """Whether the numbers are compatible with the stated laws; with a picture if not."""
    check = check_law(*context.fit.releases)
    if check.warning is not None:
        told = [boxed("bad", "Not compatible with the stated law. ", check.warning)]
        if any(group.observed.sum() for group in check.groups):
            told.append(embedded(check.plot(2), "Differences of published sums beside what the law says."))
        return told
    if math.isnan(check.pvalue):
        return [paragraph("No published sums have to agree, so that nothing checks the stated laws by itself.")]
    p = f"(p = {check.pvalue:.2g}, whatever the true table)"
    return [paragraph(f"Published sums that have to agree differ as the stated laws say {p}.")]


def guarantees(context: Context) -> list[Html]:
    """The guarantee of each release, and a note on what they say of all together."""
    releases = context.fit.releases
    if len(releases) == 1:
        return [_guarantee(releases[0])]
    parts = [
        paragraph(
            "Each guarantee is of one release alone. Whoever sees all of them may learn more: ",
            element("code", "bayesdp.compose"),
            " states the loss of all together where the mechanisms are known.",
        )
    ]
    for i, release in enumerate(releases):
        parts += [element("h4", f"Release {i + 1}"), _guarantee(release)]
    return parts


def _guarantee(release: Release) -> Html:
    guarantee = release.guarantee
    if guarantee is None:
        unknown = (release.mechanism or {}).get(LOSS_UNKNOWN)
        perturbed = [why for why in dict.fromkeys(part.law.not_private for part in release.measurements) if why]
        if perturbed:
            told = f"No guarantee is stated, and none follows from how these numbers were made: {'; '.join(perturbed)}."
        elif unknown is not None:
            told = (
                f"These are several releases of one table, taken together, and no total loss is stated: {unknown}. See the "
                "publishers' methods notes for each."
            )
        else:
            told = (
                "The release does not say which mechanism made it, so this report cannot say whom it protects, under "
                "which neighbours and at which loss. See the publisher's methods note."
            )
        return paragraph(told)
    kind = KINDS[guarantee.kind]
    entries = []
    for sentence, listed in guarantee.statements():
        if list(listed) == list(guarantee.determined_cells) and listed:
            continue  # they have a heading of their own below
        entries.append(joined([sentence, items(listed)]) if listed else sentence)
    return joined([paragraph(element("strong", f"{kind[0].upper()}{kind[1:]}.")), items(entries, limit=20)])


def _determined(context: Context) -> Html:
    cells = [context.frame.cell_name(int(i)) for i in context.fit.determined.nonzero()[0]]
    guarantees = [release.guarantee for release in context.fit.releases if release.guarantee is not None]
    cells = list(dict.fromkeys([*cells, *(cell for stated in guarantees for cell in stated.determined_cells)]))
    complete = Fiber.of(context.fit.exact, context.frame).determined_is_complete
    if not cells:
        none = "None: every cell has more than one value that agrees with the exact statistics."
        unknown = "None is known of. Whether there are any could not be worked out for this table."
        return paragraph(none if complete else unknown)
    verb = "has" if len(cells) == 1 else "have"
    warning = boxed(
        "warn",
        f"{plural(len(cells), 'cell')} {verb} no protection.",
        "The exact values, and that counts are not negative, leave one possible value. No noise hides it, whatever the loss "
        "stated above.",
    )
    others = [] if complete else [paragraph("Whether there are others could not be worked out for this table.")]
    return joined([warning, items(cells, what="determined cells"), *others])


_LISTED_STATISTICS = 40
"""So many answers about statistics are written out."""


def published_statistics(context: Context) -> Html:
    """What is published, under which law, and whom the noise protects."""
    written = [
        paragraph(
            f"{plural(context.frame.size, 'confidential statistic', 'confidential statistics')} of a data set. Nothing is published "
            "exactly but what the mechanism takes as public, such as bounds and the number of records."
        )
    ]
    for i, measured in enumerate(context.fit.measurements):
        written.append(paragraph(f"{context.measurement_title(i)}: law ", element("code", str(measured.law)), "."))
        # Some statistics, or sums of them, have no place in the table of all.
        if not measured.query.is_identity:
            names = answer_labels(measured.query, range(min(measured.query.rows, _LISTED_STATISTICS)))
            shown = zip(names, measured.published.reshape(-1).tolist(), strict=False)
            written.append(items([joined([label(*name), ": ", significant(value)]) for name, value in shown]))
            if measured.query.rows > _LISTED_STATISTICS:
                written.append(paragraph(f"and {measured.query.rows - _LISTED_STATISTICS} more."))
    return joined([*written, element("h3", "Whom the noise protects"), *guarantees(context)])


def noise_and_sampling(context: Context) -> Html:
    """How much of the uncertainty is privacy noise, and how much would be there without it."""
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
    for i, measured in enumerate(context.fit.measurements):
        if len(context.fit.measurements) > 1:
            parts.append(element("h3", context.measurement_title(i)))
        parts += _of_measurement(context, measured, i)
    return joined(parts)


def noise_sizes(context: Context, measured: Measured, scale: NoiseScale) -> Floats:
    """The size of the noise of each answer, shape ``(answers,)``; NaN where it is not known."""
    # That of perturbed counts depends on the true ones: it is averaged over their posterior, or taken at the posterior mean of sums
    # whose draws were not kept.
    law, query, fit = measured.law, measured.query, context.fit
    if not isinstance(law, PerturbedLaw):
        return scale.sd
    summarised = query.is_identity and isinstance(fit, SummarisedPosterior)
    drawn = fit.answers(query) if fit.has(query) and not summarised else np.rint(_moments(context, query)[0])[None]
    squares = np.zeros(query.rows)
    for counts in drawn:
        variance = law.variance(counts.shape, location=counts)
        squares += law.bias(counts) ** 2 + (0.0 if variance is None else variance)
    return np.asarray(np.sqrt(squares / len(drawn)))


def _moments(context: Context, query: Query) -> tuple[Floats, Floats]:
    """Posterior mean and standard deviation of each answer; the latter is NaN where draws of sums were not kept."""
    fit = context.fit
    if fit.has(query):
        return fit.moments(query)
    means = fit.moments(fit.cells)[0].reshape(context.frame.shape)  # means of sums are sums of means
    return flat(query.apply(means)), np.full(query.rows, np.nan)


def _ratio(above: Floats, below: Floats) -> Floats:
    return np.asarray(np.divide(above, below, out=np.full(above.shape, np.nan), where=below > 0))


def _of_measurement(context: Context, measured: Measured, number: int) -> list[Html]:
    """Medians of the noise, the posterior and their ratio over the free published numbers of a measurement, and a table of all."""
    query, sizes = measured.query, noise_sizes(context, measured, context.noise[number])
    mean, posterior = _moments(context, query)
    sampling, fixed = np.sqrt(np.maximum(mean, 0.0)), context.fit.fixed(query)
    noise = np.where(np.isfinite(flat(measured.published)), sizes, np.nan)
    free = ~fixed & np.isfinite(noise)
    if not free.any():
        told = "No free published number has noise of a known size."
    elif not context.fit.has(query):
        told = (
            f"Median noise sd {spread(float(np.median(sizes[free])))}. The posterior sd of these sums is not known: their draws "
            "were not recorded."
        )
    else:
        shrunk = float(np.nanmedian(_ratio(posterior, sizes)[free]))
        told = (
            f"Median over {plural(int(free.sum()), 'free published number')}: noise sd {spread(float(np.median(sizes[free])))}, "
            f"posterior sd {spread(float(np.median(posterior[free])))}, median ratio {spread(shrunk)}. The noise is larger than the "
            f"sampling sd in {int((sizes > sampling)[free].sum()):,} of them."
        )
    if query.rows > MOST_ROWS:
        return [paragraph(told)]
    columns = [
        *labels(query),
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
    return [paragraph(told), Table(caption, columns, context.file(f"noise-{number + 1}.csv"), fixed.tolist()).to_html()]


def noise_laws(whole: Whole) -> Html | None:
    """How much the result depends on the noise law; None where it is known."""
    laws = [measured.law for context in whole.tables for measured in context.fit.measurements]
    secret = dict.fromkeys(printable(str(law)) for law in laws if law.same_cell_same_value)
    if whole.laws is None and not secret:
        return None
    if whole.laws is None:
        return paragraph(
            f"The numbers above hold if {', '.join(secret)} is the law. Offices that perturb by cell keys often keep the table "
            "of perturbations secret. If it is guessed, one result is too certain: compare several plausible ones "
            "(bayesdp.compare_laws) and give the comparison to the report (laws=...)."
        )
    compared = whole.laws
    several = plural(len(compared.laws), "law")
    parts = [
        boxed(
            "warn",
            f"The noise law is not known: {several} were compared, and the result is no single number.",
            "The numbers in the other sections are those of one law. The laws below are not weighed against one another, and nothing "
            "is averaged over them.",
        ),
        embedded(
            law_comparison(compared),
            "Posterior mean and interval of each quantity under each noise law; the grey bar holds the intervals of all laws.",
        ),
        *(table.to_html() for table in law_tables(compared)),
    ]
    bad = [printable(name) for name, good in compared.converged.items() if good is False]
    if bad:
        parts.append(
            boxed("warn", "Chains do not agree.", f"Under {', '.join(bad)}: do not compare it before they do.")
        )
    return joined(parts)


def law_tables(compared: LawComparison) -> tuple[Table, Table]:
    """How far the laws are apart for each quantity, and the numbers of each law."""
    apart, rows = compared.spread, compared.table
    names = [_quantity(*key) for key in apart.index]
    first = Table(
        "How far the laws are apart: lowest and highest posterior mean, their difference, the same in the smallest posterior standard "
        "deviation, and the ends of what holds all intervals, which is no credible interval.",
        [
            Column("Quantity", names, kind="label"),
            numeric("Lowest mean", apart["mean_lowest"], decimal, "mean_lowest"),
            numeric("Highest mean", apart["mean_highest"], decimal, "mean_highest"),
            numeric("Difference", apart["spread"], spread, "spread"),
            numeric("Difference in sd", apart["spread_in_sd"], spread, "spread_in_sd"),
            numeric("Lower end of all", apart["lower"], decimal, "lower"),
            numeric("Upper end of all", apart["upper"], decimal, "upper"),
        ],
        "law-spread.csv",
    )
    second = Table(
        f"Posterior mean, standard deviation and {100 * compared.prob:.10g}% equal-tailed interval of each quantity under each law.",
        [
            Column("Quantity", [_quantity(part, label) for part, label, _ in rows.index], kind="label"),
            Column("Law", [str(law) for *_, law in rows.index], kind="label"),
            numeric("Mean", rows["mean"], decimal, "mean"),
            numeric("Sd", rows["sd"], spread, "sd"),
            numeric("Lower end", rows["lower"], decimal, "lower"),
            numeric("Upper end", rows["upper"], decimal, "upper"),
        ],
        "laws.csv",
    )
    return first, second


def _quantity(part: object, label: object) -> str:
    return f"{part}: {label}" if label else str(part)

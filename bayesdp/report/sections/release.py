"""Exact answers, noise laws, guarantees, and the cells that have no protection."""

from __future__ import annotations

from bayesdp.composition import LOSS_UNKNOWN, check_law
from bayesdp.fibers import Fiber
from bayesdp.measurements import SIGNS, Exact, described, held_back
from bayesdp.plots.noise import draw_noise_law
from bayesdp.privacy.guarantee import KINDS
from bayesdp.queries import answer_labels
from bayesdp.release import Release
from bayesdp.report.context import Context
from bayesdp.report.html import Html, boxed, element, embedded, items, joined, label, paragraph
from bayesdp.report.numbers import count, plural, spread
from bayesdp.report.tables import is_grand_total

ANCHOR = "release"
TITLE = "What is published, and what is protected"

_LISTED = 12
"""Largest number of exact values that are written out; more are in the table of totals only."""
SIGN_WORDS = dict(zip(SIGNS, ("", "at least ", "at most "), strict=True))
"""How the page says that an exact value is a bound."""


def write(context: Context) -> Html:
    """The section."""
    return joined(
        [
            paragraph(f"One confidential table of counts: {context.table}.{_releases(context)}"),
            element("h3", "Exact"),
            _exact(context),
            element("h3", "Noisy"),
            *_noisy(context),
            *_compatible(context),
            element("h3", "Whom the noise protects"),
            *guarantees(context),
            element("h3", "Cells that the exact values determine"),
            _determined(context),
        ]
    )


def _releases(context: Context) -> str:
    number = len(context.fit.releases)
    return f" {number} releases of it were published, and all are accounted for." if number > 1 else ""


def _exact(context: Context) -> Html:
    if not context.fit.exact:
        return paragraph("Nothing is published exactly.")
    several = len(context.fit.releases) > 1
    listed = [
        joined([f"release {i + 1}: ", _stated(exact)]) if several else _stated(exact)
        for i, release in enumerate(context.fit.releases)
        for exact in release.exact
    ]
    return items(listed, what="exact statistics")


def _stated(exact: Exact) -> Html:
    values = _values(exact)
    return values if exact.assumption is None else joined([values, " ", element("em", f"({exact.assumption})")])


def _values(exact: Exact) -> Html:
    sign = SIGN_WORDS[exact.sign]
    values = exact.values.reshape(-1)
    if exact.query.rows == 1:
        name = "Grand total" if is_grand_total(exact.query) else label(*answer_labels(exact.query, [0])[0])
        return joined([name, f": {sign}{count(float(values[0]))}"])
    if exact.query.rows <= _LISTED:
        names = answer_labels(exact.query, range(exact.query.rows))
        listed = items(
            joined([label(*name), f": {sign}{count(value)}"])
            for name, value in zip(names, values.tolist(), strict=True)
        )
        return joined([f"{described(exact.query)}:", listed])
    bounds = f" ({sign.strip()} the published values)" if sign else ""
    told = f"{described(exact.query)}{bounds}, values {count(float(values.min()))} to {count(float(values.max()))}"
    return joined([told])


def _noisy(context: Context) -> list[Html]:
    if not context.fit.measurements:
        return [paragraph("Nothing noisy is published: the posterior is the prior, held to the exact values.")]
    written = []
    for i, (measured, scale) in enumerate(zip(context.fit.measurements, context.noise, strict=True)):
        sd = scale.sd[scale.sd == scale.sd]
        low, high = (float(sd.min()), float(sd.max())) if sd.size else (float("nan"), float("nan"))
        size = spread(low) if spread(low) == spread(high) else f"{spread(low)} to {spread(high)}"
        hidden = int(measured.unmeasured.sum())
        keeps = (
            ", noise that changes none of the exact values"
            if measured.invariants is not None
            else ", independent noise"
        )
        around_true = measured.law.support == "counts"
        if around_true:
            scale_told = ". Its size depends on the true count."
        else:
            scale_told = f". Standard deviation of the noise: {size} counts ({scale.words})."
        law = paragraph(
            f"{context.measurement_title(i)}: law ",
            element("code", str(measured.law)),
            f"{keeps}{scale_told}",
            *(
                f" Of its answers, {words.replace(' of them', '')} (not published, and known by that alone)."
                for words in held_back(measured)
            ),
            f" {plural(hidden, 'answer was', 'answers were')} not published." if hidden else "",
        )
        lines = "for one true count, at a dashed line" if around_true else "dashed lines at one standard deviation"
        alt = f"Law of the noise {measured.law}; {lines}, in counts."
        written += [law, embedded(draw_noise_law(measured, scale), alt)]
    return written


def _compatible(context: Context) -> list[Html]:
    """Whether the numbers are compatible with the stated laws; with a picture if not."""
    check = check_law(*context.fit.releases)
    if check.warning is not None:
        told = boxed("bad", "Not compatible with the stated law. ", check.warning)
        drawn = any(group.observed.sum() for group in check.groups)
        return (
            [told, embedded(check.plot(2), "Differences of published sums beside what the law says.")]
            if drawn
            else [told]
        )
    p = "" if check.pvalue != check.pvalue else f" (p = {check.pvalue:.2g}, whatever the true table)"
    fits = f"Published sums that have to agree differ as the stated laws say{p}."
    return [
        paragraph(fits if p else "No published sums have to agree, so that nothing checks the stated laws by itself.")
    ]


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
    unknown = (release.mechanism or {}).get(LOSS_UNKNOWN)
    perturbed = [why for why in dict.fromkeys(part.law.not_private for part in release.measurements) if why]
    if guarantee is None and perturbed:
        return paragraph(
            "No guarantee is stated, and none follows from how these numbers were made: ", "; ".join(perturbed), "."
        )
    if guarantee is None and unknown is not None:
        return paragraph(
            f"These are several releases of one table, taken together, and no total loss is stated: {unknown}. See the "
            "publishers' methods notes for each."
        )
    if guarantee is None:
        return paragraph(
            "The release does not say which mechanism made it, so this report cannot say whom it protects, under "
            "which neighbours and at which loss. See the publisher's methods note."
        )
    parts = [paragraph(element("strong", f"{KINDS[guarantee.kind][0].upper()}{KINDS[guarantee.kind][1:]}."))]
    entries = []
    for sentence, listed in guarantee.statements():
        if list(listed) == list(guarantee.determined_cells) and listed:
            continue  # they have a heading of their own below
        entries.append(joined([sentence, items(listed)]) if listed else sentence)
    return joined([*parts, items(entries, limit=20)])


def _determined(context: Context) -> Html:
    cells = [context.frame.cell_name(int(i)) for i in context.fit.determined.nonzero()[0]]
    guarantees = [release.guarantee for release in context.fit.releases if release.guarantee is not None]
    stated = [cell for guarantee in guarantees for cell in guarantee.determined_cells]
    cells += [cell for cell in stated if cell not in cells]
    complete = Fiber.of(context.fit.exact, context.frame).determined_is_complete
    if not cells and complete:
        return paragraph("None: every cell has more than one value that agrees with the exact statistics.")
    if not cells:
        return paragraph("None is known of. Whether there are any could not be worked out for this table.")
    verb = "has" if len(cells) == 1 else "have"
    warning = boxed(
        "warn",
        f"{plural(len(cells), 'cell')} {verb} no protection.",
        "The exact values, and that counts are not negative, leave one possible value. No noise hides it, whatever the loss "
        "stated above.",
    )
    listed = [warning, items(cells, what="determined cells")]
    return joined(
        listed if complete else [*listed, paragraph("Whether there are others could not be worked out for this table.")]
    )

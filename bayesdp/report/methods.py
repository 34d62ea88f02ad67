"""A methods paragraph to cite, and versions, seed, command and date."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import xarray as xr

import bayesdp
from bayesdp._text import printable
from bayesdp.measurements import SIGNS, Measured, described, held_back
from bayesdp.posterior import SummarisedPosterior
from bayesdp.release import Release
from bayesdp.report.context import Context, Whole
from bayesdp.report.html import Html, element, items, joined, paragraph
from bayesdp.report.tables import facts, plural

_SUBSPACE = (
    "Gao, J., Gong, R. and Yu, F.-Y. (2022). Subspace Differential Privacy. Proceedings of the AAAI Conference on Artificial "
    "Intelligence 36(4), 3986–3995. doi:10.1609/aaai.v36i4.20315"
)
_LATTICE = (
    "Dharangutte, P., Gao, J., Gong, R. and Yu, F.-Y. (2023). Integer Subspace Differential Privacy. Proceedings of the AAAI "
    "Conference on Artificial Intelligence 37. arXiv:2212.00936"
)
_RHAT = (
    "Vehtari, A., Gelman, A., Simpson, D., Carpenter, B. and Bürkner, P.-C. (2021). Rank-normalization, folding, and "
    "localization: an improved R-hat for assessing convergence of MCMC. Bayesian Analysis 16(2), 667–718."
)
_SIGN = dict(zip(SIGNS, ("", ", as lower bounds", ", as upper bounds"), strict=True))


def methods(whole: Whole) -> Html:
    """A methods paragraph to cite."""
    quote = element("blockquote", paragraph(" ".join(_sentences(whole))))
    supports = {measured.law.support for table in whole.tables for measured in table.fit.measurements}
    cited = [text for support, text in (("subspace", _SUBSPACE), ("lattice", _LATTICE)) if support in supports]
    cited += [] if whole.tables[0].fit.computed else [_RHAT]
    references = [element("h3", "References"), items(cited)] if cited else []
    return joined([quote, *references])


def _sentences(whole: Whole) -> list[str]:
    attrs = whole.model.tree.attrs
    by = f"bayesdp {attrs.get('bayesdp_version', '')}".strip()
    pymc = f" (PyMC {attrs['pymc_version']})" if attrs.get("pymc_version") else ""
    fit = whole.tables[0].fit
    chains = f"{plural(fit.chains, 'chain')} of {plural(fit.draws, 'draw')}"
    sampled = f"It was sampled with {by}{pymc}: {chains} after tuning."
    if fit.computed:
        sampled = f"It was computed with {by}, each cell by itself; sums by {plural(fit.draws, 'independent draw')}."
    sentences = [
        *(sentence for context in whole.tables for sentence in _published(context)),
        *_further(whole),
        _joint(whole),
        sampled,
        "" if fit.computed else _sampler(whole),
        _STREAMED if isinstance(fit, SummarisedPosterior) and not fit.computed else "",
        _resumed(int(attrs.get("resumed", 0))),
        *(_RELAXED.format(context.of_table) for context in whole.tables if context.fit.relaxed),
        whole.model.message if whole.model.diagnostics else "",
        _prior(whole),
        f"We report posterior means and {whole.kind}s.",
    ]
    return [sentence if sentence.endswith((".", "]")) else f"{sentence}." for sentence in sentences if sentence]


_STREAMED = (
    "Draws of cells were not kept: means, standard deviations and quantiles of each cell were gathered while sampling, and "
    "its effective sample size and R-hat are those of means of batches of draws."
)


def _published(context: Context) -> list[str]:
    """Sentences on the releases that a table was inferred from."""
    releases = context.fit.releases
    name = f" {context.fit.name}" if context.several else ""
    if context.of_statistics:
        verb = "was" if context.frame.size == 1 else "were"
        told = [f"{context.table}{name}, confidential, {verb} inferred from {_made(release)}." for release in releases]
        return [sentence for pair in zip(told, map(_contents, releases), strict=True) for sentence in pair]
    counts = f"The confidential table of counts{name} ({context.table}) was inferred from"
    if len(releases) == 1:
        return [f"{counts} {_made(releases[0])}.", _contents(releases[0])]
    sentences = [f"{counts} {len(releases)} releases together."]
    for i, release in enumerate(releases):
        sentences += [f"Release {i + 1}{name and f' of{name}'} is {_made(release)}.", _contents(release)]
    return sentences


def _contents(release: Release) -> str:
    noisy = "; ".join(
        f"{measured.name}: {_noisy(measured)}" if measured.name else _noisy(measured)
        for measured in release.measurements
    )
    exact = "; ".join(
        f"{described(part.query)}{_SIGN[part.sign]}{'' if part.assumption is None else f' ({printable(part.assumption)})'}"
        for part in release.exact
    )
    return f"Published with noise: {noisy or 'nothing'}. Published exactly: {exact or 'nothing'}."


def _noisy(measured: Measured) -> str:
    """A measurement with its law, and how many answers are known by a threshold only or not at all."""
    hidden = int(measured.unmeasured.sum())
    missing = [*held_back(measured), *([f"{hidden} of them not published"] if hidden else [])]
    return f"{described(measured.query)}{''.join(f', {words}' for words in missing)}, noise law {measured.law}"


def _made(release: Release) -> str:
    made = "a release with random noise of a published law" if release.measurements else "a release without noise"
    if release.guarantee is not None:
        made = "a differentially private release"
    return f"{made}, simulated for this analysis" if release.simulated else made


def _further(whole: Whole) -> list[str]:
    """Sentences on further likelihoods and potentials, by name, which is all that the file has of them."""
    model = whole.model
    told = {
        "The model has further data, with the likelihoods of its author: {}.": model.likelihoods,
        "It has further terms of the log-density (Potentials): {}.": model.potentials,
        "The numbers of {} are not those of any release in the file: they were replaced in the model [state them].": model.replaced,
    }
    return [sentence.format(", ".join(names)) for sentence, names in told.items() if names]


def _joint(whole: Whole) -> str:
    """The joint posterior as a formula with the factors of this model."""
    likelihoods, potentials = bool(whole.model.likelihoods), bool(whole.model.potentials)
    if all(table.of_statistics for table in whole.tables):
        more = " and with the further data and terms" if likelihoods or potentials else ""
        return (
            "The joint posterior of the parameters θ is p(θ | y) ∝ p(θ) p(y | s(θ)), with the statistics s as functions of them and "
            f"the stated noise laws as p(y | s){more}."
        )
    theta = bool(whole.model.free_parameters)
    noisy = any(table.fit.measurements for table in whole.tables)
    signs = {part.sign for table in whole.tables for part in table.fit.exact}
    unknown = "θ, x" if theta else "x"
    fiber = "1{A x = t, x ≥ 0}" if signs == {"="} else "1{x agrees with t, x ≥ 0}" if signs else "1{x ≥ 0}"
    parts = [  # each, if it is there: its sign among the data, its factor, and its words
        (noisy, "y", "p(y | x)", "the stated noise laws as p(y | x)"),
        (bool(signs), "t", "", "the exact values t as data"),
        (likelihoods, "z", f"p(z | {unknown})", "the further data z"),
        (potentials, "", f"exp(v({unknown}))", "the Potentials v"),
    ]
    there = [(sign, factor, words) for is_there, sign, factor, words in parts if is_there]
    data = ", ".join(sign for sign, _, _ in there if sign)
    factors = ["p(θ) p(x | θ)" if theta else "p(x)", fiber, *(factor for _, factor, _ in there if factor)]
    words = [own for _, _, own in there]
    listed = " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
    what = "the counts x and the parameters θ" if theta else "the counts x"
    tables = f" of the {len(whole.tables)} tables" if len(whole.tables) > 1 else ""
    left = f"p({unknown} | {data})" if data else f"p({unknown})"
    return (
        f"The joint posterior of {what}{tables} is {left} ∝ {' '.join(factors)}{f', with {listed}' if listed else ''}."
    )


def _resumed(times: int) -> str:
    """A sentence on how often the run was stopped and resumed; its chains are those of an uninterrupted run."""
    often = "once" if times == 1 else f"{times} times"
    told = f"The run was stopped and went on {often} from draws and sampler states on disk; each chain is one chain."
    return told if times else ""


def _sampler(whole: Whole) -> str:
    """A sentence on the step methods, as far as the statistics of the sampler show them."""
    group = whole.model.tree.children.get("sample_stats", xr.DataTree())
    stats = set(group.data_vars)
    relaxed = [context.fit.name for context in whole.tables if context.fit.relaxed]
    drawn = [context.fit.name for context in whole.tables if context.fit.name not in relaxed]
    free = bool(whole.model.free_parameters)
    if all(context.of_statistics for context in whole.tables):
        return f"The parameters were sampled by {_by(whole, stats)}." if stats else ""
    if not drawn:
        together = "Counts and parameters were sampled together" if free else "The counts were sampled"
        return f"{together} by NUTS, as real numbers, and not rounded."
    names = f" of {' and '.join(drawn)}" if relaxed else ""
    steps = f"The counts{names} were moved by exact-conditional steps among the tables that agree with the exact values"
    rest = [f"those of {' and '.join(relaxed)} as real numbers, and not rounded,"] if relaxed else []
    rest += ["the other parameters"] if free else []
    if "fiber_accepted" in stats and float(group["fiber_accepted"].min()) < _ALL:
        steps += ", accepted or rejected on what else the model says of them"
    if not rest or not stats:
        return f"{steps}."
    return f"{steps}, {' and '.join(rest)} by {_by(whole, stats)}."


def _by(whole: Whole, stats: set[Any]) -> str:
    """The step methods of PyMC that moved the parameters."""
    if "diverging" not in stats:
        return "step methods of PyMC"
    kinds = {whole.model.variables[name].dtype.kind for name in whole.model.free_parameters}
    others = kinds & {"i", "u"} or stats & _OTHER_STEPS
    return "NUTS and other step methods of PyMC" if others else "NUTS"


_OTHER_STEPS = {"nstep_out", "scaling", "p_jump"}
"""Statistics of PyMC's slice and Metropolis steps."""


_RELAXED = (
    "This is a continuous relaxation{}: x runs over the real tables with A x = t and x ≥ 0, p(x | θ) is continued between whole "
    "numbers, and volume takes the place of counting."
)


def _prior(whole: Whole) -> str:
    """The prior by name, with hyperparameters where a description states them; else each variable with its law."""
    text, printed = whole.model.described
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if lines:
        last = f", {lines[-1]}" if len(lines) > 1 and lines[-1].startswith("with ") else ""
        return f"Prior: {lines[0].rstrip(':')}{last} (formulas in the report)."
    known = {*(context.fit.name for context in whole.tables), *whole.model.free_parameters}
    laws = [f"{name} ~ {law}" for name, law in whole.model.laws("~") if name in known]
    if not laws or len(laws) > _MOST_LAWS:
        told = "as PyMC prints it in the report" if printed else "the file does not"
        return f"Prior: [state it; {told}]."
    return f"Prior, as PyMC prints it: {'; '.join(laws)}."


_MOST_LAWS = 8
_ALL = 1.0 - 1e-9


def provenance(whole: Whole) -> Html:
    """Versions, seed, command and date."""
    attrs = whole.model.tree.attrs
    unknown = "not recorded"
    made = f"bayesdp {bayesdp.__version__}, ArviZ {version('arviz')}, Matplotlib {version('matplotlib')}"
    rows = [
        ("Posterior drawn", str(attrs.get("created", unknown))),
        ("with bayesdp", str(attrs.get("bayesdp_version", unknown))),
        ("PyMC, NumPy", f"{attrs.get('pymc_version', unknown)}, {attrs.get('numpy_version', unknown)}"),
        ("Seed of the sampler", str(attrs.get("seed", unknown))),
        ("Command", element("code", attrs["command"]) if attrs.get("command") else unknown),
        ("Mechanism", _mechanism(whole)),
        ("Report written", datetime.now(UTC).isoformat(timespec="seconds")),
        ("with", made),
    ]
    note = paragraph(
        "The seed is that of the draws. No seed and no state of the noise is stored anywhere.", class_="note"
    )
    text, printed = whole.model.described
    if not text or not printed:
        return joined([facts(rows), note])
    model = element("details", element("summary", "The model as PyMC prints it"), element("pre", printed))
    return joined([facts(rows), note, model])


def _mechanism(whole: Whole) -> Any:
    stated = []
    for context in whole.tables:
        for i, release in enumerate(context.fit.releases):
            which = [context.fit.name] if context.several else []
            which += [f"release {i + 1}"] if len(context.fit.releases) > 1 else []
            if release.mechanism is None:
                told = "not stated by the release"
            else:
                plain = {key: value for key, value in release.mechanism.items() if isinstance(value, str | int | float)}
                told = ", ".join(f"{key}: {value}" for key, value in plain.items()) or "stated by the release"
            stated.append(f"{', '.join(which)}: {told}" if which else told)
    return stated[0] if len(stated) == 1 else items(stated)

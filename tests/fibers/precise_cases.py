"""Small tables with precise sums beside noisy cells, a sparse prior, and so several modes."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from bayesdp import Exact, Identity, LinearQuery, Margins, Totals
from bayesdp.fibers import Fiber, NoiseTerm, Target
from tests.fibers.cases import frame_of, zeros_at
from tests.fibers.harness import exact_posterior

PRECISE, NOISY = 0.25, 250.0  # variances of the precise sums, and of the cells: 1 to 1000
TIGHT = 0.001  # variance with which a table with another sum has next to no probability, exp(-500): they are not listed


@dataclass(frozen=True)
class Precise:
    """A table, its sums by the named dimensions published precisely, and its cells with much noise."""

    table: tuple
    sums: tuple
    total: bool = True
    prior: str = "negbin"
    kind: str = "gaussian"
    zeros: tuple = ()
    limit: int | None = None
    general: tuple = ()
    masked: tuple = ()
    levels: tuple = ()
    tight: bool = False

    @cached_property
    def counts(self):
        return np.array(self.table)

    @cached_property
    def target(self):
        frame = frame_of(*self.counts.shape)
        terms = [self._term(Identity(frame), "gaussian", NOISY)]
        for i, own in enumerate(self.sums):
            variance = self.levels[i] if self.levels else TIGHT if self.tight else PRECISE
            terms.append(self._term(Margins(frame, list(own)), self.kind, variance, self.masked))
        if self.general:
            query = LinearQuery(frame, self.general, [str(i) for i in range(len(self.general))])
            terms.append(self._term(query, self.kind, PRECISE))
        exact = [Exact(Totals(frame), int(self.counts.sum()))] if self.total else []
        exact += [zeros_at(frame, list(self.zeros))] if self.zeros else []
        if self.limit is not None:
            exact.append(Exact(Margins(frame, ["b"]), np.full(frame.shape[1], self.limit), "<="))
        return Target(Fiber.of(exact, frame), tuple(terms), self.prior)

    @property
    def without(self):
        """The same posterior, with the directions of the exact answers only."""
        return replace(self.target, spread=0.0)

    @property
    def parameters(self):
        """Of the prior: log weights, and shapes."""
        weight = 2.0 / 2.05 if self.prior == "negbin" else 0.2
        return np.full(self.counts.size, np.log(weight)), np.full(self.counts.size, 0.05)

    @cached_property
    def posterior(self):
        """All tables, or where no total is exact those with at most three counts more, and their probabilities."""
        frame, window = self.target.fiber.frame, None
        if self.tight:
            exact = [Exact(own, own.apply(self.counts)) for own in (Margins(frame, list(keep)) for keep in self.sums)]
            window = Fiber.of([*exact, *([zeros_at(frame, list(self.zeros))] if self.zeros else [])], frame)
        elif not self.total:
            window = Fiber.of([Exact(Totals(frame), int(self.counts.sum()) + 3, "<=")], frame)
        return exact_posterior(self.target, *self.parameters, window)

    def _term(self, query, kind, variance, masked=()):
        answers = np.asarray(query.matrix @ self.counts.reshape(-1), dtype=np.float64)
        if variance > 10.0:  # noise that matters little, but is no symmetry
            answers = answers + np.rint(np.random.default_rng(3).normal(0.0, variance**0.5, answers.shape))
        measured = ~np.isin(np.arange(rows := len(answers)), masked)
        if kind == "gaussian":
            return NoiseTerm(query, answers, kind, np.full(rows, variance**0.5), measured)
        rate = (2.0 / variance) ** 0.5 if kind == "l1" else ((rows + 1) / variance) ** 0.5
        return NoiseTerm(query, answers, kind, np.array(rate), measured)


CASES = {
    "2x3, rows": Precise(((4, 0, 0), (1, 0, 0)), ("a",), total=False),
    "2x3, both margins": Precise(((4, 0, 0), (0, 4, 0)), ("a", "b")),
    "2x2, both margins, no total": Precise(((6, 0), (0, 6)), ("a", "b"), total=False),
    "3x3, both margins": Precise(((2, 0, 0), (0, 2, 0), (0, 0, 1)), ("a", "b")),
    "3x3, both margins, Poisson": Precise(((2, 0, 0), (0, 2, 0), (0, 0, 1)), ("a", "b"), prior="poisson"),
    "2x2x2, one two-way margin": Precise((((3, 0), (0, 1)), ((0, 1), (1, 0))), ("ab",)),
    "2x2x2, two two-way margins": Precise((((3, 0), (0, 2)), ((0, 0), (1, 0))), ("ab", "ac")),
    "2x2x2, three two-way margins": Precise((((2, 0), (0, 2)), ((0, 1), (1, 0))), ("ab", "ac", "bc")),
    "general rows": Precise(((4, 0, 0), (0, 4, 0)), (), general=((1, 2, 0, 0, 0, 0), (0, 0, 1, 1, 0, 1))),
}
"""Cases whose directions can be written out."""

MORE = {
    "Laplace": replace(CASES["2x3, both margins"], kind="l1"),
    "l2": replace(CASES["2x3, both margins"], kind="l2"),
    "structural zeros": replace(CASES["3x3, both margins"], zeros=(1, 5)),
    "limits of sums": replace(CASES["2x3, both margins"], limit=5),
    "two levels": replace(CASES["3x3, both margins"], levels=(0.1, 4.0)),
    "masked": replace(CASES["3x3, both margins"], masked=(2,)),
}
"""Other laws, zeros and limits."""

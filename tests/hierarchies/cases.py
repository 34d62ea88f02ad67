"""Small hierarchies whose tables can be listed, with their posteriors."""

from dataclasses import dataclass, field

import numpy as np
from scipy.special import gammaln

from bayesdp import Exact, Frame
from bayesdp.fibers import Fiber, NoiseTerm, Target, enumerate_fiber
from bayesdp.hierarchies.chain import TreeChain
from bayesdp.hierarchies.structure import structure_of
from bayesdp.queries import Query, SumPart
from tests.comparison.chi_square import chi_square_pvalue
from tests.comparison.enumeration import probabilities
from tests.noisy_sums import indices

NOISE = ((("tract", "age", "race"), 2.0), (("tract", "race"), 0.4), (("county", "age"), 1.5), (("county",), 0.7))
"""Sums that are published with noise, and its scale: one of them is precise."""


@dataclass(frozen=True)
class Case:
    """A hierarchy of tracts by age and race, and by sex if there are four axes, some of its sums exact."""

    shape: tuple
    counties: str
    total: int
    exact: tuple = ((),)
    family: str = "negbin"
    limits: bool = False
    zeros: tuple = ()
    noise: tuple = NOISE
    seed: int = 1
    target: Target = field(init=False)

    def __post_init__(self):
        rng = np.random.default_rng(self.seed)
        sizes = zip(("tract", "age", "race", "sex"), self.shape, strict=False)
        labels = {name: [f"{name}{i}" for i in range(n)] for name, n in sizes}
        frame = Frame.of(labels | {"county": ("tract", list(self.counties))})
        truth = rng.multinomial(self.total, np.full(frame.size, 1.0 / frame.size)).reshape(self.shape)
        upper = np.full(self.shape, 2**53)
        for zero in self.zeros:
            truth[zero] = upper[zero] = 0

        def answered(keep):
            query = Query(frame, (SumPart(frame, keep),))
            return query, query.apply(truth)

        terms = []
        for keep, scale in self.noise:
            query, answers = answered(keep)
            noisy = np.rint(answers.reshape(-1) + rng.normal(0.0, scale, answers.size))
            terms.append(NoiseTerm(query, noisy, "gaussian", np.full(noisy.size, scale), np.ones(noisy.size, np.bool_)))
        exact = [Exact(*answered(keep)) for keep in self.exact]
        if self.limits:
            query, values = answered(("tract", "age"))
            exact += [Exact(query, np.minimum(values, 1), ">="), Exact(query, values + 1, "<=")]
        fiber = Fiber.of(exact, frame)
        fiber = fiber.with_cells_between(0, upper.reshape(-1)) if self.zeros else fiber
        object.__setattr__(self, "target", Target(fiber, tuple(terms), self.family))

    @property
    def parameters(self):
        """Log weights of the prior, and shapes; both are others in every tract."""
        size = self.target.fiber.frame.size
        cells = np.linspace(0.2, 0.9, size // self.shape[0])[::-1]
        return np.linspace(-1.4, -0.1, size), np.outer(np.linspace(1.0, 2.5, self.shape[0]), cells).reshape(-1)

    def enumerate(self):
        """All tables, flat, and their posterior probabilities."""
        tables = enumerate_fiber(self.target.fiber, 10**6).reshape(-1, self.target.fiber.frame.size)
        return tables, self.probabilities(tables)

    def probabilities(self, tables):
        """The posterior of tables, flat, if it is one of them."""
        theta, shape = self.parameters
        logs = tables @ theta
        if self.family == "negbin":
            logs = logs + (gammaln(tables + shape) - gammaln(tables + 1)).sum(axis=1)
        elif self.family == "poisson":
            logs = logs - gammaln(tables + 1).sum(axis=1)
        for term in self.target.terms:
            residuals = term.values - tables @ term.matrix.T.toarray()
            logs = logs - (residuals**2 / (2.0 * term.scale**2)).sum(axis=1)
        return probabilities(logs)

    def chain(self, seed):
        """A chain at a table of no importance."""
        chain = TreeChain(self.target, structure_of(self.target, "tract"), np.random.default_rng(seed))
        chain.set_prior(*self.parameters)
        return chain


def drawn(chain, draws):
    """The tables of a chain, leaves by cells, after each of so many sweeps."""
    for _ in range(draws):
        chain.sweep()
        yield chain.table.copy()


def after_one_sweep(chain, tables, probability, starts, seed=3):
    """One sweep from each of many exact draws: the p-value of the law of the tables after it, and the share that changed."""
    before, found = np.random.default_rng(seed).choice(len(tables), size=starts, p=probability), []
    for start in before:
        chain.load(tables[start])
        chain.sweep()
        found.append(chain.counts.copy())
    [after] = indices(tables, [found])
    return chi_square_pvalue(np.bincount(after, minlength=len(tables)), starts * probability), (after != before).mean()


CASES = {
    "exact total": Case((2, 2, 2), "AA", 4),
    "three levels, Poisson": Case((3, 2, 2), "AAB", 3, family="poisson"),
    "exact totals of tracts": Case((2, 2, 2), "AA", 6, exact=(("tract",),)),
    "exact totals of counties, flat": Case((3, 2, 2), "ABA", 4, exact=(("county",),), family="flat"),
    "both margins": Case((2, 2, 2), "AA", 9, exact=(("tract",), ("county", "age", "race"))),
    "limits of sums": Case((2, 2, 3), "AA", 3, limits=True),
    "structural zeros": Case((2, 2, 3), "AA", 4, zeros=((0, 1, 1), (1, 0, 0))),
    "precise counties": Case((3, 2, 2), "AAB", 3, noise=((NOISE[0][0], 4.0), (("county", "age", "race"), 0.6))),
    "groups of four": Case((2, 4, 1), "AA", 5, noise=((("tract", "age"), 3.0), (("tract",), 0.3), (("county",), 1.0))),
}

"""The step method of latent lattice noise."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pymc as pm
from pymc.initial_point import PointType
from pymc.step_methods.compound import Competence
from pymc.util import get_random_generator

from bayesdp._validate import positive_integer
from bayesdp.steps._assigned import chosen_values
from bayesdp.steps._table_gibbs import TableGibbs
from bayesdp.steps.noise_table import NoiseTable, is_lattice_noise


class LatticeNoiseGibbs(TableGibbs):
    """Moves latent lattice noise; PyMC assigns it to every free `LatticeLaplace` and `LatticeGaussian` by itself.

    The noise itself is a variable z of the model, and the confidential table is what is left of the published one, ``y -
    z``. Each move draws a direction of the lattice, and a step along it from the exact conditional law of the noise; it is
    accepted or taken back on the log-density of everything else in the model. Where the counts have a prior that
    `ConfidentialCounts` takes, sampling them instead (`bayesdp.observe`) is faster, and gives the same posterior. Options
    go through ``pm.sample(lattice_noise_gibbs={"sweeps": 4})``.

    Parameters
    ----------
    vars : list of variables
        The noise; all of the model if left out. Several tables in one model share one step.
    sweeps : int
        Moves a draw, in units of the dimension of the lattice.
    model, initial_point, compile_kwargs, blocked, rng
        Supplied by PyMC.


    Notes
    -----
    A start off the lattice is replaced by the location at a chain's first step, before anything is recorded; every move
    stays on the lattice. If the rest of the model gives the start no density (a published table with negative counts, and
    a prior on nonnegative ones), moves are tried until it does. Where NUTS is to run before that, give a start with
    ``pm.sample(initvals=...)``.

    Examples
    --------
    >>> import numpy as np
    >>> import bayesdp as bdp
    >>> table = {"county": ["Alpha", "Beta", "Gamma"]}
    >>> published = np.array([12, 30, 7])
    >>> with pm.Model() as model:
    ...     z = bdp.distributions.LatticeLaplace("z", np.zeros(3, dtype=int), 0.5, invariants=bdp.Invariants(bdp.Totals(table)))
    ...     x = pm.Deterministic("x", published - z)
    ...     prior = pm.Potential("prior", pm.logp(pm.Poisson.dist([10.0, 30.0, 10.0]), x).sum())
    ...     step = LatticeNoiseGibbs([z])
    """

    name = "lattice_noise_gibbs"
    stats_dtypes_shapes: ClassVar[dict[str, tuple[type, list[int]]]] = {
        "lattice_changed": (np.float64, []),
        "lattice_accepted": (np.float64, []),
    }

    def __init__(
        self,
        vars: Any = None,  # the name is PyMC's
        *,
        sweeps: int = 4,
        model: pm.Model | None = None,
        initial_point: PointType | None = None,
        compile_kwargs: dict[str, Any] | None = None,
        blocked: bool = True,
        rng: Any = None,
    ) -> None:
        model = pm.modelcontext(model)
        chosen = chosen_values(model, vars, is_lattice_noise, "LatticeNoiseGibbs", "LatticeLaplace and LatticeGaussian")
        self.vars = chosen
        self.sweeps = positive_integer(sweeps, "sweeps")
        self.rng = get_random_generator(rng)
        self.tables: list[NoiseTable] = [NoiseTable(model, value, self.rng, compile_kwargs or {}) for value in chosen]
        self.fresh = True

    @staticmethod
    def competence(var: Any, has_grad: bool) -> Competence:
        """Claim lattice noise, and nothing else."""
        return Competence.IDEAL if is_lattice_noise(var) else Competence.INCOMPATIBLE

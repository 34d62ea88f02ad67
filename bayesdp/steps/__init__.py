"""PyMC step methods; importing this package registers them."""

from __future__ import annotations

from bayesdp.steps import fiber_gibbs, lattice_gibbs, perturbation_gibbs, row_gibbs
from bayesdp.steps._stop import stop_request
from bayesdp.steps.fiber_gibbs import FiberGibbs
from bayesdp.steps.lattice_gibbs import LatticeNoiseGibbs
from bayesdp.steps.perturbation_gibbs import PerturbationGibbs
from bayesdp.steps.row_gibbs import RowNoiseGibbs

__all__ = ["FiberGibbs", "LatticeNoiseGibbs", "PerturbationGibbs", "RowNoiseGibbs", "stop_request"]


def register() -> None:
    """Tell PyMC of the step methods of the package; it happens by itself when one is imported or a variable needs one."""
    fiber_gibbs.register()
    lattice_gibbs.register()
    perturbation_gibbs.register()
    row_gibbs.register()


register()

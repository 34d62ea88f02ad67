"""PyMC step methods; importing this package registers them."""

from __future__ import annotations

from pymc.step_methods import STEP_METHODS

from bayesdp.steps.base import stop_request
from bayesdp.steps.fiber_gibbs import FiberGibbs
from bayesdp.steps.noise_gibbs import LatticeNoiseGibbs, PerturbationGibbs, RowNoiseGibbs

__all__ = ["FiberGibbs", "LatticeNoiseGibbs", "PerturbationGibbs", "RowNoiseGibbs", "stop_request"]


def register() -> None:
    """Tell PyMC of the step methods of the package; it happens by itself when one is imported or a variable needs one."""
    for method in (FiberGibbs, LatticeNoiseGibbs, PerturbationGibbs, RowNoiseGibbs):
        if method not in STEP_METHODS:
            STEP_METHODS.append(method)


register()

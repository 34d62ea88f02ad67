"""PyMC step methods; importing this package registers them."""

from __future__ import annotations

from bayesdp.steps.fiber_gibbs import FiberGibbs, register

__all__ = ["FiberGibbs"]

register()

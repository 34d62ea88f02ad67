"""Step methods of free noise, known to PyMC as soon as there is a variable that needs one."""

from __future__ import annotations

from importlib import import_module

__all__ = ["register_steps"]


def register_steps() -> None:
    """Register the step methods of the package with PyMC.

    Without them PyMC would give integer noise to its own Metropolis step, which leaves the lattice and records tables that
    break the invariants. This is the one import upwards (`bayesdp.steps` knows the distributions), made when a variable is
    made, because whoever imports the distributions alone needs it too.
    """
    import_module("bayesdp.steps")

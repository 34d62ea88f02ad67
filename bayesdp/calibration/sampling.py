"""``pm.sample`` for runs of many fits: quiet, and ended by Ctrl-C as a whole."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import pymc as pm
import xarray as xr
from pymc.sampling.mcmc import assign_step_methods

from bayesdp._interrupts import handled

SAMPLER: dict[str, Any] = {
    "draws": 400,
    "tune": 400,
    "chains": 1,
    "cores": 1,
    "nuts_sampler": "pymc",
    "progressbar": False,
    "quiet": True,
    "compute_convergence_checks": False,
}
"""Default arguments of ``pm.sample`` in a simulation."""


def quiet_sample(model: pm.Model, settings: Mapping[str, Any], seed: int) -> xr.DataTree:
    """Sample a model."""
    # PyMC takes Ctrl-C for "these draws are enough", and gives back what it has. Of one fit among hundreds that would be a
    # posterior of a few draws that nobody notices: here Ctrl-C always ends the run. `settings`: arguments of `pm.sample`.
    with _noting_ctrl_c(), model, warnings.catch_warnings():
        # NUTS overflows on its first trial steps from a distant start, and rejects them.
        warnings.filterwarnings("ignore", "overflow encountered", RuntimeWarning)
        tree: xr.DataTree = pm.sample(**_with_gradient(model, settings), random_seed=seed)
    return tree


_GRADIENTS: WeakKeyDictionary[pm.Model, Any] = WeakKeyDictionary()
"""Log-density and gradient for NUTS, by frozen model; None where NUTS has no variables or all of them."""


def _with_gradient(model: pm.Model, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings, with the compiled gradient of a frozen model for NUTS."""
    # PyMC hands out a copy of it to every step method, for they may run side by side, and to copy it is to link it again: a fifth
    # of the time of a small simulation. The fits of one frozen model come one after the other.
    chosen = dict(settings)
    if (
        {"step", "compile_kwargs"} & chosen.keys()
        or chosen.get("nuts_sampler") != "pymc"
        or not isinstance(model, pm.FrozenModel)
    ):
        return chosen
    if model not in _GRADIENTS:
        _, steps = assign_step_methods(model)
        variables = steps.get(pm.NUTS) if len(steps) > 1 else None  # alone, its start makes a function of its own
        # NUTS calls it with arrays of the right type.
        _GRADIENTS[model] = (
            model.logp_dlogp_function(variables, ravel_inputs=True, trust_input=True) if variables else None
        )
    if _GRADIENTS[model] is not None:
        chosen["nuts"] = {"logp_dlogp_func": _GRADIENTS[model]} | dict(chosen.get("nuts", {}))
    return chosen


@contextmanager
def _noting_ctrl_c() -> Iterator[None]:
    """Raise KeyboardInterrupt at the end of the context if Ctrl-C was pressed in it, whatever PyMC did with it."""
    pressed = False

    def note(number: int) -> None:
        nonlocal pressed
        pressed = True
        raise KeyboardInterrupt

    with handled(note, own_too=True):  # not in a worker, which ignores it: its driver decides
        try:
            yield
        except BaseException:
            if pressed:
                raise KeyboardInterrupt from None
            raise
    if pressed:
        raise KeyboardInterrupt

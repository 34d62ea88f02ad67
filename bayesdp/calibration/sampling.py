"""``pm.sample`` for runs of many fits: quiet, and ended by Ctrl-C as a whole."""

from __future__ import annotations

import signal
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pymc as pm
import xarray as xr

__all__ = ["SAMPLER", "quiet_sample"]

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
"""What a simulation asks of ``pm.sample``, unless it is told otherwise."""


def quiet_sample(model: pm.Model, settings: Mapping[str, Any], seed: int) -> xr.DataTree:
    """Sample a model.

    PyMC takes Ctrl-C for "these draws are enough", and gives back what it has. Of one fit among hundreds that would be a
    posterior of a few draws that nobody notices: here Ctrl-C always ends the run.

    Parameters
    ----------
    model : pymc.Model
    settings : mapping
        Arguments of ``pm.sample``.
    seed : int

    Raises
    ------
    KeyboardInterrupt
        If Ctrl-C was pressed, whatever PyMC made of it.
    """
    with _noting_ctrl_c(), model, warnings.catch_warnings():
        # NUTS overflows on its first trial steps from a distant start, and rejects them.
        warnings.filterwarnings("ignore", "overflow encountered", RuntimeWarning)
        tree: xr.DataTree = pm.sample(**settings, random_seed=seed)
    return tree


@contextmanager
def _noting_ctrl_c() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # signals reach the main thread only
        yield
        return
    pressed = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        pressed = True
        raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:  # a worker, whose driver decides
        yield
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield
    except BaseException:
        if pressed:
            raise KeyboardInterrupt from None
        raise
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        raise KeyboardInterrupt

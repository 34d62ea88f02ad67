"""``pm.sample``, with progress in lines where there is no terminal, and Ctrl-C that keeps what was drawn.

Its processes end when they should: with the main process, and with sampling.
"""

from __future__ import annotations

import multiprocessing
import platform
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from importlib.util import find_spec
from typing import Any

import pymc as pm
import pytensor
import xarray as xr
from pymc.backends.ndarray import NDArray
from rich.console import Console

from bayesdp._interrupts import (
    dispensable_progress,
    end_with_parent,
    helpers_outlive_hangup,
    leave_signals_to_the_main_process,
    received,
    tell,
)
from bayesdp._numba import dispensable_caches
from bayesdp.distributions.tables import RowSpaceNoiseRV
from bayesdp.inference.interrupt import StopOnCtrlC
from bayesdp.inference.runs.fingerprint import planned
from bayesdp.inference.runs.journal import DrawJournal
from bayesdp.inference.runs.recorded import hook
from bayesdp.steps.base import start_of
from bayesdp.steps.supports import SLOW_RATES

_FIRST, _LONGEST = 5.0, 60.0
"""Seconds before the first line, and between two lines at most; in between, each wait is half of the time that has passed."""


def lines_wanted(given: Any) -> bool:
    """Whether progress was asked for and is to come in lines: standard error is neither a terminal nor in a notebook with widgets."""
    # `given`: arguments of `pm.sample`.
    asked = bool(given.get("progressbar", True)) and not given.get("quiet", False)
    bars = Console().is_jupyter and find_spec("ipywidgets") is not None
    return asked and not sys.stderr.isatty() and not bars


class ProgressLines:
    """A line on standard error now and then, of an activity ("sampling") and what is counted of it ("draws")."""

    # `before`: what is done before the first of these, said at once; the first one comes soon after another then, and is not.
    def __init__(self, what: str, unit: str, before: str = "") -> None:
        self._what, self._unit, self._before = what, unit, before
        if before:
            tell(before)
        self._start = time.monotonic()
        self._next = _FIRST
        self._first: tuple[float, int] | None = None

    def __call__(self, done: int, total: int, more: str = "") -> None:
        """Say how much is done, and `more` at the end, if it is time for a line."""
        passed = time.monotonic() - self._start
        if self._first is None:
            self._first = passed, done  # what came before, such as compiling, says nothing of the time that is left
            self._next += passed if self._before else 0.0
        if passed < self._next or done >= total:
            return
        begun, already = self._first
        self._next = passed + min(max((passed - begun) / 2, _FIRST), _LONGEST)
        line = f"{self._what}: {done:,} of {total:,} {self._unit} ({done / total:.0%}), {timedelta(seconds=round(passed))} passed"
        if done > already:
            left = (passed - begun) / (done - already) * (total - done)
            line += f", about {timedelta(seconds=round(left))} left"
        tell(line + more)


def diagnostics_lines() -> Callable[[str, int, int], None]:
    """Lines while diagnostics are computed, for `bayesdp.inference.diagnose`."""
    lines: dict[str, ProgressLines] = {}

    def told(name: str, done: int, total: int) -> None:
        if name not in lines:
            lines[name] = ProgressLines(f"diagnostics of {name} (Ctrl-C leaves them out)", "quantities")
        lines[name](done, total)

    return told


SAME_BITS = {"numba__fastmath": False}
"""Flags of PyTensor under which a seed says what the draws are. Fast math has sums in any order, and code that was compiled anew had
another one than the same from a file: of four chains of two processes at a time, the first two had other draws the first time."""


@contextmanager
def dask_executor(client: Any) -> Iterator[tuple[Any, Executor]]:
    """A Dask client, which is made here if `client` is the address of a scheduler, and an executor of its cluster."""
    try:
        import distributed
    except ImportError as error:
        raise ImportError("a Dask cluster needs the package distributed: pip install 'bayesdp[cluster]'") from error
    if not isinstance(client, str) and not hasattr(client, "get_executor"):
        raise TypeError(f"client must be an executor, a Dask client, or the address of a scheduler, got {client!r}")
    with distributed.Client(client) if isinstance(client, str) else nullcontext(client) as used:
        executor = used.get_executor(pure=False, retries=0)
        try:
            yield used, executor
        finally:  # whatever ends this, workers are told to drop what has not begun
            executor.shutdown(wait=False)


class _Context:
    """A multiprocessing context that delegates to another one, but whose processes run `_run`."""

    # PyMC makes its processes and shared arrays through the context that it is given, so nothing of PyMC is changed.

    def __init__(self, inner: Any, ignored: tuple[int, ...]) -> None:
        self._inner, self._ignored = inner, ignored
        self.processes: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def Process(self, *, target: Callable[..., None], args: tuple[Any, ...], **more: Any) -> Any:
        process = self._inner.Process(target=_run, args=(self._ignored, target, args), **more)
        self.processes.append(process)
        return process


def _run(ignored: tuple[int, ...], target: Callable[..., None], args: tuple[Any, ...]) -> None:
    """Run the target in the process of a chain: signals are left to the main process, and it ends with that one."""
    leave_signals_to_the_main_process(*ignored)
    end_with_parent()
    with dispensable_caches(), pytensor.config.change_flags(**SAME_BITS):
        target(*args)


@contextmanager
def chain_processes(given: dict[str, Any]) -> Iterator[None]:
    """Have ``pm.sample`` use processes that leave signals to the main process, and end with it or with the context."""
    # PyMC asks its processes to stop, and each does after the draw that it is making. One that makes a long draw would keep the
    # main process from ending, and is killed. `given`: arguments of `pm.sample`; `mp_ctx` is changed in place.
    chosen = given.get("mp_ctx")
    if chosen is None and platform.system() == "Darwin":  # as PyMC chooses
        chosen = "fork" if platform.processor() == "arm" else "forkserver"
    if chosen is None or isinstance(chosen, str):
        chosen = multiprocessing.get_context(chosen)
    if given.get("cores") != 1:
        helpers_outlive_hangup()
    # A scheduler may send SIGTERM to all processes; where the main one takes that as an interrupt, it wants the draws.
    context = given["mp_ctx"] = _Context(chosen, received.handed_over)
    try:
        yield
    finally:
        for process in context.processes:
            if process.is_alive():
                process.kill()
                process.join()


def sampled(
    model: pm.Model, kwargs: Mapping[str, Any], stop: StopOnCtrlC, journal: DrawJournal | None = None
) -> xr.DataTree:
    """Call ``pm.sample`` with these arguments; `stop`, in which this is called, says afterwards whether Ctrl-C ended it early."""
    # `journal`: where draws are written as they come; the sampler must be PyMC's own.
    given = dict(kwargs)
    with warnings.catch_warnings():
        # NUTS overflows on its first trial steps from a distant start, and rejects them.
        warnings.filterwarnings("ignore", "overflow encountered", RuntimeWarning)
        if given.get("quiet"):
            warnings.filterwarnings("ignore", SLOW_RATES, UserWarning)
        if not _has_callback(model, given):
            if lines_wanted(given):
                given["progressbar"] = False  # it would be drawn once, at the end, if at all
            stop.raise_at_once()  # nutpie returns the draws made so far at a KeyboardInterrupt by itself
            with dispensable_progress():
                # Of JAX's samplers the draws are arrays of its own.
                tree: xr.DataTree = pm.sample(**given).map_over_datasets(xr.Dataset.as_numpy)
            stop.no_more_draws()
            return tree
        given["callback"] = _Callback(stop, given, journal)
        if journal is not None:
            hook()
            given["random_seed"] = journal.seed
        if lines_wanted(given):
            given["progressbar"] = False
        try:
            with chain_processes(given), dispensable_progress(), pytensor.config.change_flags(**SAME_BITS):
                if given.get("trace") is None and given.get("var_names") is None:
                    given["trace"] = _SharedFunction(model=model, test_point=start_of(model))
                tree = pm.sample(**given)
        except ValueError:
            # What PyMC says when no chain got past its tuning.
            if stop.pressed or stop.given_up:
                raise KeyboardInterrupt from None
            raise
        if stop.given_up:
            raise KeyboardInterrupt
        stop.no_more_draws()
        return tree


class _SharedFunction(NDArray):
    """PyMC's store of draws; those of all chains have one compiled function, where PyMC compiles one for each."""

    def __copy__(self) -> _SharedFunction:
        types = {"fn": self.fn, "var_shapes": self.var_shapes, "var_dtypes": self.var_dtypes}
        return _SharedFunction(self.name, self.model, self.vars, **types)


class _Callback:
    """Called after each draw: writes the journal, calls the user's callback, shows progress, and stops after Ctrl-C."""

    def __init__(self, stop: StopOnCtrlC, given: Mapping[str, Any], journal: DrawJournal | None) -> None:
        chains, draws, tune = planned(given)
        self._total = chains * (draws + tune)
        self._done = 0
        self._own = given.get("callback")
        self._lines = ProgressLines("sampling", "draws", "compiling the model") if lines_wanted(given) else None
        self._stop = stop
        self.journal = journal

    def __call__(self, trace: Any = None, draw: Any = None) -> None:
        self._done += 1
        if self.journal is not None:
            self.journal.keep(draw)
        if self._own is not None:
            self._own(trace=trace, draw=draw)
        if self._lines is not None:
            self._lines(self._done, self._total)
        if self._done == self._total:
            self._stop.no_more_draws()
        else:
            self._stop(trace, draw)


def _has_callback(model: pm.Model, given: Mapping[str, Any]) -> bool:
    """Whether the sampler calls back after each draw: PyMC's own does; nutpie, which PyMC may choose by itself, does not."""
    chosen = given.get("nuts_sampler")
    if chosen is not None:
        return bool(chosen == "pymc")
    stepped = any(isinstance(rv.owner.op, RowSpaceNoiseRV) for rv in model.free_RVs)  # with a step method of its own
    asked = given.get("callback") is not None or given.get("step") is not None
    return stepped or asked or bool(model.discrete_value_vars) or find_spec("nutpie") is None


def tells_of_draws(model: pm.Model) -> bool:
    """Whether the sampler that a model gets tells of each draw: not nutpie, where it is installed and every variable is continuous."""
    return _has_callback(model, {})

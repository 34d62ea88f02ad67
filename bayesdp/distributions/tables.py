"""PyMC distributions of the laws whose noise is a whole table, made from the laws of `bayesdp.noise`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import MISSING, fields
from inspect import Parameter
from string import ascii_lowercase
from typing import Any, ClassVar

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.dist_math import check_parameters
from pymc.logprob.abstract import _logprob

from bayesdp._wiring import connected
from bayesdp.distributions._tied_tables import as_tied_table
from bayesdp.distributions.densities import check_known, log_density
from bayesdp.distributions.parameters import PROPS, PythonRV, applied, checked_location, is_discrete, scale
from bayesdp.distributions.registry import blank, kind_of, made, makes, rv_of
from bayesdp.invariants import Invariants
from bayesdp.noise.base import Floats, Ints
from bayesdp.noise.tables import TableLaw


def signature_of(invariants: Invariants, *inputs: str) -> str:
    """The signature of random tables around a location: all dimensions of the table are core dimensions."""
    core = f"({','.join(ascii_lowercase[: len(invariants.frame.shape)])})"
    return f"{','.join([core, *inputs])}->{core}"


class TableNoiseRV(PythonRV):
    """A noisy table around a location, with one scale; it holds the invariants that are kept, and the law at scale 1."""

    __props__ = (*PROPS, "invariants", "unit")
    invariants: Invariants
    unit: TableLaw
    law_type: ClassVar[type[TableLaw]]
    moved_only_by: ClassVar[str | None] = None

    def __init__(self, invariants: Invariants, unit: TableLaw, **props: Any) -> None:
        props.setdefault("signature", signature_of(invariants, "()"))
        super().__init__(invariants=invariants, unit=unit, **props)

    def rng_fn(self, rng: np.random.Generator, mu: Any, scale: Any, size: Sequence[int] | None = None) -> Floats | Ints:
        """Draw one table for each location and scale of the batch."""
        mu, scale = np.asarray(mu), np.asarray(scale, dtype=np.float64)
        table = self.invariants.frame.shape
        lead = mu.shape[: mu.ndim - len(table)]
        batch = np.broadcast_shapes(lead, scale.shape) if size is None else tuple(size)
        locations = np.broadcast_to(mu, (*batch, *table)).reshape(-1, *table)
        scales = np.broadcast_to(scale, batch).reshape(-1)
        if np.all(locations == locations[:1]) and np.all(scales == scales[:1]) and len(scales):
            # The usual case, one law for the whole batch: a sampler is set up once.
            law = self.unit.at(float(scales[0]))
            draws = law.draw(rng, table, len(scales), self.invariants, locations[0])
            return np.reshape(draws, (*batch, *table))
        out: Any = np.empty((len(scales), *table), dtype=self.dtype)
        for i, (location, value) in enumerate(zip(locations, scales, strict=True)):
            out[i] = self.unit.at(float(value)).draw(rng, table, None, self.invariants, location)
        return np.reshape(out, (*batch, *table))


@_logprob.register(TableNoiseRV)
def _logp(op: TableNoiseRV, values: Any, rng: Any, size: Any, mu: Any, scale: Any, **_: Any) -> Any:
    # A free variable on a lattice must be left to its own step method.
    value = as_tied_table(values[0]) if op.unit.support == "lattice" else values[0]
    density = log_density(op.unit, value - mu, scale, op.invariants)
    return check_parameters(density, scale > 0, msg=f"{op.unit.scale_name} > 0")


def nearest_table(rv: Any, mu: Any) -> Any:
    """Give mu in every place of the batch; where the law is one of integers, rounded."""
    centre = pt.round(mu) if is_discrete(rv) and not is_discrete(mu) else mu
    return pt.zeros_like(rv) + centre


def table_distribution(
    law_type: type[TableLaw], doc: str | None = None, *, name: str | None = None, example: str | None = None
) -> Any:
    """Make the PyMC distribution of a law whose noise is a table, and register it.

    It takes `mu`, the scale of the law by its name, ``invariants``, and the other parameters of the law as keywords. Assign it
    to its name in a module: there `pickle` looks for it.

    Parameters
    ----------
    law_type : type
        Its log-density is finite off the lattice or subspace too: in a model, membership is decided by the exact part of a
        release alone.
    doc : str, optional
        The docstring, of which the law completes what is left out (`distribution_doc`).
    name : str, optional
        Name of the distribution; that of the law by default.
    example : str, optional
        The scale and other parameters in an example for the docstring: a 4 x 4 table with both margins as invariants.

    Returns
    -------
    type
        A subclass of `pymc.Discrete` or `pymc.Continuous`.
    """
    # As `collections.namedtuple` does: `pickle` looks for the classes where this is called.
    place = {"__module__": sys._getframe(1).f_globals["__name__"], "__doc__": doc}
    base = kind_of(law_type)
    return _table(law_type, type(base)(name or law_type.__name__, (base,), place), example)


@makes(TableLaw)
def of_tables(law: Any, example: str | None = None, notes: str = "") -> Any:
    """The distribution of a law of whole tables."""
    return _table(law, blank(law, kind_of(law), notes), example)


def _table(law: Any, own: Any, example: str | None) -> Any:
    on_lattice, rest = law.support == "lattice", {item.name: item for item in fields(law)}
    first = rest.pop(law.scale_name, None)
    # What is None unless it is given is left to the law, and the coordinates to the invariants.
    keywords = {name: Parameter.empty if item.default is MISSING else item.default for name, item in rest.items()}
    keywords |= {"coordinates": None} if "coordinates" in keywords else {}
    parameters = {law.scale_name: Parameter.empty if first else 1.0, **keywords, "invariants": Parameter.empty}
    body: dict[str, Any] = {}
    if on_lattice:  # by the form that the law has in the kernel: without one a free variable cannot be sampled
        body["moved_only_by"] = "" if law.kernel_form is None else "LatticeNoiseGibbs"
    rv_type = rv_of(law, own, TableNoiseRV, **body)

    def variables(mu: Any, invariants: Invariants, **stated: Any) -> tuple[list[Any], dict[str, Any]]:
        value = scale(stated.pop(law.scale_name), law.scale_name)
        centre = checked_location(mu, invariants)
        left = [name for name, given in stated.items() if given is None and keywords[name] is None]
        unit = law.unit(invariants, **{name: given for name, given in stated.items() if name not in left})
        if on_lattice:
            # PyMC would give integer noise to its own Metropolis step, which leaves the lattice.
            connected("register step methods")()
        check_known(unit, value, invariants)
        return [centre, value], {"invariants": invariants, "unit": unit}

    def rv_op(cls: Any, mu: Any, value: Any, *, unit: TableLaw, size: Any = None, rng: Any = None, **props: Any) -> Any:
        """Apply the random variable of this law and these invariants."""
        return applied(rv_type(unit=unit, **props), mu, value, size=size, rng=rng)

    def support_point(rv: Any, size: Any, mu: Any, value: Any) -> Any:
        """Give mu itself."""
        return nearest_table(rv, mu)

    own_op = classmethod(rv_op)  # type: ignore[arg-type]  # the name of its class is not known here
    verbs = {"rv_type": rv_type, "rv_op": own_op, "support_point": support_point}
    return made(
        law, own, parameters, variables, verbs, keywords=[*keywords, "invariants"], **_documented(law, first, example)
    )


_TWO_WAY = """>>> import numpy as np
>>> import pymc as pm
>>> import bayesdp as bdp
>>> table = bdp.datasets.delinquent_children()
>>> margins = bdp.Invariants(bdp.Margins(table, ["county"], ["education"]))
>>> with pm.Model():
...     counts = pm.Poisson("counts", 10.0, shape=(4, 4))
...     noisy = NAME("noisy", counts, PARAMETERS, invariants=margins, observed=table.values)"""


_OFF = """The density is that of the noise z, the table minus mu. It is finite for tables that break the invariants too (their
projection counts): in a model, membership is decided by the exact part of a release alone."""

_LATENT = """A free variable (noise around a known table, such as zeros) never leaves the lattice: `bayesdp.steps.LatticeNoiseGibbs`
samples it, and is assigned by itself."""

_UNKNOWN_SUM = """NotImplementedError
    If the scale is not a constant and the sum over the lattice is not computed for these invariants. Where it is, it is for every
    positive scale, with its gradient; for a constant scale, an unknown sum is left out."""

_UNKNOWN_DENSITY = """TypeError, ValueError
    If mu or a parameter does not fit the invariants, such as coordinates of another rule.
NotImplementedError
    If the log-density is not known for these invariants, or needs a dense matrix (dimensions times cells) beyond four million."""


def _documented(law: type[TableLaw], first: Any, example: str | None) -> dict[str, Any]:
    """Entries and sections of the docstring that all these distributions have; `example`: whole, or the scale and parameters."""
    lattice, kind = law.support == "lattice", " of int" if law.integer else ""
    given = {"mu": f"mu : tensor_like{kind}, shape ``(..., *table)``\n    The table that the noise was added to."}
    if first is None:
        given[law.scale_name] = (
            f"{law.scale_name} : tensor_like of float, default 1, shape (...)\n    Multiplies the noise."
        )
    if example is not None and ">>>" not in example:
        example = _TWO_WAY.replace("PARAMETERS", example)
    return {
        "given": given,
        "example": example or "",
        "scale_shape": ", shape (...)",
        "notes": f"{_OFF}\n\n{_LATENT}" if lattice and law.kernel_form is not None else _OFF,
        "raises": _UNKNOWN_SUM if lattice else _UNKNOWN_DENSITY,
    }

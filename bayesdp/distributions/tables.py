"""PyMC distributions of the laws whose noise is a whole table, made from the laws of `bayesdp.noise`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import MISSING, fields
from inspect import Parameter, Signature
from string import ascii_lowercase
from typing import Any, ClassVar

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.dist_math import check_parameters
from pymc.logprob.abstract import _logprob
from pytensor.link.numba.dispatch.random import numba_core_rv_funcify
from pytensor.tensor.random.op import RandomVariable

from bayesdp._wiring import connected
from bayesdp.distributions._python_draws import applied, drawn_in_python
from bayesdp.distributions._tied_tables import as_tied_table
from bayesdp.distributions.parameters import checked_location, is_discrete, scale
from bayesdp.distributions.registry import distribution_doc, register_distribution
from bayesdp.distributions.table_densities import check_known, log_density
from bayesdp.invariants import Invariants
from bayesdp.noise.base import Floats, Ints
from bayesdp.noise.tables import TableLaw


class TableNoiseRV(RandomVariable):
    """A noisy table around a location, with one scale; all dimensions of the table are core dimensions.

    Parameters
    ----------
    invariants : Invariants
        What the noise does not change. It is among ``__props__``, as is everything else that an Op depends
        on: PyTensor merges and caches Ops that agree in their props.
    unit : TableLaw
        The law, at scale 1.
    """

    __props__: tuple[str, ...] = (*RandomVariable.__props__, "invariants", "unit")  # type: ignore[assignment]
    law_type: ClassVar[type[TableLaw]]
    moved_only_by: ClassVar[str | None] = None

    def __init__(self, invariants: Invariants, unit: TableLaw, **props: Any) -> None:
        self.invariants = invariants
        self.unit = unit
        core = ",".join(ascii_lowercase[: len(invariants.frame.shape)])
        props.setdefault("signature", f"({core}),()->({core})")
        super().__init__(**props)

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


@numba_core_rv_funcify.register(TableNoiseRV)
def _core(op: TableNoiseRV, node: Any) -> tuple[Any, None]:
    return drawn_in_python(op, len(op.invariants.frame.shape))


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
    own_name, given = name or law_type.__name__, _signature(law_type)
    kind: Any = pm.Discrete if law_type.integer else pm.Continuous
    on_lattice = law_type.support == "lattice"
    # As `collections.namedtuple` does: `pickle` looks for the classes where this is called.
    module = sys._getframe(1).f_globals["__name__"]

    class RV(TableNoiseRV):
        __module__ = module
        __qualname__ = f"{own_name}.rv_type"
        __doc__ = f"Random variable of `{own_name}`."
        name = law_type.name.replace("-", "_")
        dtype = "int64" if law_type.integer else "float64"
        _print_name = (own_name, rf"\operatorname{{{own_name}}}")

    RV.__name__ = f"{own_name}RV"
    RV.law_type = law_type
    if on_lattice:  # by the form that the law has in the kernel: without one a free variable cannot be sampled
        RV.moved_only_by = "" if law_type.kernel_form is None else "LatticeNoiseGibbs"

    class Made(kind):
        __module__ = module
        __qualname__ = own_name
        __doc__ = _documented(law_type, doc, own_name, [*given.parameters][1:-1], example)
        rv_type = RV

        @classmethod
        def rv_op(cls, mu: Any, value: Any, *, unit: TableLaw, size: Any = None, rng: Any = None, **props: Any) -> Any:
            """Apply the random variable of this law and these invariants."""
            return applied(RV(unit=unit, **props), mu, value, size=size, rng=rng)

        @classmethod
        def dist(cls, *args: Any, **kwargs: Any) -> Any:
            """Make an unregistered variable; see the class for the parameters."""
            parameters = given.bind(cls, *args, **kwargs).arguments
            more, invariants = parameters.pop("kwargs", {}), parameters.pop("invariants")
            del parameters["cls"]
            location = checked_location(parameters.pop("mu"), invariants)
            value = scale(parameters.pop(law_type.scale_name, 1.0), law_type.scale_name)
            unit = law_type.unit(invariants, **parameters)
            if on_lattice:
                # PyMC would give integer noise to its own Metropolis step, which leaves the lattice.
                connected("register step methods")()
            check_known(unit, value, invariants)
            return super().dist([location, value], invariants=invariants, unit=unit, **more)

        def support_point(rv: Any, size: Any, mu: Any, value: Any) -> Any:  # PyMC passes the variable
            """Give mu itself."""
            return nearest_table(rv, mu)

    Made.__name__ = own_name
    vars(Made)["dist"].__func__.__signature__ = given  # what `help` shows
    register_distribution(law_type, Made)
    return Made


_TWO_WAY = """>>> import pymc as pm
>>> import bayesdp as bdp
>>> table = bdp.datasets.delinquent_children()
>>> margins = bdp.Invariants(bdp.Margins(table, ["county"], ["education"]))
>>> with pm.Model():
...     counts = pm.Poisson("counts", 10.0, shape=(4, 4))
...     noisy = NAME("noisy", counts, PARAMETERS, invariants=margins, observed=table.values)"""


def _documented(law: type[TableLaw], doc: str | None, name: str, parameters: list[str], example: str | None) -> str:
    kind = " of int" if law.integer else ""
    mu = f"mu : tensor_like{kind}, shape ``(..., *table)``\n    The table that the noise was added to."
    shown = "" if example is None else _TWO_WAY.replace("NAME", name).replace("PARAMETERS", example)
    return distribution_doc(law, doc, name, parameters, given={"mu": mu}, example=shown, scale_shape=", shape (...)")


def _signature(law_type: type[TableLaw]) -> Signature:
    """What `dist` takes; parameters that are not given are left to the law and the invariants."""
    own = {item.name: Parameter.empty if item.default is MISSING else None for item in fields(law_type)}  # type: ignore[arg-type]
    first = own.pop(law_type.scale_name, 1.0)
    return Signature(
        [
            Parameter("cls", Parameter.POSITIONAL_OR_KEYWORD),
            Parameter("mu", Parameter.POSITIONAL_OR_KEYWORD),
            Parameter(law_type.scale_name, Parameter.POSITIONAL_OR_KEYWORD, default=first),
            *(Parameter(name, Parameter.KEYWORD_ONLY, default=default) for name, default in own.items()),
            Parameter("invariants", Parameter.KEYWORD_ONLY),
            Parameter("kwargs", Parameter.VAR_KEYWORD),
        ]
    )

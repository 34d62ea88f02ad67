"""What a run depends on, in plain data: runs with equal fingerprints draw the same. Every journal notes it, and goes on with no other.

What is short is noted as it is, so that a refusal can show it; of everything else its content is hashed, to the last bit.
"""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cached_property
from importlib.metadata import version
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
import pymc as pm
import scipy.sparse as sp
from pymc.sampling.parallel import _cpu_count  # what ``pm.sample`` counts cores with
from pymc.step_methods.compound import BlockedStep, CompoundStep
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors

import bayesdp
from bayesdp.distributions.tables import RowSpaceNoiseRV
from bayesdp.inference.observed import observed_by
from bayesdp.queries import Query
from bayesdp.release import Release
from bayesdp.steps.base import start_of

_DRAWS = _TUNE = 1000
_CORES = 4


def planned(given: Mapping[str, Any]) -> tuple[int, int, int]:
    """Chains, draws of each, and draws before them, that ``pm.sample`` makes of its arguments, with PyMC's defaults."""
    cores, chains, tune = given.get("cores"), given.get("chains"), given.get("tune")
    if chains is None:
        chains = max(2, min(_CORES, _cpu_count()) if cores is None else cores)
    return int(chains), int(given.get("draws", _DRAWS)), _TUNE if tune is None else int(tune)


FORM = 3
"""What journals note of a run, and what they keep of it; a run that was begun in another form does not go on."""

_PACKAGES = ("pymc", "pytensor", "numpy", "numba")
_OF_THE_RUN = {"chains", "draws", "tune", "random_seed", "model"}
_WITHOUT_EFFECT = {"callback", "progressbar", "progressbar_theme", "quiet", "cores", "blas_cores", "mp_ctx",
                   "compute_convergence_checks", "nuts_sampler"}  # fmt: skip
"""Arguments of ``pm.sample`` that do not change a draw, and the sampler, which is always PyMC's."""
_WORDS = 80


def fingerprint(**parts: Any) -> dict[str, Any]:
    """Plain data that must be the same for a run to go on."""
    # `**parts`: all that the run depends on, by the names that a refusal uses.
    versions = {"bayesdp": bayesdp.__version__, **{name: version(name) for name in _PACKAGES}}
    return {"form": FORM, "versions": versions, **{name: _told(part) for name, part in parts.items()}}


def described_model(model: pm.Model) -> dict[str, Any]:
    """What a model is, for `fingerprint`: its releases, its text, and its numbers."""
    return {
        "release": [[name, release] for name, release, _ in observed_by(model)],
        "model": model.str_repr(),
        "numbers in the model": _numbers(model),
        "variables": [[name, value.dtype.str, list(value.shape)] for name, value in start_of(model).items()],
    }


def described_run(model: pm.Model, plan: tuple[int, int, int], given: Mapping[str, Any]) -> dict[str, Any]:
    """The fingerprint of ``pm.sample`` with these arguments, but for the number of draws, of which there may be more then."""
    chains, _, tune = plan
    options = {
        name: option
        for name, option in sorted(given.items())
        if name not in _OF_THE_RUN | _WITHOUT_EFFECT and option is not None
    }
    numbers = {"chains": chains, "tune": tune, "seed": given.get("random_seed")}
    return fingerprint(**numbers, **described_model(model), options=options)


def _told(thing: Any) -> Any:
    """Short things as plain data; others in some words, with a digest of their content."""
    if isinstance(thing, np.generic):
        thing = thing.item()
    if isinstance(thing, float) and not math.isfinite(thing):
        return repr(thing)
    if thing is None or isinstance(thing, bool | int | float | str):
        return thing
    if isinstance(thing, Mapping):
        return {str(key): _told(part) for key, part in thing.items()}
    if isinstance(thing, list | tuple):
        return [_told(part) for part in thing]
    words = getattr(thing, "formula", getattr(thing, "__qualname__", type(thing).__qualname__))
    words = repr(thing) if isinstance(thing, Release | Query) else str(words)
    return f"{words if len(words) <= _WORDS else words[:_WORDS] + '...'} [{digest(thing)}]"


def digest(*things: Any) -> str:
    """The first 16 hexadecimal digits of the SHA-256 hash of the content of some things."""
    found = hashlib.sha256()
    for thing in things:
        _feed(found, thing, ())
    return found.hexdigest()[:16]


def _feed(found: Any, thing: Any, above: tuple[int, ...]) -> None:
    """Hash a thing part by part; what holds itself is not followed twice."""
    if isinstance(thing, np.generic):
        thing = thing.item()
    kind = "Query" if isinstance(thing, Query) else type(thing).__qualname__
    if thing is None or isinstance(thing, bool | int | float | complex | str | bytes):
        found.update(f"{kind} {thing!r};".encode(errors="surrogatepass"))
    elif isinstance(thing, np.ndarray) and thing.dtype.kind != "O":
        found.update(f"{thing.dtype.str} {thing.shape}:".encode() + thing.tobytes())
    else:
        found.update(f"{kind}(".encode())
        for part in () if id(thing) in above else _parts(thing):
            _feed(found, part, (*above, id(thing)))
        found.update(b")")


def _parts(thing: Any) -> Iterator[Any]:
    """What makes a thing what it is."""
    if isinstance(thing, np.ndarray | Sequence):
        yield from thing.tolist() if isinstance(thing, np.ndarray) else thing
    elif isinstance(thing, Mapping):
        yield from thing.items()
    elif isinstance(thing, set | frozenset):
        yield from sorted(map(digest, thing))
    elif sp.issparse(thing):
        own = sp.csr_array(thing, copy=True)
        own.sum_duplicates()
        yield from (own.shape, own.indptr.astype(np.int64), own.indices.astype(np.int64), own.data)
    elif isinstance(thing, Release):
        dataset = thing.to_dataset()
        yield from sorted((name, own) for name, own in dataset.attrs.items() if name != "writer")
        for name, variable in sorted(dataset.variables.items(), key=lambda pair: str(pair[0])):
            yield from (name, variable.dims, variable.values)
    elif isinstance(thing, BlockedStep | CompoundStep):
        # Their settings; the rest is compiled, or belongs to the model.
        yield list(map(str, getattr(thing, "vars", ())))
        yield from sorted((name, own) for name, own in vars(thing).items() if isinstance(own, bool | int | float | str))
        yield getattr(thing, "methods", None)
    elif isinstance(thing, CodeType):
        yield from (thing.co_code, thing.co_consts, thing.co_names, thing.co_varnames, thing.co_freevars)
    elif isinstance(thing, FunctionType | type):
        yield from (thing.__module__, thing.__qualname__)
        yield from () if _installed(thing.__module__) else _written(thing)
    elif is_dataclass(thing):
        yield from (
            Query if isinstance(thing, Query) else type(thing),
            [getattr(thing, field.name) for field in fields(thing)],
        )
    else:
        yield from _reduced(thing)


def _installed(module: str) -> bool:
    """Whether a module is one of a package that has a version, rather than a user's own."""
    root = module.partition(".")[0]
    file = getattr(sys.modules.get(root), "__file__", None) or ""
    return root == "bayesdp" or root in sys.stdlib_module_names or "-packages" in file


def _written(thing: Any) -> Iterator[Any]:
    """What a user wrote: the methods of a class; of a function its code, and the values that it refers to."""
    if isinstance(thing, type):
        yield from (own for _, own in sorted(vars(thing).items()) if isinstance(own, FunctionType))
        return
    yield from (thing.__code__, thing.__defaults__, thing.__kwdefaults__)
    yield from (cell.cell_contents for cell in thing.__closure__ or ())
    codes = [thing.__code__]
    for code in codes:
        codes += [own for own in code.co_consts if isinstance(own, CodeType)]
        found = (thing.__globals__.get(name) for name in code.co_names)
        yield from (own.__name__ if isinstance(own, ModuleType) else own for own in found)


def _reduced(thing: Any) -> Iterator[Any]:
    """What pickle would write of an object, without what it has only worked out."""
    try:
        own = thing.__reduce_ex__(4)
    except (TypeError, AttributeError, ValueError):  # nothing that could be kept, or known by its type
        return
    made, arguments, state, *items = ((own,) if isinstance(own, str) else own) + (None,) * 4
    if isinstance(state, dict):
        worked_out = {name for name in state if isinstance(getattr(type(thing), name, None), cached_property)}
        state = {name: state[name] for name in sorted(state, key=str) if name not in worked_out}
    yield from (made, arguments, state, *(list(each) for each in items if each is not None))


def _numbers(model: pm.Model) -> str:
    """A digest of all constants and data of a model, but for constants that `bdp.observe` computes."""
    # An orthonormal basis need not come out with the same last digits, signs or order twice; what it is computed from, the release,
    # is compared as it is.
    ours = {name.removesuffix("_published") for _, _, published in observed_by(model) for name in published}
    variables = [*model.basic_RVs, *model.potentials, *model.deterministics]
    computed = [
        own for own in variables if own.name in ours or isinstance(getattr(own.owner, "op", None), RowSpaceNoiseRV)
    ]
    given = [own for own in variables if own not in computed]
    data = [*(model.rvs_to_values[rv] for rv in model.observed_RVs), *model.data_vars]
    return digest([_number(each) for each in [*ancestors(given, computed), *data]])


def _number(variable: Any) -> Any:
    """The value of a constant or of data; None for other variables, and for generators."""
    if not isinstance(variable, Constant | SharedVariable):
        return None
    value = variable.get_value(borrow=True) if isinstance(variable, SharedVariable) else variable.data
    return value if isinstance(value, np.ndarray | np.generic | int | float) or sp.issparse(value) else None

"""What a run is, in plain data: two runs with the same description draw from one posterior with one sampler."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pymc as pm
import scipy.sparse as sp
from pymc.util import get_random_generator, get_state_from_generator
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors

import bayesdp
from bayesdp.inference.registry import releases_of
from bayesdp.release import Release

__all__ = ["described_run", "difference", "digest"]

_OF_THE_RUN = {"chains", "draws", "tune", "random_seed", "model"}
_WITHOUT_EFFECT = {"callback", "progressbar", "progressbar_theme", "quiet", "cores", "blas_cores", "mp_ctx",
                   "compute_convergence_checks", "nuts_sampler"}  # fmt: skip
"""Arguments of ``pm.sample`` that do not change a draw, and the sampler, which is always PyMC's."""
_SHOWN = 120


def digest(content: bytes) -> str:
    """A short name of some content."""
    return hashlib.sha256(content).hexdigest()[:16]


def described_run(model: pm.Model, plan: tuple[int, int, int], given: Mapping[str, Any]) -> dict[str, Any]:
    """Plain data that must be the same for a run to go on.

    Parameters
    ----------
    model : pymc.Model
    plan : chains, draws of each, draws before them
    given : mapping
        Arguments of ``pm.sample``.
    """
    chains, draws, tune = plan
    return {
        "bayesdp": bayesdp.__version__,
        "PyMC": pm.__version__,
        "NumPy": np.__version__,
        "chains": chains,
        "draws": draws,
        "tune": tune,
        "seed": _seed(given.get("random_seed")),
        "release": [[name, _release_digest(release)] for name, release in releases_of(model)],
        "model": model.str_repr(),
        "numbers in the model": _numbers(model),
        "variables": [[name, own.dtype.str, list(own.shape)] for name, own in model.initial_point().items()],
        "options": {
            name: _plainly(own)
            for name, own in sorted(given.items())
            if name not in _OF_THE_RUN | _WITHOUT_EFFECT and own is not None
        },
    }


def difference(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> str:
    """The first thing in which two runs differ, in words; empty if they do not."""
    for key in dict.fromkeys([*ours, *theirs]):
        one, other = theirs.get(key), ours.get(key)
        if one != other:
            return f"its {key} is {_short(one, other)}, here it is {_short(other, one)}"
    return ""


def _short(own: Any, other: Any) -> str:
    """A value in a line; of a text of several lines, the first line that the other one does not have."""
    if own is None:
        return "not stated"
    if isinstance(own, str) and isinstance(other, str):
        lines = [line.strip() for line in own.splitlines() if line not in other.splitlines()]
        own = lines[0] if lines else own
    text = own if isinstance(own, str) else json.dumps(own, ensure_ascii=True)
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...") if isinstance(own, str) else text[:_SHOWN]


def _seed(seed: Any) -> Any:
    """A seed in plain data; for a generator, its state."""
    if seed is None or isinstance(seed, int | str):
        return seed
    if isinstance(seed, np.random.Generator | np.random.BitGenerator):
        return digest(repr(get_state_from_generator(get_random_generator(seed))).encode())
    return [int(own) for own in np.asarray(seed).reshape(-1)]


def _release_digest(release: Release) -> str:
    dataset = release.to_dataset()
    state = hashlib.sha256(json.dumps(dataset.attrs, default=str, sort_keys=True).encode())
    for name, own in sorted(dataset.variables.items(), key=lambda pair: str(pair[0])):
        state.update(repr((name, own.dims, own.dtype.str, sorted(own.attrs.items()))).encode())
        values = own.values
        state.update(repr(values.tolist()).encode() if values.dtype.kind not in "biuf" else values.tobytes())
    return state.hexdigest()[:16]


def _numbers(model: pm.Model) -> str:
    """Constants of a model to six digits, as a basis that is computed need not be the same to the last one, and its data.

    Of the constants, signs and order are left to the model's text: a basis may come out with another sign, and a set in another order.
    """
    variables = [*model.basic_RVs, *model.potentials, *model.deterministics]
    own = {*variables, *model.rvs_to_values.values()}
    seen = sorted(_sketch(each) for each in {*ancestors(list(own))} if isinstance(each, Constant | SharedVariable))
    # What was observed was not computed: it is compared to the last bit.
    observed = [model.rvs_to_values[rv] for rv in model.observed_RVs]
    data = [_exactly(each) for each in [*observed, *model.data_vars]]
    return digest("\n".join([*seen, *data]).encode())


def _exactly(variable: Any) -> str:
    if not isinstance(variable, Constant | SharedVariable):
        return ""
    value = variable.get_value(borrow=True) if isinstance(variable, SharedVariable) else variable.data
    return digest(np.asarray(value).tobytes()) if isinstance(value, np.ndarray | np.generic) else ""


def _sketch(variable: Any) -> str:
    value = variable.get_value(borrow=True) if isinstance(variable, SharedVariable) else variable.data
    if sp.issparse(value):
        return f"sparse {value.shape} {_size(np.asarray(value.data))}"
    if isinstance(value, np.ndarray | np.generic | int | float):
        return f"array {np.shape(value)} {_size(np.asarray(value))}"
    return ""  # generators, slices, None


def _size(values: npt.NDArray[Any]) -> str:
    if values.dtype.kind not in "biuf":
        return values.dtype.str
    finite = np.abs(np.nan_to_num(values.astype(np.float64).reshape(-1), posinf=1e300, neginf=-1e299))
    total = float(np.dot(finite / max(float(finite.max(initial=0.0)), 1e-300), 1.0 + np.arange(len(finite)) / 3))
    return f"{total:.6g} {float(finite.max(initial=0.0)):.6g} {bool(np.any(values < 0)) if len(finite) == 1 else ''}"


def _plainly(value: Any) -> Any:
    """An option in plain data: numbers as they are, arrays by a digest, other things by their kind."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plainly(own) for key, own in value.items()}
    if isinstance(value, list | tuple):
        return [_plainly(own) for own in value]
    if isinstance(value, np.ndarray | np.generic):
        own = np.asarray(value)
        return digest(own.dtype.str.encode() + repr(own.shape).encode() + own.tobytes())
    names = sorted(str(own.name) for own in getattr(value, "vars", []))
    return " ".join([type(value).__name__, *names])

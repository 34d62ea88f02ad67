"""A description of a run in plain data: runs with equal descriptions draw from the same posterior with the same sampler."""

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
    """The first 16 hexadecimal digits of the SHA-256 hash of some content."""
    return hashlib.sha256(content).hexdigest()[:16]


def described_run(model: pm.Model, plan: tuple[int, int, int], given: Mapping[str, Any]) -> dict[str, Any]:
    """Plain data that must be the same for a run to go on.

    Parameters
    ----------
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
        "variables": [[name, value.dtype.str, list(value.shape)] for name, value in model.initial_point().items()],
        "options": {
            name: _plainly(option)
            for name, option in sorted(given.items())
            if name not in _OF_THE_RUN | _WITHOUT_EFFECT and option is not None
        },
    }


def difference(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> str:
    """The first thing in which two runs differ, in words; empty if they do not."""
    for key in dict.fromkeys([*ours, *theirs]):
        one, other = theirs.get(key), ours.get(key)
        if one != other:
            return f"its {key} is {_short(one, other)}, here it is {_short(other, one)}"
    return ""


def _short(value: Any, other: Any) -> str:
    """A value in one line; of a text of several lines, the first line that the other text does not have."""
    if value is None:
        return "not stated"
    if not isinstance(value, str):
        return json.dumps(value, ensure_ascii=True)[:_SHOWN]
    if isinstance(other, str):
        value = next((line.strip() for line in value.splitlines() if line not in other.splitlines()), value)
    return repr(value if len(value) <= _SHOWN else f"{value[:_SHOWN]}...")


def _seed(seed: Any) -> Any:
    """A seed in plain data; for a generator, its state."""
    if seed is None or isinstance(seed, int | str):
        return seed
    if isinstance(seed, np.random.Generator | np.random.BitGenerator):
        return digest(repr(get_state_from_generator(get_random_generator(seed))).encode())
    return [int(number) for number in np.asarray(seed).reshape(-1)]


def _release_digest(release: Release) -> str:
    """A digest of everything that a file of the release would hold."""
    dataset = release.to_dataset()
    state = hashlib.sha256(json.dumps(dataset.attrs, default=str, sort_keys=True).encode())
    for name, variable in sorted(dataset.variables.items(), key=lambda pair: str(pair[0])):
        state.update(repr((name, variable.dims, variable.dtype.str, sorted(variable.attrs.items()))).encode())
        values = variable.values
        state.update(repr(values.tolist()).encode() if values.dtype.kind not in "biuf" else values.tobytes())
    return state.hexdigest()[:16]


def _numbers(model: pm.Model) -> str:
    """A digest of the constants of a model to six digits, and of its data to the last bit.

    Constants may have been computed: an orthonormal basis need not come out with the same last digits, signs or order twice.
    So only sizes are compared, and in sorted order; signs and order show in the text of the model.
    """
    variables = [*model.basic_RVs, *model.potentials, *model.deterministics]
    ends = [*variables, *model.rvs_to_values.values()]
    seen = sorted(_sketch(each) for each in {*ancestors(ends)} if isinstance(each, Constant | SharedVariable))
    # What was observed was not computed: it is compared to the last bit.
    observed = [model.rvs_to_values[rv] for rv in model.observed_RVs]
    data = [_exactly(each) for each in [*observed, *model.data_vars]]
    return digest("\n".join([*seen, *data]).encode())


def _exactly(variable: Any) -> str:
    """A digest of all bits of a constant or of data; empty for other variables."""
    if not isinstance(variable, Constant | SharedVariable):
        return ""
    value = variable.get_value(borrow=True) if isinstance(variable, SharedVariable) else variable.data
    return digest(np.asarray(value).tobytes()) if isinstance(value, np.ndarray | np.generic) else ""


def _sketch(variable: Any) -> str:
    """Shape and rounded size of a constant; empty for generators, slices and None."""
    value = variable.get_value(borrow=True) if isinstance(variable, SharedVariable) else variable.data
    if sp.issparse(value):
        return f"sparse {value.shape} {_size(np.asarray(value.data))}"
    if isinstance(value, np.ndarray | np.generic | int | float):
        return f"array {np.shape(value)} {_size(np.asarray(value))}"
    return ""


def _size(values: npt.NDArray[Any]) -> str:
    """A weighted sum of absolute values and their maximum, to six digits, with the sign of a single number."""
    if values.dtype.kind not in "biuf":
        return values.dtype.str
    finite = np.abs(np.nan_to_num(values.astype(np.float64).reshape(-1), posinf=1e300, neginf=-1e299))
    total = float(np.dot(finite / max(float(finite.max(initial=0.0)), 1e-300), 1.0 + np.arange(len(finite)) / 3))
    return f"{total:.6g} {float(finite.max(initial=0.0)):.6g} {bool(np.any(values < 0)) if len(finite) == 1 else ''}"


def _plainly(value: Any) -> Any:
    """An option in plain data: numbers as they are, arrays by a digest, other objects by type and variables."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plainly(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plainly(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        return digest(array.dtype.str.encode() + repr(array.shape).encode() + array.tobytes())
    names = sorted(str(variable.name) for variable in getattr(value, "vars", []))
    return " ".join([type(value).__name__, *names])

"""What a run depends on: the same content has the same fingerprint in every process, and any other content another one."""

import functools
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import pytest
import scipy.sparse as sp
import xarray as xr

import bayesdp as bdp
from bayesdp.hierarchies.priors import FixedNegativeBinomial, VaryingShares
from bayesdp.inference.runs.fingerprint import described_run, digest, fingerprint
from bayesdp.storage.journal import difference

FRAME = bdp.Frame.of({"county": ["Alpha", "Beta"], "education": ["Low", "High"]})


def linear(entry=1, name="q", frame=FRAME):
    return bdp.LinearQuery(frame, [[1, 1, 1, entry]], [name])


def release(value=3, sigma=2.0, exact=9, name="noisy"):
    noisy = bdp.Measured(bdp.Identity(FRAME), [[value, 8], [5, 0]], bdp.noise.DiscreteGaussian(sigma), name=name)
    return bdp.Release.from_published(FRAME, [noisy], [bdp.Exact(linear(2), [exact])])


def times(by):
    return lambda x: FACTOR * by * x


def again(x):
    return times(2.0)(x)


FACTOR = 3.0


@dataclass
class Own:
    numbers: Any

    def what(self):
        return "own"


class Loose:
    def __init__(self, numbers):
        self.numbers = numbers
        self.me = self

    @functools.cached_property
    def total(self):
        return float(np.sum(self.numbers))


A = np.array([1.0, 2.0, 3.0])
B = np.nextafter(A, 9.0)
DIFFERENT: dict[str, list[Any]] = {
    "numbers": [1, 2, 1.0, 1.0000000000000002, True, None, "1", b"1", -0.0, 0.0, float("nan"), [1], [[1]], {"1": 1}, {1}],
    "arrays": [A, B, A[:2], A[None], A.astype(np.float32), A[::-1], np.array([1, 2, 3]), np.array(["1.0", "2.0", "3.0"])],
    "objects in arrays": [np.array(["a", 1], dtype=object), np.array(["a", 2], dtype=object)],
    "sparse": [sp.csr_array(np.diag(A)), sp.csr_array(np.diag(B)), sp.csr_array(np.diag(A)[:2])],
    "labelled": [xr.DataArray(own, dims="x", coords={"x": list(labels)}) for own, labels in ((A, "abc"), (B, "abc"), (A, "abd"))],
    "queries": [linear(), linear(7), linear(1, "p"), bdp.Totals(FRAME), bdp.Identity(FRAME), bdp.Margins(FRAME, "county"),
                linear(frame=bdp.Frame.of({"county": ["Alpha", "Gamma"], "education": ["Low", "High"]}))],
    "releases": [release(), release(4), release(sigma=2.0000000001), release(exact=10), release(name="other")],
    "priors": [FixedNegativeBinomial(own, 1.0) for own in (4.0, 4.0000000001, np.full(4, 900.0), np.full(4, 9.0), A, B)]
    + [VaryingShares(), VaryingShares(scale_spread=1.5000000001)],
    "own classes": [Own(A), Own(B), Loose(A), Loose(B)],
    "generators": [np.random.default_rng(1), np.random.default_rng(2), np.random.default_rng([1, 2]), np.random.PCG64(1)],
    "functions": [times(1.0), times(2.0), again, lambda x: x, lambda x: x + 1, lambda x, y=1: x, functools.partial(times, 2.0),
                  Own(A).what, Own(B).what, len, np.sum],
}  # fmt: skip


def test_other_content_has_another_digest_and_what_a_function_calls_is_part_of_it(monkeypatch):
    for kind, content in DIFFERENT.items():
        found = [digest(own) for own in content]
        assert len(set(found)) == len(found), kind
        assert found == [digest(own) for own in content], kind  # hashing changes nothing
    before = digest(again), digest(times(1.0))
    monkeypatch.setitem(globals(), "FACTOR", 4.0)
    assert digest(times(1.0)) != before[1]
    assert digest(again) != before[0]  # it calls what names it
    # The same content has the same digest however it is held.
    cells = bdp.Identity(FRAME)
    assert digest(cells) == digest(bdp.queries.Query.from_description(cells.describe(), FRAME))
    assert digest(np.float64(0.1)) == digest(0.1)
    assert digest(A[::2]) == digest(A[::2].copy())
    assert digest({"a", "b", "c"}) == digest({"c", "b", "a"})
    one = Loose(A)
    before = digest(one)
    assert one.total == 6.0
    assert digest(one) == before


_SCRIPT = """
from tests.inference.runs.test_fingerprint import DIFFERENT
from bayesdp.inference.runs.fingerprint import digest
print(digest({kind: own for kind, own in DIFFERENT.items()}))
"""


@pytest.mark.system
def test_another_process_has_the_same_digests():
    """Hashes of text are seeded anew in every process, so that sets are in another order."""
    root = Path(__file__).resolve().parents[3]
    found = subprocess.check_output([sys.executable, "-c", _SCRIPT], cwd=root, timeout=300, text=True)
    assert found.split()[-1] == digest(dict(DIFFERENT))


def _model(mu=A, slope=B, data=(1, 2, 3), sign=1.0, published=3):
    own = release(published)
    with pm.Model(coords=own.coords) as model:
        rate = pm.Normal("rate", np.asarray(mu), 1.0, shape=3)
        pm.Poisson("y", pm.math.exp(rate * np.asarray(slope)), observed=np.asarray(data))
        pm.Potential("bend", -sign * (rate**2).sum())
        bdp.observe(own, bdp.ConfidentialCounts("x", pm.Poisson.dist(2.0), dims=own.dims))
    return model


GIVEN = {"random_seed": 1, "draws": 10, "tune": 5, "chains": 2, "initvals": {"rate": A}}


def _run(given=(), **model):
    own = GIVEN | dict(given)
    return described_run(_model(**model), (own["chains"], own["draws"], own["tune"]), own)


CHANGES = {
    "mu, the last bit": ({"mu": B}, "numbers in the model"),
    "two arrays in each other's place": ({"mu": B, "slope": A}, "numbers in the model"),
    "data": ({"data": (1, 2, 4)}, "numbers in the model"),
    "a number of a potential": ({"sign": 1.0000000000000002}, "numbers in the model"),
    "a published number": ({"published": 4}, "release"),
    "seed": ({"given": {"random_seed": 2}}, "seed"),
    "a generator for a seed": ({"given": {"random_seed": np.random.default_rng(1)}}, "seed"),
    "tune": ({"given": {"tune": 6}}, "tune"),
    "chains": ({"given": {"chains": 3}}, "chains"),
    "where chains start": ({"given": {"initvals": {"rate": B}}}, "options: 'initvals': 'rate'"),
    "an option": ({"given": {"target_accept": 0.9}}, "options: 'target_accept'"),
}


def test_every_part_of_a_model_and_every_argument_is_named_and_one_that_is_built_again_is_the_same():
    run = _run()
    for change, (changed, named) in CHANGES.items():
        assert difference(run, _run(**changed)).startswith(f"its {named} is "), change
    assert difference(run, _run({"cores": 3, "draws": 11, "progressbar": True, "quiet": True, "callback": print})) == ""


def test_settings_of_a_step_method_are_part_of_it_and_other_and_earlier_versions_are_named():
    def stepped(target):
        with pm.Model() as model:
            pm.Normal("z")
            step = pm.NUTS(target_accept=target)
        return described_run(model, (2, 10, 5), {"step": step})

    assert difference(stepped(0.8), stepped(0.8)) == ""
    assert "its options: 'step' is 'NUTS [" in difference(stepped(0.8), stepped(0.9))
    ours = fingerprint(seed=1)
    for package in ("bayesdp", "pymc", "pytensor", "numpy", "numba"):
        theirs = ours | {"versions": ours["versions"] | {package: "0.0.1"}}
        assert difference(theirs, ours).startswith(f"its versions: {package!r} is '0.0.1', here it is '")
    for older in ({"bayesdp": "0.1.0", "seed": 1}, {"form": 2, "version": "0.1.0"}, {"seed": 1}):
        then = older.get("bayesdp", older.get("version", "which is not stated"))
        said = f"it was begun by another version of bayesdp ({then}), whose notes of a run do not say all"
        assert difference(older, ours).startswith(said)
        assert difference(older, dict(older)) == ""

"""Every field of a stored release, changed one at a time: refused, or the release means what the changed description says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bayesdp import mechanisms
from bayesdp.composition import as_one
from bayesdp.privacy import approximate_dp
from bayesdp.queries import Margins
from bayesdp.release import Release
from benchmarks.calibration.cases import INDEPENDENT, INVARIANTS, KEEPING, TABLE
from tests.storage.changed_fields import at, described, mutants, read_with, refused_with
from tests.storage.examples import EXAMPLES

pytestmark = pytest.mark.system

COUNTS = np.array([[4, 7, 2], [5, 0, 9]])
SQUARE = {"sex": ["men", "women"], "admission": ["yes", "no"]}
MADE = {
    **{name: lambda make=make: make(INVARIANTS["both margins"]).release(COUNTS, rng=1) for name, make in KEEPING.items()},
    **{name: lambda make=make: make(INVARIANTS["total"]).release(COUNTS, rng=1) for name, make in INDEPENDENT.items()},
    "lattice Laplace, a total": lambda: KEEPING["lattice Laplace, l1"](INVARIANTS["total"]).release(COUNTS),
    "Semi-DP canonical": lambda: mechanisms.SemiCanonical(
        Margins(SQUARE, ["sex"], ["admission"]), approximate_dp(1.0)
    ).release([[12, 30], [25, 17]], rng=1),
    "two releases": lambda: as_one(
        [mechanisms.DiscreteLaplace(TABLE, epsilon=0.6).release(COUNTS, rng=seed) for seed in (1, 2)]
    ),
    **EXAMPLES,
}  # fmt: skip

FREE = ("writer", "name", "names", "relation", "caveats", "person", "labels", "groups", "coordinates", "cell")
"""Words and labels: another one is another release, and a true one."""

DEFAULTS = {"neighbours", "norm", "sensitivity", "sweeps", "convention", "calibration", "delta", "person", "determined_complete",
            "invariants", "total_loss", "query", "cell", "groups", "size", "about", "record", "sampler"}  # fmt: skip
"""What may be left out of a description: then it has its usual value, which must fit the rest."""


def written(release: Release, path: Path) -> dict[str, Any]:
    release.to_csv(path)
    return json.loads(path.with_suffix(".noise.json").read_text())


def legitimate(path: tuple, kind: str, release: Release, description: dict[str, Any]) -> bool:
    """Whether a reader may accept it: it is a word, or the release says again just what the description says."""
    if kind == "removed" and (path[-1] in DEFAULTS or isinstance(path[-1], int) or "caveats" in path):
        return True
    if any(part in FREE for part in path if isinstance(part, str)):
        return True
    again = described(release)
    again["writer"] = description["writer"]
    return bool(again == description)


QUICK = {"lattice", "several", "lattice Laplace, l1"}
"""The other kinds take some seconds each."""


@pytest.mark.parametrize("kind", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in MADE])
def test_every_field_of_a_description(kind):
    release = MADE[kind]()
    description = described(release)
    tried = refused = 0
    for path, how, changed in mutants(description):
        tried += 1
        try:
            found = read_with(release, changed)
        except ValueError:
            refused += 1
            continue
        assert legitimate(path, how, found, changed), (path, how, at(description, path))
    assert refused > 0.6 * tried


CLAIMS = {
    "epsilon of the guarantee": (
        ("guarantee", "parameters", "epsilon"),
        0.01,
        "states epsilon = 0.01.*has epsilon = 0.4",
    ),
    "a row": (
        ("guarantee", "pairs", 0, "loss", "epsilon"),
        0.5,
        "states epsilon = 0.5 at l1 distance 4.*has epsilon = 1.6",
    ),
    "kind": (("guarantee", "kind"), "gdp", "must include mu"),
    "unit": (
        ("guarantee", "unit"),
        "l2",
        "unit: the guarantee states 'l2', but the mechanism 'lattice-laplace' has 'l1'",
    ),
    "simulated": (("simulated",), False, "simulated of the release is False, but simulated of its guarantee is True"),
    "its guarantee": (("guarantee", "simulated"), False, "simulated of the release is True, but .* guarantee is False"),
    "law": (
        ("measurements", 0, "law", "epsilon"),
        4.0,
        "has noise of the law lattice-laplace, epsilon = 0.4.*epsilon = 4.0",
    ),
    "mechanism": (("mechanism", "epsilon"), 0.1, "epsilon = 0.1.*but the release says .*epsilon = 0.4"),
    "name": (("mechanism", "mechanism"), "magic", "unknown mechanism 'magic'; known mechanisms are"),
    "unknown key": (("mechanism", "extra"), 1, "mechanism 'lattice-laplace' has no parameter 'extra'"),
    "sampler": (
        ("guarantee", "sampler"),
        "approximate: 7 sweeps of Gibbs, convergence not certified",
        "sampler: the guarantee states .* 7 sweeps",
    ),
    "determined": (("guarantee", "determined_cells"), ["row=a, column=u"], "which the exact values do not determine"),
    "no cell": (("guarantee", "determined_cells"), ["row=z"], "'row=z', which the table does not have"),
    "invariants": (("mechanism", "invariants"), {"parts": [{"sum": ["row", "column"]}]}, "determine every cell"),
}


@pytest.mark.parametrize("claim", CLAIMS)
@pytest.mark.parametrize("file", ["noise.json", "netCDF"])
def test_a_claim_that_contradicts_the_law_is_refused_with_both_sides(claim, file, tmp_path):
    path, value, message = CLAIMS[claim]
    refused_with(MADE["lattice Laplace, l1"](), path, value, file, tmp_path, message)


def test_a_person_is_told_no_other_loss(tmp_path):
    release = MADE["lattice Laplace, a total"]()
    changed = written(release, tmp_path / "stored.csv")
    true = changed["guarantee"]["person"]
    changed["guarantee"]["person"] = true.replace("epsilon = 0.8", "epsilon = 0.08")
    (tmp_path / "stored.noise.json").write_text(json.dumps(changed))
    # What the sentence is made from counts.
    assert Release.from_csv(tmp_path / "stored.csv").guarantee.person == true
    about = changed["guarantee"].pop("about")
    (tmp_path / "stored.noise.json").write_text(json.dumps(changed))
    with pytest.raises(
        ValueError, match=r"person: the guarantee states .* epsilon = 0.08.*, but .* has .* epsilon = 0.8\."
    ):
        Release.from_csv(tmp_path / "stored.csv")
    about["record"]["move"]["epsilon"] = 0.08
    changed["guarantee"] |= {"about": about, "person": true}
    (tmp_path / "stored.noise.json").write_text(json.dumps(changed))
    with pytest.raises(
        ValueError, match=r"person: the guarantee states .* epsilon = 0.08.*, but .* has .* epsilon = 0.8\."
    ):
        Release.from_csv(tmp_path / "stored.csv")

"""What a release states of itself, changed one field at a time: refused with both sides named, or no less than the truth."""

import json
from contextlib import nullcontext, suppress
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from bayesdp import Release, noise
from bayesdp.mechanisms.bounded.statistic_release import StatisticGuarantee, StatisticRelease
from bayesdp.mechanisms.composition import as_one
from bayesdp.papers import covariance_cone
from bayesdp.privacy import Guarantee, PairLoss
from bayesdp.storage.schema import describe
from benchmarks.calibration.cases import INDEPENDENT, KEEPING
from tests.storage import stated
from tests.storage.examples import EXAMPLES
from tests.storage.stated import (
    COUNTED,
    STATISTICS,
    TOTALS,
    WEAKER,
    at,
    mutants,
    plain,
    refused_in_dataset,
    refused_in_noise_json,
)

SWEEPS = "approximate: 7 sweeps of Gibbs, convergence not certified"
OF_COUNTS = [
    ("guarantee/parameters/epsilon", 0.01, "states epsilon = 0.01.*has epsilon = 0.4"),
    ("guarantee/pairs/0/loss/epsilon", 0.5, "states epsilon = 0.5 at l1 distance 4.*has epsilon = 1.6"),
    ("guarantee/kind", "gdp", "must include mu"),
    ("guarantee/unit", "l2", "unit: the guarantee states 'l2', but the mechanism 'lattice-laplace' has 'l1'"),
    ("simulated", False, "simulated of the release is False, but simulated of its guarantee is True"),
    ("guarantee/simulated", False, "simulated of the release is True, but .* guarantee is False"),
    ("measurements/0/law/epsilon", 4.0, "has noise of the law lattice-laplace, epsilon = 0.4.*epsilon = 4.0"),
    ("mechanism/epsilon", 0.1, "epsilon = 0.1.*but the release says .*epsilon = 0.4"),
    ("mechanism/mechanism", "magic", "unknown mechanism 'magic'; known mechanisms are"),
    ("mechanism/extra", 1, "mechanism 'lattice-laplace' has no parameter 'extra'"),
    ("guarantee/sampler", SWEEPS, "sampler: the guarantee states .* 7 sweeps"),
    ("guarantee/determined_cells", ["row=a, column=u"], "which the exact values do not determine"),
    ("guarantee/determined_cells", ["row=z"], "'row=z', which the table does not have"),
    ("mechanism/invariants", {"parts": [{"sum": ["row", "column"]}]}, "determine every cell"),
]
OF_TOTALS = [
    ("guarantee/parameters/epsilon", 0.16, "states epsilon = 0.16.* but its first row is epsilon = 1.6"),
    ("guarantee/pairs/0/loss/epsilon", 0.16, "states epsilon = 1.6.* but its first row is epsilon = 0.16"),
    ("guarantee/pairs/0/size", 20.0, "at l1 distance 20 .*but these are 2 apart"),
    ("guarantee/about/record/move/epsilon", 0.1, "person: .* states .*epsilon = 0.1[.].*from its rows .* = 1.6"),
    ("guarantee/sampler", SWEEPS, "7 sweeps.*drawn by 'exact'"),
]
OF_STATISTICS = [
    ("guarantee/parameters/epsilon", 0.01, "parameters: .* states epsilon = 0.01.*-laplace' has epsilon = 0.99999"),
    ("guarantee/pairs/0/loss/epsilon", 0.5, "states epsilon = 0.5 at l1 distance 0.02.*has epsilon = 0.99999"),
    ("measurements/0/law/b", 3.0, "has noise of the law truncated-laplace, b = 0.032.*release says .*b = 3.0"),
    ("mechanism/epsilon", 0.5, "has noise of the law .*but the release says"),
    ("mechanism/mechanism", "magic", "one of .*truncated-laplace.*magic"),
    ("mechanism/extra", 1, "has no parameter 'extra'"),
    ("simulated", False, "simulated of the release is False, but simulated of its guarantee is True"),
    ("guarantee/sampler", SWEEPS, "7 sweeps.*exact"),
    ("guarantee/person", "At most epsilon = 0.1.", "person: .* states .*epsilon = 0.1.*, but .* has nothing of it"),
    ("guarantee/determined_cells", ["x"], "determined cells, 'x', but the statistics have no cells"),
]


@pytest.fixture(scope="module")
def claiming():
    return {
        "counts": COUNTED["lattice Laplace, l1"](),
        "a total": TOTALS["pure"](),
        "statistics": STATISTICS["a mean"](),
    }


@pytest.mark.parametrize("kind", ["counts", "a total", "statistics"])
def test_a_claim_that_contradicts_the_law_is_refused_with_both_sides(kind, claiming, tmp_path):
    for path, value, message in {"counts": OF_COUNTS, "a total": OF_TOTALS, "statistics": OF_STATISTICS}[kind]:
        steps = [int(step) if step.isdigit() else step for step in path.split("/")]
        if kind != "a total":
            refused_in_dataset(claiming[kind], steps, value, message)
        if kind != "statistics":
            refused_in_noise_json(claiming[kind], steps, value, message, tmp_path)


def test_descriptions_of_compositions_within_compositions_as_well(claiming):
    """Each mechanism needs a measurement of its own, at every level; too many levels are no recursion error."""
    release = claiming["a total"]
    for path, value, message in (
        (("releases", 0, "epsilon"), 0.1, "release 1 has the mechanism .* epsilon = 0.1, .*no measurement has it"),
        (("composition_of",), 3, "by composition_of = 3 it is a 'composition of 3 releases'"),
        (("composition_of",), 1, "composition_of must be the number of releases put together, at least 2, got 1"),
        (("composition_of",), True, "composition_of must be the number of releases .* got True"),
        (("mechanism",), "k-norm", "mechanism is 'k-norm', but by composition_of = 2 it is a"),
        (("releases",), [None], "must list the mechanisms of all releases, got 1"),
        (("releases", 0), [1], r"mechanism of release 1 must be a mapping or null, got \[1\]"),
        (("extra",), 1, "has no key 'extra'"),
        (("delta",), "x", "delta"),
        (("delta",), 0.1, "the total loss is: delta turns mu into epsilon"),
    ):
        at(told := plain(dict(release.mechanism)), path[:-1])[path[-1]] = value
        with pytest.raises(ValueError, match=message):
            replace(release, mechanism=told).check_stated()
    nested = WEAKER["nested"]()
    one = dict(release.mechanism["releases"][0])
    three = {"mechanism": "composition of 3 releases", "composition_of": 3, "releases": [one] * 3}
    inner = plain(dict(nested.mechanism))
    inner["releases"][0]["releases"][0]["epsilon"] = 0.3
    nameless = {name: own for name, own in dict(release.mechanism).items() if name != "composition_of"}
    deep = None
    for _ in range(150):
        deep = {"mechanism": "composition of 2 releases", "composition_of": 2, "releases": [None, deep]}
    for made, mechanism, message in (
        (release, three, "lists 3 mechanisms, each with a measurement of its own, but the release has 2"),
        (release, deep, r"within more than 100 others|nested|deep"),
        (release, nameless, "publishes one measurement, but the release has 2"),
        (nested, inner, "release 1, release 1 has the mechanism .* no measurement has it"),
    ):
        with pytest.raises(ValueError, match=message):
            replace(made, mechanism=mechanism).check_stated()


def test_a_person_is_told_no_other_loss(tmp_path):
    """A sentence is made from the numbers of `about`; without them it must be the one that follows from the rows."""
    path = tmp_path / "stored.noise.json"
    COUNTED["a total"]().to_csv(tmp_path / "stored.csv")
    told, message = json.loads(path.read_text()), r"the guarantee states .* = 0.08.*, but .* has .* epsilon = 0.8\."
    true = told["guarantee"]["person"]
    lie = true.replace("epsilon = 0.8", "epsilon = 0.08")
    for sentence, about in ((lie, "kept"), (lie, "left out"), (true, "changed")):
        changed = plain(told)
        changed["guarantee"]["person"] = sentence
        if about == "left out":
            del changed["guarantee"]["about"]
        elif about == "changed":
            changed["guarantee"]["about"]["record"]["move"]["epsilon"] = 0.08
        path.write_text(json.dumps(changed))
        with nullcontext() if about == "kept" else pytest.raises(ValueError, match=rf"person: {message}"):
            assert Release.from_csv(tmp_path / "stored.csv").guarantee.person == true


FREE = {"writer", "name", "names", "relation", "caveats", "person", "labels", "groups", "coordinates", "cell"}
"""Words and labels: another one is another release, and a true one."""
DEFAULTS = {"neighbours", "norm", "sensitivity", "sweeps", "convention", "calibration", "delta", "person", "determined_complete",
            "invariants", "total_loss", "query", "cell", "groups", "size", "about", "record", "sampler"}  # fmt: skip
"""What may be left out of a description: then it has its usual value, which must fit the rest."""
QUICK = ("lattice", "several", "lattice Laplace, l1")  # the other kinds take some seconds each


def accepted(told, make, spared, *errors):
    """Mutants of what is told, without the spared ones, of which a release is made: where, how, changed and the release."""
    tried = [own for own in mutants(told) if not spared(*own[:2])]
    assert len(tried) > 100
    for path, how, changed in tried:
        with suppress(ValueError, TypeError, *errors):  # all of them are a ValueError of a file
            yield path, how, changed, make(changed)


@pytest.mark.system
@pytest.mark.parametrize(
    "kind", [*QUICK, *(pytest.param(own, marks=pytest.mark.slow) for own in [*COUNTED, *EXAMPLES] if own not in QUICK)]
)
def test_every_field_of_a_description(kind):
    """A reader may accept words, and a release that says again just what the description says; some kinds take long."""
    release = (COUNTED | EXAMPLES)[kind]()

    def made(changed):
        stored, unchanged = release.to_dataset(), ("bayesdp_schema", "about", "writer", "simulated")
        stored.attrs = {key: value if key in unchanged else json.dumps(value) for key, value in changed.items()}
        return Release.from_dataset(stored)

    def spared(path, how):
        left_out = how == "removed" and (path[-1] in DEFAULTS or isinstance(path[-1], int) or "caveats" in path)
        return left_out or not FREE.isdisjoint(path)

    told = plain(describe(release))
    for path, how, changed, found in accepted(told, made, spared, KeyError, AttributeError, IndexError):
        assert {**plain(describe(found)), "writer": changed["writer"]} == changed, (path, how, at(changed, path[:-1]))


@pytest.mark.system
@pytest.mark.parametrize("kind", TOTALS | WEAKER)
def test_every_number_of_a_total(kind, tmp_path):
    release = (TOTALS | WEAKER)[kind]()
    release.to_netcdf(tmp_path / "r.nc")
    release.to_csv(tmp_path / "r.csv")
    assert Release.from_netcdf(tmp_path / "r.nc") == Release.from_csv(tmp_path / "r.csv") == release
    told = plain(release.guarantee.to_dict())

    def spared(path, how):
        left_out = how == "removed" and (isinstance(path[-1], int) or path[-1] in ("about", "record", "sampler"))
        return left_out or not {"relation", "caveats", "person", "determined_complete"}.isdisjoint(path)

    def made(changed):
        return replace(release, guarantee=Guarantee.from_dict(changed)).check_stated()

    for path, how, changed, _ in accepted(told, made, spared):
        assert kind in WEAKER, f"accepted: {path} {how} {at(told, path)!r}"
        assert at(changed, path) > at(told, path), f"accepted: {path} {how} {at(told, path)!r}"


@pytest.mark.parametrize("kind", ["pure", "mu", "nested", "not described"])
def test_a_total_that_is_too_small_everywhere(kind):
    """All rows and the parameters together: they agree with one another, and not with the noise."""
    release = (TOTALS | WEAKER)[kind]()

    def times(factor):
        told = plain(release.guarantee.to_dict())
        for loss in (told["parameters"], *(row["loss"] for row in told["pairs"])):
            for name in set(loss) & {"epsilon", "mu", "rho"}:
                loss[name] *= factor
        told["person"] = ""
        told["about"].pop("record", None)
        return replace(release, guarantee=Guarantee.from_dict(told))

    message = r"the guarantee states .*, but the mechanisms together have "
    if kind == "pure":  # two releases of rate 0.4 at l1 distance 2 lose 2 x 0.4 x 2 = 1.6
        message += r"epsilon = 1.6, sensitivity = 2.0$"
    with pytest.raises(ValueError, match=message):
        times(0.3 if kind == "not described" else 0.999).check_stated()
    with nullcontext() if kind in WEAKER else pytest.raises(ValueError, match=message):
        times(10.0).check_stated()


@pytest.mark.system
def test_a_composition_of_any_mechanism_with_any_is_never_refused():
    """Each with the next one and itself again, under its own invariants."""
    made = [make for group in (KEEPING, INDEPENDENT) for name, make in group.items() if "norm" not in name]
    with_guarantee = 0
    for k, make in enumerate(made):
        one, again = (make(stated.TOTAL).release(stated.COUNTS, rng=seed) for seed in (1, 2))
        other = made[(k + 1) % len(made)](stated.BOTH).release(stated.COUNTS, rng=3)
        for releases in ([one, again], [one, other], [again, other, stated.rows()], [as_one([one, again]), other]):
            together = as_one(releases)
            together.check_stated()
            with_guarantee += together.guarantee is not None
    assert with_guarantee > 3 * len(made) // 2


LONG = ("truncated Gaussian",)  # each number is calibrated again
WITHOUT_EFFECT = {"relation", "caveats", "paper_sensitivity", "changed", "largest"}
"""Words; of clipped noise, and what is said of the paper where its convention is not taken: another value gives the same noise."""


@pytest.mark.system
@pytest.mark.parametrize("kind", [pytest.param(own, marks=[pytest.mark.slow] * (own in LONG)) for own in STATISTICS])
def test_every_number_of_a_guarantee_of_statistics(kind):
    release = STATISTICS[kind]()
    told = plain(release.guarantee.to_dict())

    def made(changed):
        return replace(release, guarantee=StatisticGuarantee.from_dict(changed))

    def spared(path, how):
        in_list = isinstance(path[-1], int) and how in ("removed", "truth")  # true in a list of numbers is 1
        said = path == ("pairs", 0, "loss", "rho") and len(told["pairs"][0]["loss"]) > 1
        left_out = how == "removed" and (said or path[-1] in ("about", "person", "record"))
        return in_list or left_out or not WITHOUT_EFFECT.isdisjoint(path)

    assert made(told) == release
    assert [own[:2] for own in accepted(told, made, spared)] == []


@pytest.mark.parametrize("kind", STATISTICS)
def test_what_statistics_state_is_held_to_a_thousandth_and_kept_by_their_file(kind, tmp_path):
    release = STATISTICS[kind]()
    told = plain(release.guarantee.to_dict())
    name = next(iter(told["parameters"]))
    lost, paired, size = ("parameters", name), ("pairs", 0, "loss", name), ("parameters", "sensitivity")
    for path, factor in product((lost, paired, size), (0.999, 1.001)):
        at(changed := plain(told), path[:-1])[path[-1]] *= factor
        with pytest.raises(ValueError, match="the guarantee states"):
            replace(release, guarantee=StatisticGuarantee.from_dict(changed))
    with pytest.raises(ValueError, match=r"simulated of the release is .*, but simulated of"):
        replace(release, simulated=not release.simulated)
    if "covariance" not in kind:
        release.to_netcdf(tmp_path / "r.nc")
        again = type(release).from_netcdf(tmp_path / "r.nc")
        assert (type(again), again) == (type(release), release)


@pytest.mark.parametrize("family", [noise.TruncatedLaplace, noise.BoundaryInflatedLaplace])
def test_the_law_alone_bounds_what_may_be_stated(family):
    """Oracle: the largest log-ratio of the densities of two locations that far apart, on a grid of values."""
    law, size = family(0.05, stated.UNIT), 0.1
    values, low = np.linspace(0.0, 1.0, 201), np.linspace(0.0, 1.0 - size, 91)
    ratio = [np.abs(law.log_each(values, np.full(201, x)) - law.log_each(values, np.full(201, x + size))) for x in low]
    true = float(np.max(ratio))

    def claim(epsilon):
        return StatisticGuarantee("pure", {"epsilon": epsilon, "sensitivity": size}, "l1")

    assert true >= size / 0.05 * (1.0 - 1e-9)
    StatisticRelease(0.4, law, guarantee=claim(true))
    StatisticRelease(0.4, law, guarantee=claim(size / 0.05))
    row = PairLoss("made up", size, "l1", {"epsilon": 0.1})
    for guarantee, message in (
        (claim(1.9), "states epsilon = 1.9 for statistics that are 0.1 apart, .* at least epsilon = 2.0"),
        (replace(claim(5.0), pairs=(row,)), "epsilon = 0.1 .* at least epsilon = 2.0"),
    ):
        with pytest.raises(ValueError, match=message):
            StatisticRelease(0.4, law, guarantee=guarantee)


def test_shares_are_those_of_the_noisy_values_and_a_covariance_without_noise_had_a_part_of_the_budget():
    """A released variance of 0: the part of the covariance is not known any more, and the guarantee still includes it."""
    release = STATISTICS["all but one"]()
    with pytest.raises(TypeError, match="shares"):  # they follow from the noisy values
        replace(release, shares=np.full(4, 0.25))
    for key, value, message in (
        ("mechanism", "magic", r"one of all-but-one, .*, rescaled-proportions, .*, universal-histogram, got .*magic"),
        ("rule", "boundary-inflated", r"'all-but-one' has noise .*boundary-inflated.*release says truncated-laplace"),
    ):
        with pytest.raises(ValueError, match=message):
            replace(release, mechanism={**release.mechanism, key: value})
    mechanism = covariance_cone.CovarianceMatrix(1.0, 200, [(-3.0, 3.0), (-4.5, 4.5)])
    made = (mechanism.release([[0.0, 0.0], [0.0, 2.0]], rng=seed) for seed in range(30))
    release = next(own for own in made if own.scales[0, 1] == 0.0)
    low = StatisticGuarantee.from_dict({**release.guarantee.to_dict(), "pairs": []})
    with pytest.raises(ValueError, match=r"states epsilon = 0.5"):
        replace(release, guarantee=replace(low, parameters={**low.parameters, "epsilon": 0.5}))

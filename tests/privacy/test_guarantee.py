"""What a guarantee says, in words and numbers, and that it survives being stored."""

from __future__ import annotations

import json
import math
import pickle
import re
from dataclasses import replace

import pytest

from bayesdp.privacy import (
    FLOATING_POINT_CAVEAT,
    Difference,
    Guarantee,
    PairLoss,
    SamplerStatement,
    gaussian_epsilon,
    gaussian_pairs,
    pure_pairs,
    rho_to_epsilon,
)
from bayesdp.privacy.losses import ZCDP

NAMED = ["substitution", "2x2 move", "3-cycle"]


def full() -> Guarantee:
    return Guarantee(
        "zcdp",
        {"rho": 0.02},
        "l2",
        gaussian_pairs(5.0, NAMED, delta=1e-10),
        determined_cells=("county=Alpha, education=<script>",),
        sampler=SamplerStatement("Gibbs", 1000),
        simulated=True,
        caveats=(FLOATING_POINT_CAVEAT,),
    )


def test_rows_of_the_lattice_laplace() -> None:
    assert [row.size for row in pure_pairs(0.25, "l1", NAMED)] == [2, 4, 6]
    assert [row.loss["epsilon"] for row in pure_pairs(0.25, "l1", NAMED)] == [0.5, 1.0, 1.5]
    sizes = [row.size for row in pure_pairs(0.25, "l2", NAMED)]
    assert sizes == pytest.approx([math.sqrt(2), 2, math.sqrt(6)], rel=1e-15)


def test_rows_of_gaussians() -> None:
    lattice = gaussian_pairs(5.0, NAMED, delta=1e-10)
    assert [row.loss["rho"] for row in lattice] == pytest.approx([2 / 50, 4 / 50, 6 / 50], rel=1e-14)
    assert lattice[1].loss["epsilon"] == rho_to_epsilon(lattice[1].loss["rho"], 1e-10)
    projected = gaussian_pairs(5.0, ["2x2 move"], delta=1e-10, continuous=True)
    assert projected[0].loss["mu"] == pytest.approx(0.4, rel=1e-14)
    assert projected[0].loss["epsilon"] == pytest.approx(gaussian_epsilon(1e-10, 5.0, 2.0), rel=1e-14)
    own = gaussian_pairs(5.0, [Difference("two records moved", 4.0, math.sqrt(8.0))])
    assert own[0].loss["rho"] == pytest.approx(8 / 50, rel=1e-14)


def test_the_text_has_all_that_matters() -> None:
    text = " ".join(str(full()).split())
    for part in ["same invariants", "rho = 0.02", "2x2 move", "3-cycle", "2.44949", "SIMULATED", "binary64"]:
        assert part in text, part
    assert "county=Alpha, education=<script>" in text
    assert max(map(len, str(full()).splitlines())) <= 100


@pytest.mark.parametrize("kind", ["pure", "zcdp"])
def test_uncertified_noise_never_shows_a_bare_loss(kind: str) -> None:
    if kind == "pure":
        stated = Guarantee(
            "pure", {"epsilon": 0.25}, "l1", pure_pairs(0.25, "l1", NAMED), sampler=SamplerStatement("Gibbs", 50)
        )
    else:
        stated = full()
    sweeps = 50 if kind == "pure" else 1000
    for text in [str(stated), stated._repr_html_(), repr(stated.statements())]:
        flat = " ".join(text.split())
        numbers = re.findall(
            r"(?:epsilon|rho) = [^()]*\(approximate, (\d+) sweeps of Gibbs, convergence not certified\)", flat
        )
        assert numbers == [str(sweeps)] * 4
        # Every number stands inside one of these.
        rest = re.sub(r"target [^()]*\(approximate, \d+ sweeps of Gibbs, convergence not certified\)", "", flat)
        assert not re.search(r"(epsilon|rho|delta) = \d", rest)


def test_exact_noise_shows_its_loss_plainly() -> None:
    text = str(Guarantee("pure", {"epsilon": 0.25}, "l1"))
    assert "epsilon = 0.25" in text
    assert "certified" not in text
    assert "SIMULATED" not in text


def test_sensitivity_replaces_the_unit() -> None:
    text = str(Guarantee("approximate", {"epsilon": 1.0, "delta": 1e-10, "sensitivity": 2.0}, "l2"))
    assert "Loss at l2 distance 2 between two tables: epsilon = 1, delta = 1e-10" in text


def test_labels_are_escaped_in_html() -> None:
    page = full()._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


def test_round_trips() -> None:
    stated = full()
    assert Guarantee.from_dict(json.loads(json.dumps(stated.to_dict()))) == stated
    assert pickle.loads(pickle.dumps(stated)) == stated
    assert hash(stated) == hash(Guarantee.from_dict(stated.to_dict()))
    assert stated != replace(stated, simulated=False)


def test_it_cannot_be_changed() -> None:
    stated = full()
    with pytest.raises(TypeError):
        stated.parameters["rho"] = 0.0  # type: ignore[index]
    with pytest.raises(AttributeError):
        stated.simulated = False  # type: ignore[misc]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            {"kind": "magic"},
            ValueError,
            "kind must be one of 'pure', 'zcdp', 'approximate', 'gdp', got 'magic'",
        ),
        ({"unit": "l3"}, ValueError, "unit must be one of 'l1', 'l2', .*got 'l3'"),
        ({"parameters": {"epsilon": 1.0}}, ValueError, "must include rho"),
        ({"parameters": {"rho": math.nan}}, ValueError, r"parameters\['rho'\] must be a finite number"),
        ({"parameters": {"rho": 1.0, "seed": 3}}, ValueError, "unknown names 'seed'"),
        ({"parameters": {"rho": "1"}}, TypeError, r"parameters\['rho'\] must be a real number"),
        ({"sampler": "mcmc"}, ValueError, "sampler must be 'exact' or 'approximate: n sweeps of Gibbs"),
        (
            {"sampler": "approximate: 0 sweeps of Gibbs, convergence not certified"},
            ValueError,
            "sampler must be",
        ),
        ({"simulated": 1}, TypeError, "simulated must be True or False"),
        ({"caveats": "one sentence"}, TypeError, "caveats must be a sequence of str"),
        ({"secret": 1}, ValueError, "unknown keys 'secret'"),
        ({"pairs": [{"relation": "x"}]}, ValueError, "row of a guarantee lacks 'size', 'norm', 'loss'"),
    ],
)
def test_what_is_read_is_checked(change: dict[str, object], error: type[Exception], message: str) -> None:
    written = {**full().to_dict(), **change}
    if "sampler" in change:
        del written["about"]  # as in files of earlier versions, whose samplers are known by their words
    with pytest.raises(error, match=message):
        Guarantee.from_dict(written)


def test_missing_keys_are_named() -> None:
    description = full().to_dict()
    del description["sampler"]
    with pytest.raises(ValueError, match="lacks 'sampler'"):
        Guarantee.from_dict(description)
    with pytest.raises(TypeError, match="must be a mapping"):
        Guarantee.from_dict([1])  # type: ignore[arg-type]


def test_rows_check_their_fields() -> None:
    with pytest.raises(ValueError, match="difference must be one of 'substitution', '2x2 move', '3-cycle'"):
        pure_pairs(1.0, "l1", ["4-cycle"])
    with pytest.raises(ValueError, match="size must be a finite number of at least 0"):
        PairLoss("a pair", -1.0, "l1", {"epsilon": 1.0})
    with pytest.raises(TypeError, match="relation must be a sentence"):
        PairLoss("", 1.0, "l1", {"epsilon": 1.0})


def test_whether_all_determined_cells_are_listed_is_said() -> None:
    listed = replace(full(), determined_complete=True)
    assert "the invariants determine these cells (1):" in " ".join(str(listed).split())
    open_list = " ".join(str(replace(full(), determined_complete=False)).split())
    assert "the invariants determine at least 1 cell; whether others too could not be worked out:" in open_list
    none = str(replace(full(), determined_cells=(), determined_complete=False))
    assert "Whether the invariants determine single cells" in none
    assert "determine" not in str(replace(full(), determined_cells=(), determined_complete=True))
    for stated in (listed, replace(full(), determined_complete=False)):
        assert Guarantee.from_dict(json.loads(json.dumps(stated.to_dict()))) == stated


def test_files_of_earlier_versions_do_not_say_whether_the_list_is_complete() -> None:
    assert "determined_complete" not in full().to_dict()
    read = Guarantee.from_dict(full().to_dict())
    assert read.determined_complete is None
    assert "whether these are all was not recorded" in " ".join(str(read).split())
    with pytest.raises(TypeError, match="determined_complete must be True or False"):
        Guarantee.from_dict({**full().to_dict(), "determined_complete": 1})


def test_the_whole_loss_and_those_of_rows_are_values() -> None:
    stated = full()
    assert stated.loss == ZCDP(0.02)
    assert stated.pairs[0].loss.stated("zcdp") == ZCDP(2 / 50)
    assert stated.pairs[0].loss.stated("approximate") == ZCDP(2 / 50).at(1e-10)
    with pytest.raises(ValueError, match="must include epsilon without delta"):
        Guarantee("pure", {"epsilon": 1.0, "delta": 1e-6}, "l1")

"""Guarantees: rows, relations, caveats and words, how they are read from files, and what is refused."""

from __future__ import annotations

import copy
import json
import math
import pickle
import re
from dataclasses import fields, replace

import pytest

from bayesdp.privacy import (
    DIFFERENCES,
    EXACT_SAMPLER,
    FLOATING_POINT_CAVEAT,
    Guarantee,
    PairLoss,
    gaussian_epsilon,
    gaussian_pairs,
    pure_pairs,
    rho_to_epsilon,
)
from bayesdp.privacy import caveats as own
from bayesdp.privacy.losses import ZCDP, ApproximateDP, GaussianDP, PureDP
from bayesdp.privacy.words import (
    Conforming,
    Difference,
    Neighbours,
    OnePerson,
    Relation,
    SamplerStatement,
    SemiAdjacent,
    Sentence,
    Statement,
    described_from,
    relation_from,
)
from bayesdp.sensitivities.kept import ADDED

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
    page = full()._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    plain = str(Guarantee("pure", {"epsilon": 0.25}, "l1"))
    assert "epsilon = 0.25" in plain
    assert "certified" not in plain
    assert "SIMULATED" not in plain
    at_size = str(Guarantee("approximate", {"epsilon": 1.0, "delta": 1e-10, "sensitivity": 2.0}, "l2"))
    assert "Loss at l2 distance 2 between two tables: epsilon = 1, delta = 1e-10" in at_size


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


def test_round_trips() -> None:
    stated = full()
    assert Guarantee.from_dict(json.loads(json.dumps(stated.to_dict()))) == stated
    assert pickle.loads(pickle.dumps(stated)) == stated
    assert hash(stated) == hash(Guarantee.from_dict(stated.to_dict()))
    assert stated != replace(stated, simulated=False)


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


def test_the_whole_loss_and_those_of_rows_are_values() -> None:
    stated = full()
    assert stated.loss == ZCDP(0.02)
    assert stated.pairs[0].loss.stated("zcdp") == ZCDP(2 / 50)
    assert stated.pairs[0].loss.stated("approximate") == ZCDP(2 / 50).at(1e-10)


CAVEATS = [
    *map(own.Fixed, own.SENTENCES),
    own.Sentence("Only I know {this}."),
    own.Rounded(-20),
    own.Rounded(0, within=True),
    own.Drawn("by hand"),
    own.IntegersOnly("0.14.1"),
    own.IntegersOnly("", extra=False, redrawn=True),
    own.AdjacencyEnough(3),
    own.AdjacencyOpen(2),
    own.AdjacencyEnoughHere(2),
    own.ForPublished("l2", 2.0),
    own.InUnits("0.01"),
    own.PaperSpace("l2", 2.0, 2.5, GaussianDP(1.0), GaussianDP(1.25)),
    own.PaperSpace("l1", 2.0, 2.0, PureDP(1.0), PureDP(1.0)),
    own.PaperScale(2.0, 0.5, 0.75),
    own.PaperScale(2.0, 0.5, 0.75, counts=True),
    own.PaperElements(1.5),
    own.CanonicalSteps((0.05, 0.1), (0.9, 0.8)),
    own.Composed(3),
    own.Convolution(1e-6),
    own.OfReleases((1, 3), own.OfReleases((2,), own.Rounded(-3))),
    own.Smooth(0.25, 0.0, "l1"),
    own.Smooth(1.0, 1e-6, "l2"),
    own.OtherSamplers(("approximate: 3 sweeps of Gibbs, convergence not certified",)),
]


def told(*caveats: str, **fields: object) -> Guarantee:
    return Guarantee("pure", {"epsilon": 1.0}, "l1", caveats=caveats, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("caveat", CAVEATS, ids=lambda caveat: caveat[:40])
def test_a_caveat_is_its_sentence_and_survives_files(caveat: Statement) -> None:
    written = json.loads(json.dumps(told(caveat).to_dict()))
    assert written["caveats"] == [str(caveat)]
    [read] = Guarantee.from_dict(written).caveats
    for again in (read, pickle.loads(pickle.dumps(caveat)), copy.deepcopy(caveat), replace(caveat)):
        assert type(again) is type(caveat)
        assert again == str(caveat)
        assert [getattr(again, item.name) for item in fields(again)] == [
            getattr(caveat, item.name) for item in fields(caveat)
        ]


def test_every_caveat_has_an_example_here_and_another_name() -> None:
    kinds = {kind for kind in vars(own).values() if isinstance(kind, type) and Statement in kind.__bases__}
    assert kinds == {type(caveat) for caveat in CAVEATS}
    assert len({kind.name for kind in kinds}) == len(kinds)
    assert len(set(own.SENTENCES.values())) == len(own.SENTENCES)


@pytest.mark.parametrize("sampler", [EXACT_SAMPLER, SamplerStatement("Gibbs", 30), SamplerStatement("hit-and-run", 7)])
@pytest.mark.parametrize("alone", [False, True])
def test_a_sampler_is_read_again(sampler: SamplerStatement, alone: bool) -> None:
    written = json.loads(json.dumps(told("one", sampler=sampler).to_dict()))
    if alone:  # the text
        written.pop("about", None)
    elif sampler.sweeps:  # or both
        with pytest.raises(ValueError, match="is 'exact', but its 'about' says 'approximate"):
            Guarantee.from_dict({**written, "sampler": "exact"})
    read = Guarantee.from_dict(written)
    assert (read.sampler.chain, read.sampler.sweeps) == (sampler.chain, sampler.sweeps)
    assert read.certified == (sampler.sweeps == 0)


def test_what_it_is_made_from_counts_and_not_the_words() -> None:
    written = {**told(own.Rounded(-20)).to_dict(), "caveats": ["Released values are not rounded."]}
    assert Guarantee.from_dict(written).caveats == (str(own.Rounded(-20)),)
    del written["about"]
    assert isinstance(Guarantee.from_dict(written).caveats[0], own.Sentence)
    assert isinstance(told(str(own.FLOATING_POINT_CAVEAT)).caveats[0], own.Sentence)
    row = PairLoss(SemiAdjacent(3), 6.0, "l1", {"epsilon": 1.0}).to_dict()
    description = Guarantee("pure", {"epsilon": 1.0}, "l1").to_dict()
    read = Guarantee.from_dict({**description, "pairs": [{**row, "relation": "all is well"}]})
    assert read.pairs[0].relation == SemiAdjacent(3).words
    del row["about"]
    assert Guarantee.from_dict({**description, "pairs": [row]}).pairs[0].about == Sentence(SemiAdjacent(3).words)


def test_what_is_said_of_one_person_is_made_from_losses() -> None:
    chain = SamplerStatement("Gibbs", 5)
    person = OnePerson(6, 6, 0, True, move=ApproximateDP(2.0, 1e-6), sampler=chain)
    assert "costs at most target epsilon = 2, delta = 1e-06 (approximate, 5 sweeps of Gibbs" in person
    assert "has no protection by this bound" in replace(person, move=ApproximateDP(2.0, 1.0))
    assert "at what loss is not known" in replace(person, move=None)
    assert "changes of 2 to 3 records" in OnePerson(6, 0, 0, False, least=2, most=3)
    read = described_from(json.loads(json.dumps(person.describe())), (OnePerson,), "a person")
    assert (read, read.move, read.sampler.sweeps) == (person, person.move, 5)
    whole = told(sampler=chain, person=person)
    again = Guarantee.from_dict({**whole.to_dict(), "person": "Nothing can happen to anybody."})
    assert again == whole


RELATIONS: list[Relation] = [
    *(Neighbours(change, among) for change in ("substitution", "add-remove") for among in ("", "all", "joint", "data")),
    Neighbours("substitution", "all", "at most"),
    *(
        Conforming(difference, bound)
        for difference in (*DIFFERENCES.values(), ADDED)
        for bound in ("", "largest", "upper")
    ),
    *(SemiAdjacent(a, joint) for a in (1, 3) for joint in (False, True)),
    Sentence("some pair"),
    Conforming(Difference("the smallest change found", 5.0, 3.0, found=True)),
]


@pytest.mark.parametrize("relation", RELATIONS, ids=lambda own: own.words[:60])
def test_a_relation_is_read_as_it_was_written(relation: Relation) -> None:
    assert [own for own in RELATIONS if own.words == relation.words] == [relation]
    assert relation_from(json.loads(json.dumps(relation.describe()))) == relation
    stated = Guarantee("pure", {"epsilon": 1.0}, "l1", (PairLoss(relation, 4.0, "l1", {"epsilon": 4.0}),))
    written = json.loads(json.dumps(stated.to_dict()))
    assert Guarantee.from_dict(written) == stated
    assert written["pairs"][0]["relation"] == relation.words
    assert relation.words in " ".join(str(stated).split())


def kept(relation: str, l1: float, found: object) -> dict[str, object]:
    return {"is": "kept", "difference": {"relation": relation, "l1": l1, "l2": 1, "found": found}, "bound": ""}


GIBBS = "approximate: {} sweeps of Gibbs, convergence not certified"
ROW_OF_FILE = PairLoss(SemiAdjacent(3), 6.0, "l1", {"epsilon": 1.0}).to_dict()
DEEP: dict[str, object] = own.Rounded(1).describe()
for _ in range(1000):
    DEEP = {"is": "of releases", "releases": [1], "said": DEEP}


def caveat(name: str, **fields: object) -> dict[str, object]:
    return {"about": {"caveats": [{"is": name, **fields}]}}


def sampler(chain: str, sweeps: int) -> dict[str, object]:
    return {"about": {"sampler": {"is": "sampler", "chain": chain, "sweeps": sweeps}}}


def apart(**fields: object) -> dict[str, object]:
    return {"pairs": [{**ROW_OF_FILE, "about": {"is": "apart", "adjacency": 3, "joint": False, **fields}}]}


def neighbours(**fields: str) -> dict[str, object]:
    about = {"is": "neighbours", "change": "add-remove", "among": "", "bound": "", **fields}
    return {"pairs": [{**ROW_OF_FILE, "about": about}]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "magic"}, "kind must be one of 'pure', 'zcdp', 'approximate', 'gdp', got 'magic'"),
        ({"unit": "l3"}, "unit must be one of 'l1', 'l2', .*got 'l3'"),
        ({"parameters": {"rho": 1.0}}, "must include epsilon"),
        ({"parameters": {"epsilon": 1.0, "delta": 1e-6}}, "must include epsilon without delta"),
        ({"parameters": {"epsilon": math.nan}}, r"parameters\['epsilon'\] must be a finite number"),
        ({"parameters": {"epsilon": 1.0, "seed": 3}}, "unknown names 'seed'"),
        ({"sampler": "exactly"}, "sampler must be 'exact' or 'approximate: n sweeps of Gibbs"),
        ({"sampler": GIBBS.format(0)}, "sampler must be"),
        ({"sampler": "9" * 9999}, "sampler must be"),
        ({"simulated": 1}, "simulated must be True or False"),
        ({"determined_complete": 1}, "determined_complete must be True or False"),
        ({"caveats": "one sentence"}, "caveats must be a sequence of str"),
        ({"secret": 1}, "unknown keys 'secret'"),
        ({"pairs": [{"relation": "x"}]}, "row of a guarantee lacks 'size', 'norm', 'loss'"),
        ({"pairs": [{**ROW_OF_FILE, "size": -1.0}]}, "size must be a finite number of at least 0"),
        ({"about": 3}, "may have the keys 'caveats', 'record' and 'sampler'"),
        ({"about": {"seed": {}}}, "may have the keys"),
        ({"about": {"caveats": []}}, "an entry for each of its caveats"),
        ({"about": {"caveats": ["x"]}}, "a caveat must be a mapping"),
        ({"about": {"caveats": [DEEP]}}, "must not stand in more than 20 others"),
        (caveat("x"), "the key 'is' of a caveat must be one of"),
        (caveat("rounded"), "a caveat lacks 'exponent', 'within'"),
        (caveat("rounded", exponent="1", within=True), "exponent of a caveat must be a wh"),
        (caveat("rounded", exponent=10**400, within=True), "below 2"),
        (caveat("rounded", exponent=1, within=1), "within of a caveat must be True or"),
        (caveat("fixed", which="x"), "which must be one of 'floating point'"),
        (caveat("drawn", how=1), "how of a caveat must be text"),
        (caveat("paper elements", true_epsilon=-1.0), "true_epsilon of a caveat must be"),
        (caveat("other samplers", samplers="x"), "samplers of a caveat must be a list"),
        ({"about": {"record": {"is": "one person"}}}, "lacks 'cells', 'movable', 'uncounted'"),
        (sampler("HMC", 3), "chain must be one of '', 'Gibbs'"),
        (sampler("Gibbs", 0), "sweeps must be an integer greater"),
        (sampler("", 3), "sweeps must be 0 without a chain"),
        ({"pairs": [{**ROW_OF_FILE, "about": {"is": "kin"}}]}, "'is' of a relation"),
        ({"pairs": [{**ROW_OF_FILE, "about": {"is": "apart", "adjacency": 3}}]}, "a relation lacks 'joint'"),
        ({"pairs": [{**ROW_OF_FILE, "about": {"is": "sentence", "text": 7}}]}, "sentence"),
        (apart(adjacency=0), "adjacency"),
        (apart(joint=1), "joint"),
        (neighbours(change="swap"), "change"),
        (neighbours(among="some"), "among"),
        (neighbours(bound="never"), "bound"),
        ({"pairs": [{**ROW_OF_FILE, "about": kept("x", -1, False)}]}, "l1"),
        ({"pairs": [{**ROW_OF_FILE, "about": kept("", 1, False)}]}, "sentence"),
        ({"pairs": [{**ROW_OF_FILE, "about": kept("x", 1, 0)}]}, "found"),
    ],
)
def test_what_is_read_is_checked(change: dict[str, object], message: str) -> None:
    written = told("one").to_dict()
    with pytest.raises((TypeError, ValueError), match=message):
        Guarantee.from_dict({**written, **change})


def test_what_is_missing_or_no_guarantee_is_named() -> None:
    written = full().to_dict()
    del written["sampler"]
    with pytest.raises(ValueError, match="lacks 'sampler'"):
        Guarantee.from_dict(written)
    with pytest.raises(TypeError, match="must be a mapping"):
        Guarantee.from_dict([1])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="difference must be one of 'substitution', '2x2 move', '3-cycle'"):
        pure_pairs(1.0, "l1", ["4-cycle"])
    with pytest.raises(TypeError, match="relation must be a sentence"):
        PairLoss("", 1.0, "l1", {"epsilon": 1.0})

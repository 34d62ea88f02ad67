"""Guarantees: rows, relations, caveats and words, how they are read from files, and what is refused."""

import copy
import json
import math
import pickle
import re
from dataclasses import fields, replace

import pytest

from bayesdp import privacy
from bayesdp.privacy import caveats as own
from bayesdp.privacy.losses import ZCDP, ApproximateDP, GaussianDP, PureDP
from bayesdp.privacy.sensitivities.kept import ADDED
from bayesdp.privacy.words import Conforming, Difference, Neighbours, OnePerson, SamplerStatement, SemiAdjacent
from tests.refusals import refused

NAMED = ["substitution", "2x2 move", "3-cycle"]


def full():
    more = {"simulated": True, "caveats": (privacy.FLOATING_POINT_CAVEAT,), "sampler": SamplerStatement("Gibbs", 1000)}
    pairs, cells = privacy.gaussian_pairs(5.0, NAMED, delta=1e-10), ("county=Alpha, education=<script>",)
    return privacy.Guarantee("zcdp", {"rho": 0.02}, "l2", pairs, determined_cells=cells, **more)


def flat(stated):
    return " ".join(str(stated).split())


def reread(stated):
    """What is read from the file of a guarantee."""
    return privacy.Guarantee.from_dict(json.loads(json.dumps(stated.to_dict())))


def test_rows_of_the_lattice_laplace_and_of_gaussians():
    assert [row.size for row in privacy.pure_pairs(0.25, "l1", NAMED)] == [2, 4, 6]
    assert [row.loss["epsilon"] for row in privacy.pure_pairs(0.25, "l1", NAMED)] == [0.5, 1.0, 1.5]
    sizes = [row.size for row in privacy.pure_pairs(0.25, "l2", NAMED)]
    assert sizes == pytest.approx([math.sqrt(2), 2, math.sqrt(6)], rel=1e-15)
    lattice = privacy.gaussian_pairs(5.0, NAMED, delta=1e-10)
    assert [row.loss["rho"] for row in lattice] == pytest.approx([2 / 50, 4 / 50, 6 / 50], rel=1e-14)
    assert lattice[1].loss["epsilon"] == privacy.rho_to_epsilon(lattice[1].loss["rho"], 1e-10)
    projected = privacy.gaussian_pairs(5.0, ["2x2 move"], delta=1e-10, continuous=True)
    assert projected[0].loss["mu"] == pytest.approx(0.4, rel=1e-14)
    assert projected[0].loss["epsilon"] == pytest.approx(privacy.gaussian_epsilon(1e-10, 5.0, 2.0), rel=1e-14)
    own = privacy.gaussian_pairs(5.0, [Difference("two records moved", 4.0, math.sqrt(8.0))])
    assert own[0].loss["rho"] == pytest.approx(8 / 50, rel=1e-14)


def test_the_text_has_all_that_matters():
    text = flat(full())
    parts = ["same invariants", "rho = 0.02", "2x2 move", "3-cycle", "2.44949", "SIMULATED", "binary64", "=<script>"]
    assert [part for part in parts if part not in text] == []
    assert max(map(len, str(full()).splitlines())) <= 100
    page = full()._repr_html_()
    assert [own in page for own in ("<script>", "&lt;script&gt;")] == [False, True]
    plain = str(privacy.Guarantee("pure", {"epsilon": 0.25}, "l1"))
    assert [own in plain for own in ("epsilon = 0.25", "certified", "SIMULATED")] == [True, False, False]
    at_size = str(privacy.Guarantee("approximate", {"epsilon": 1.0, "delta": 1e-10, "sensitivity": 2.0}, "l2"))
    assert "Loss at l2 distance 2 between two tables: epsilon = 1, delta = 1e-10" in at_size


GIBBS_1000, ROWS = SamplerStatement("Gibbs", 1000), privacy.pure_pairs(0.25, "l1", NAMED)
PURE = privacy.Guarantee("pure", {"epsilon": 0.25}, "l1", ROWS, sampler=GIBBS_1000)


@pytest.mark.parametrize("stated", [PURE, full()])
def test_uncertified_noise_never_shows_a_bare_loss(stated):
    chain = r"[^()]*\(approximate, 1000 sweeps of Gibbs, convergence not certified\)"
    for text in map(flat, (stated, stated._repr_html_(), repr(stated.statements()))):
        assert len(re.findall(f"(?:epsilon|rho) = {chain}", text)) == 4
        # Every number stands inside one of these.
        assert not re.search(r"(epsilon|rho|delta) = \d", re.sub(f"target {chain}", "", text))


def test_round_trips_and_whether_all_determined_cells_are_listed():
    stated = full()
    assert reread(stated) == stated == pickle.loads(pickle.dumps(stated))
    assert hash(stated) == hash(reread(stated))
    assert stated != replace(stated, simulated=False)
    assert (stated.loss, stated.pairs[0].loss.stated("zcdp")) == (ZCDP(0.02), ZCDP(2 / 50))
    assert stated.pairs[0].loss.stated("approximate") == ZCDP(2 / 50).at(1e-10)
    # Files of earlier versions do not say it.
    listed, some = (replace(full(), determined_complete=own) for own in (True, False))
    assert "the invariants determine these cells (1):" in flat(listed)
    assert "the invariants determine at least 1 cell; whether others too could not be worked out:" in flat(some)
    assert "Whether the invariants determine single cells" in str(replace(some, determined_cells=()))
    assert "determine" not in str(replace(listed, determined_cells=()))
    assert [reread(listed), reread(some)] == [listed, some]
    assert "determined_complete" not in full().to_dict()
    assert reread(full()).determined_complete is None
    assert "whether these are all was not recorded" in flat(reread(full()))


CAVEATS = [
    *map(own.Fixed, own.SENTENCES),
    own.Sentence("Only I know {this}."), own.Rounded(-20), own.Rounded(0, within=True), own.Drawn("by hand"),
    own.IntegersOnly("0.14.1"), own.IntegersOnly("", extra=False, redrawn=True), own.AdjacencyEnough(3),
    own.AdjacencyOpen(2), own.AdjacencyEnoughHere(2), own.ForPublished("l2", 2.0), own.InUnits("0.01"),
    own.PaperSpace("l2", 2.0, 2.5, GaussianDP(1.0), GaussianDP(1.25)), own.PaperScale(2.0, 0.5, 0.75),
    own.PaperSpace("l1", 2.0, 2.0, PureDP(1.0), PureDP(1.0)), own.PaperScale(2.0, 0.5, 0.75, counts=True),
    own.PaperElements(1.5), own.CanonicalSteps((0.05, 0.1), (0.9, 0.8)), own.Composed(3), own.Convolution(1e-6),
    own.OfReleases((1, 3), own.OfReleases((2,), own.Rounded(-3))), own.Smooth(0.25, 0.0, "l1"),
    own.Smooth(1.0, 1e-6, "l2"), own.OtherSamplers(("approximate: 3 sweeps of Gibbs, convergence not certified",)),
]  # fmt: skip


def told(*caveats, **fields):
    return privacy.Guarantee("pure", {"epsilon": 1.0}, "l1", caveats=caveats, **fields)


@pytest.mark.parametrize("caveat", CAVEATS, ids=lambda caveat: caveat[:40])
def test_a_caveat_is_its_sentence_and_survives_files(caveat):
    written = json.loads(json.dumps(told(caveat).to_dict()))
    assert written["caveats"] == [str(caveat)]
    [read] = privacy.Guarantee.from_dict(written).caveats
    for again in (read, pickle.loads(pickle.dumps(caveat)), copy.deepcopy(caveat), replace(caveat)):
        assert type(again) is type(caveat)
        assert again == str(caveat)
        assert all(getattr(again, item.name) == getattr(caveat, item.name) for item in fields(caveat))


def test_every_caveat_has_an_example_here_and_another_name():
    base = privacy.words.Statement
    kinds = {kind for kind in vars(own).values() if isinstance(kind, type) and base in kind.__bases__}
    assert (kinds, len({kind.name for kind in kinds})) == ({type(caveat) for caveat in CAVEATS}, len(kinds))
    assert len(set(own.SENTENCES.values())) == len(own.SENTENCES)


SAMPLERS = [privacy.EXACT_SAMPLER, SamplerStatement("Gibbs", 9), SamplerStatement("hit-and-run", 7)]


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("alone", [False, True])
def test_a_sampler_is_read_again(sampler, alone):
    written = json.loads(json.dumps(told("one", sampler=sampler).to_dict()))
    if alone:  # the text
        written.pop("about", None)
    elif sampler.sweeps:  # or both
        with pytest.raises(ValueError, match="is 'exact', but its 'about' says 'approximate"):
            privacy.Guarantee.from_dict({**written, "sampler": "exact"})
    read = privacy.Guarantee.from_dict(written)
    assert (read.sampler.chain, read.sampler.sweeps) == (sampler.chain, sampler.sweeps)
    assert read.certified == (sampler.sweeps == 0)


def test_what_it_is_made_from_counts_and_not_the_words():
    written = {**told(own.Rounded(-20)).to_dict(), "caveats": ["Released values are not rounded."]}
    assert privacy.Guarantee.from_dict(written).caveats == (str(own.Rounded(-20)),)
    del written["about"]
    assert isinstance(privacy.Guarantee.from_dict(written).caveats[0], own.Sentence)
    assert isinstance(told(str(own.FLOATING_POINT_CAVEAT)).caveats[0], own.Sentence)
    row = privacy.PairLoss(SemiAdjacent(3), 6.0, "l1", {"epsilon": 1.0}).to_dict()
    description = privacy.Guarantee("pure", {"epsilon": 1.0}, "l1").to_dict()
    read = privacy.Guarantee.from_dict({**description, "pairs": [{**row, "relation": "all is well"}]})
    assert read.pairs[0].relation == SemiAdjacent(3).words
    del row["about"]
    read = privacy.Guarantee.from_dict({**description, "pairs": [row]})
    assert read.pairs[0].about == privacy.words.Sentence(SemiAdjacent(3).words)


def test_what_is_said_of_one_person_is_made_from_losses():
    chain = SamplerStatement("Gibbs", 5)
    person = OnePerson(6, 6, 0, True, move=ApproximateDP(2.0, 1e-6), sampler=chain)
    assert "costs at most target epsilon = 2, delta = 1e-06 (approximate, 5 sweeps of Gibbs" in person
    assert "has no protection by this bound" in replace(person, move=ApproximateDP(2.0, 1.0))
    assert "at what loss is not known" in replace(person, move=None)
    assert "changes of 2 to 3 records" in OnePerson(6, 0, 0, False, least=2, most=3)
    read = privacy.words.described_from(json.loads(json.dumps(person.describe())), (OnePerson,), "a person")
    assert (read, read.move, read.sampler.sweeps) == (person, person.move, 5)
    whole = told(sampler=chain, person=person)
    again = privacy.Guarantee.from_dict({**whole.to_dict(), "person": "Nothing can happen to anybody."})
    assert again == whole


RELATIONS = [
    *(Neighbours(change, among) for change in ("substitution", "add-remove") for among in ("", "all", "joint", "data")),
    Neighbours("substitution", "all", "at most"),
    *(Conforming(own, bound) for own in (*privacy.DIFFERENCES.values(), ADDED) for bound in ("", "largest", "upper")),
    *(SemiAdjacent(a, joint) for a in (1, 3) for joint in (False, True)),
    privacy.words.Sentence("some pair"),
    Conforming(Difference("the smallest change found", 5.0, 3.0, found=True)),
]


@pytest.mark.parametrize("relation", RELATIONS, ids=lambda own: own.words[:60])
def test_a_relation_is_read_as_it_was_written(relation):
    assert [own for own in RELATIONS if own.words == relation.words] == [relation]
    assert privacy.words.relation_from(json.loads(json.dumps(relation.describe()))) == relation
    stated = told(pairs=(privacy.PairLoss(relation, 4.0, "l1", {"epsilon": 4.0}),))
    assert (reread(stated), stated.to_dict()["pairs"][0]["relation"]) == (stated, relation.words)
    assert relation.words in flat(stated)


GIBBS = "approximate: {} sweeps of Gibbs, convergence not certified"
ROW_OF_FILE = privacy.PairLoss(SemiAdjacent(3), 6.0, "l1", {"epsilon": 1.0}).to_dict()
DEEP = own.Rounded(1).describe()
for _ in range(1000):
    DEEP = {"is": "of releases", "releases": [1], "said": DEEP}


def caveat(name, **fields):
    return {"about": {"caveats": [{"is": name, **fields}]}}


def pair(kind, **fields):
    return {"pairs": [{**ROW_OF_FILE, "about": {"is": kind, **fields}}]}


def kept(relation, l1, found):
    return pair("kept", difference={"relation": relation, "l1": l1, "l2": 1, "found": found}, bound="")


test_what_is_read_is_checked = refused(
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
    ({"about": {"sampler": {"is": "sampler", "chain": "HMC", "sweeps": 3}}}, "chain must be one of '', 'Gibbs'"),
    ({"about": {"sampler": {"is": "sampler", "chain": "Gibbs", "sweeps": 0}}}, "sweeps must be an integer greater"),
    ({"about": {"sampler": {"is": "sampler", "chain": "", "sweeps": 3}}}, "sweeps must be 0 without a chain"),
    (pair("kin"), "'is' of a relation"),
    (pair("apart", adjacency=3), "a relation lacks 'joint'"),
    (pair("sentence", text=7), "sentence"),
    (pair("apart", adjacency=0, joint=False), "adjacency"),
    (pair("apart", adjacency=3, joint=1), "joint"),
    (pair("neighbours", change="swap", among="", bound=""), "change"),
    (pair("neighbours", change="add-remove", among="some", bound=""), "among"),
    (pair("neighbours", change="add-remove", among="", bound="never"), "bound"),
    (kept("x", -1, False), "l1"),
    (kept("", 1, False), "sentence"),
    (kept("x", 1, 0), "found"),
    of=lambda change: privacy.Guarantee.from_dict({**told("one").to_dict(), **change}),
)
NO_SAMPLER = {name: value for name, value in full().to_dict().items() if name != "sampler"}
test_what_is_missing_or_no_guarantee_is_named = refused(
    (lambda: privacy.Guarantee.from_dict(NO_SAMPLER), "lacks 'sampler'", ValueError),
    (lambda: privacy.Guarantee.from_dict([1]), "must be a mapping", TypeError),
    (
        lambda: privacy.pure_pairs(1.0, "l1", ["4-cycle"]),
        "must be one of 'substitution', '2x2 move', '3-cycle'",
        ValueError,
    ),
    (lambda: privacy.PairLoss("", 1.0, "l1", {"epsilon": 1.0}), "relation must be a sentence", TypeError),
)

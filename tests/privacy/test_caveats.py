"""Sentences of guarantees as values: their words, what they are made from, and that both survive files."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import fields, replace

import pytest

from bayesdp.privacy import EXACT_SAMPLER, Guarantee
from bayesdp.privacy import caveats as own
from bayesdp.privacy.guarantee import caveat_from
from bayesdp.privacy.losses import ApproximateDP, GaussianDP, PureDP
from bayesdp.privacy.words import OnePerson, SamplerStatement, Statement, described_from

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
    with pytest.raises(AttributeError):
        setattr(caveat, fields(caveat)[0].name, 1)


def test_every_caveat_has_an_example_here_and_another_name() -> None:
    kinds = {kind for kind in vars(own).values() if isinstance(kind, type) and Statement in kind.__bases__}
    assert kinds == {type(caveat) for caveat in CAVEATS}
    assert len({kind.name for kind in kinds}) == len(kinds)
    assert len(set(own.SENTENCES.values())) == len(own.SENTENCES)


def test_what_it_is_made_from_counts_and_not_the_words() -> None:
    written = told(own.Rounded(-20)).to_dict()
    written["caveats"] = ["Released values are not rounded."]
    assert Guarantee.from_dict(written).caveats == (str(own.Rounded(-20)),)


@pytest.mark.parametrize(
    ("about", "error", "message"),
    [
        (3, ValueError, "may have the keys 'caveats', 'record' and 'sampler'"),
        ({"seed": {}}, ValueError, "may have the keys"),
        ({"caveats": []}, ValueError, "an entry for each of its caveats"),
        ({"caveats": "x"}, ValueError, "an entry for each"),
        ({"caveats": ["x"]}, TypeError, "a caveat must be a mapping"),
        ({"caveats": [{"is": "x"}]}, ValueError, "the key 'is' of a caveat must be one of"),
        ({"caveats": [{"is": "rounded"}]}, ValueError, "a caveat lacks 'exponent', 'within'"),
        (
            {"caveats": [{"is": "rounded", "exponent": "1", "within": True}]},
            TypeError,
            "exponent of a caveat must be a wh",
        ),
        ({"caveats": [{"is": "rounded", "exponent": 10**400, "within": True}]}, TypeError, "below 2"),
        ({"caveats": [{"is": "rounded", "exponent": 1, "within": 1}]}, TypeError, "within of a caveat must be True or"),
        ({"caveats": [{"is": "fixed", "which": "x"}]}, ValueError, "which must be one of 'floating point'"),
        ({"caveats": [{"is": "drawn", "how": 1}]}, TypeError, "how of a caveat must be text"),
        ({"caveats": [{"is": "paper elements", "true_epsilon": -1.0}]}, ValueError, "true_epsilon of a caveat must be"),
        ({"caveats": [{"is": "other samplers", "samplers": "x"}]}, TypeError, "samplers of a caveat must be a list"),
        ({"record": {"is": "one person"}}, ValueError, "lacks 'cells', 'movable', 'uncounted'"),
        ({"record": None}, TypeError, "one person's record must be a mapping"),
        ({"sampler": {"is": "sampler", "chain": "HMC", "sweeps": 3}}, ValueError, "chain must be one of '', 'Gibbs'"),
        (
            {"sampler": {"is": "sampler", "chain": "Gibbs", "sweeps": 0}},
            ValueError,
            "sweeps must be an integer greater",
        ),
        ({"sampler": {"is": "sampler", "chain": "", "sweeps": 3}}, ValueError, "sweeps must be 0 without a chain"),
    ],
)
def test_what_is_read_is_checked(about: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Guarantee.from_dict({**told("one").to_dict(), "about": about})


def test_caveats_do_not_stand_in_each_other_without_end() -> None:
    deep: dict[str, object] = own.Rounded(1).describe()
    for _ in range(1000):
        deep = {"is": "of releases", "releases": [1], "said": deep}
    with pytest.raises(ValueError, match="must not stand in more than 20 others"):
        caveat_from(deep)


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


@pytest.mark.parametrize(
    "text", ["exactly", "approximate: 07 sweeps of Gibbs, convergence not certified", "", "9" * 9999]
)
def test_another_text_is_no_sampler(text: str) -> None:
    with pytest.raises(ValueError, match="sampler must be 'exact' or 'approximate: n sweeps of Gibbs"):
        Guarantee.from_dict({**told("one").to_dict(), "sampler": text})
    with pytest.raises(ValueError, match="sampler must be 'exact' or"):
        told(sampler=text)


def test_nothing_follows_from_a_caveat_that_is_a_sentence() -> None:
    words = str(own.FLOATING_POINT_CAVEAT)
    assert isinstance(told(words).caveats[0], own.Sentence)
    written = told(own.FLOATING_POINT_CAVEAT).to_dict()
    assert isinstance(Guarantee.from_dict({**written, "caveats": ["other words"]}).caveats[0], own.Fixed)
    del written["about"]
    assert isinstance(Guarantee.from_dict(written).caveats[0], own.Sentence)
    assert "about" not in told("made up").to_dict()


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

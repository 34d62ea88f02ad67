"""What a row of a guarantee is about: a value that is written, read and printed, and nothing that reads sentences."""

from __future__ import annotations

import json

import pytest

from bayesdp.privacy import DIFFERENCES, Guarantee, PairLoss
from bayesdp.privacy.words import Conforming, Difference, Neighbours, Relation, SemiAdjacent, Sentence, relation_from
from bayesdp.sensitivities.kept import ADDED

RELATIONS: list[Relation] = [
    *(Neighbours(change, among) for change in ("substitution", "add-remove") for among in ("", "all", "joint", "data")),
    Neighbours("substitution", "all", "at most"),
    *(
        Conforming(difference, bound)
        for difference in (*DIFFERENCES.values(), ADDED)
        for bound in ("", "largest", "upper")
    ),
    *(SemiAdjacent(a, joint) for a in (1, 2, 3, 40) for joint in (False, True)),
    Sentence("some pair"),
    Conforming(Difference("the smallest change found", 5.0, 3.0, found=True)),
]


@pytest.mark.parametrize("relation", RELATIONS, ids=lambda own: own.words[:60])
def test_a_relation_is_read_as_it_was_written(relation: Relation) -> None:
    assert relation_from(json.loads(json.dumps(relation.describe()))) == relation
    stated = Guarantee("pure", {"epsilon": 1.0}, "l1", (PairLoss(relation, 4.0, "l1", {"epsilon": 4.0}),))
    written = json.loads(json.dumps(stated.to_dict()))
    assert Guarantee.from_dict(written) == stated
    assert written["pairs"][0]["relation"] == relation.words
    assert relation.words in " ".join(str(stated).split())


def test_different_relations_have_different_words() -> None:
    assert len({own.words for own in RELATIONS}) == len(RELATIONS)


def test_nothing_follows_from_a_row_that_has_words_only() -> None:
    row = {"relation": SemiAdjacent(3).words, "size": 4.0, "norm": "l1", "loss": {"epsilon": 4.0}}
    description = Guarantee("pure", {"epsilon": 1.0}, "l1").to_dict()
    assert Guarantee.from_dict({**description, "pairs": [row]}).pairs[0].about == Sentence(SemiAdjacent(3).words)
    with pytest.raises(TypeError, match="relation must be a sentence"):
        Guarantee.from_dict({**description, "pairs": [{**row, "relation": 3}]})


def test_what_a_row_is_about_counts_and_not_its_words() -> None:
    row = PairLoss(SemiAdjacent(3), 6.0, "l1", {"epsilon": 1.0}).to_dict()
    description = {**Guarantee("pure", {"epsilon": 1.0}, "l1").to_dict(), "pairs": [{**row, "relation": "all is well"}]}
    assert Guarantee.from_dict(description).pairs[0].relation == SemiAdjacent(3).words


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ("neighbours", "must be a mapping"),
        ({}, "'is' of a relation"),
        ({"is": "kin"}, "'is' of a relation"),
        ({"is": "apart", "adjacency": 3}, "a relation lacks 'joint'"),
        ({"is": "apart", "adjacency": 0, "joint": False}, "adjacency"),
        ({"is": "apart", "adjacency": 3, "joint": 1}, "joint"),
        ({"is": "neighbours", "change": "swap", "among": "", "bound": ""}, "change"),
        ({"is": "neighbours", "change": "add-remove", "among": "some", "bound": ""}, "among"),
        ({"is": "neighbours", "change": "add-remove", "among": "", "bound": "never"}, "bound"),
        ({"is": "kept", "difference": "2x2 move", "bound": ""}, "difference of a relation must be a mapping"),
        ({"is": "kept", "difference": {"relation": "x", "l1": -1, "l2": 1, "found": False}, "bound": ""}, "l1"),
        ({"is": "kept", "difference": {"relation": "", "l1": 1, "l2": 1, "found": False}, "bound": ""}, "sentence"),
        ({"is": "kept", "difference": {"relation": "x", "l1": 1, "l2": 1, "found": 0}, "bound": ""}, "found"),
        ({"is": "sentence", "text": 7}, "sentence"),
    ],
)
def test_bad_descriptions_are_named(about: object, message: str) -> None:
    row = {**PairLoss(SemiAdjacent(3), 6.0, "l1", {"epsilon": 1.0}).to_dict(), "about": about}
    with pytest.raises((TypeError, ValueError), match=message):
        Guarantee.from_dict({**Guarantee("pure", {"epsilon": 1.0}, "l1").to_dict(), "pairs": [row]})

"""The table of `tests.mutations`: each fault can be made, and the tests that should see it are there."""

from __future__ import annotations

from tests.mutations import ROOT, mutations, place_of


def test_each_can_be_made() -> None:
    every = mutations()
    assert len(every) >= 60
    assert len({mutation.old for mutation in every}) == len(every)
    wrong = []
    for mutation in every:
        assert mutation.new != mutation.old
        wrong += [f"{name} is not there" for name in mutation.tests if not (ROOT / name).exists()]
        try:
            place = place_of(mutation)
            compile(place.read_text(encoding="utf-8").replace(mutation.old, mutation.new), str(place), "exec")
        except (ValueError, SyntaxError) as error:
            wrong.append(str(error))
    assert not wrong, "\n".join(wrong)

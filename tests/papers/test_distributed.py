"""Agents with a common seed: the assembled release is the central one, and no agent has the data of another."""

import copy
import json
import pickle
import re
import subprocess
import sys
from dataclasses import asdict, replace

import cloudpickle
import numpy as np
import pytest
import xarray as xr

from bayesdp import mechanisms as m
from bayesdp.invariants import Invariants
from bayesdp.mechanisms import LatticeGaussian, LatticeLaplace, ProjectedGaussian
from bayesdp.papers.subspace import Agent, Piece, assemble, noise_check
from bayesdp.queries import LinearQuery, Margins, Totals
from bayesdp.release import Release
from tests.refusals import refused

LABELS = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "High"]}
TABLE = xr.DataArray([[15, 1], [20, 10], [3, 0]], dims=list(LABELS), coords=LABELS)
BOTH, COUNTY = Margins(TABLE, ["county"], ["education"]), Margins(TABLE, ["county"])
SEED = 0x9D1BB5ADB35C3B1A9A6A2B7F0C2F5E11
CELLS = [(county, education) for county in LABELS["county"] for education in LABELS["education"]]
MECHANISMS = [
    LatticeLaplace(BOTH, epsilon=0.5, sweeps=20),
    LatticeLaplace(COUNTY, epsilon=0.5),
    LatticeLaplace(BOTH, epsilon=0.5, norm="l2", sweeps=20),
    LatticeGaussian(COUNTY, epsilon=1.0, delta=1e-6, sweeps=20),
    LatticeLaplace(Invariants(None, LABELS), epsilon=0.5),
    ProjectedGaussian(BOTH, epsilon=1.0, delta=1e-6),
    ProjectedGaussian(LinearQuery(TABLE, [[1, 1, 2, 0, 0, 1], [0, 0, 1, -1, 3, 0]], ["weighted", "other"]), rho=0.02),
    ProjectedGaussian([COUNTY, Totals(TABLE)], rho=0.02),
    ProjectedGaussian(COUNTY, mu=1e4),
    *(kind(BOTH, epsilon=0.5) for kind in (m.KNorm, m.ExtendedLaplace)),
    m.ExtendedGaussian(BOTH, mu=0.5),
    m.ProjectedLaplace(COUNTY, epsilon=0.5),
]
LATTICE, REAL = MECHANISMS[1], MECHANISMS[5]


def agents_of(mechanism, seed=SEED):
    return [Agent(mechanism.describe(), LABELS, seed, cell) for cell in CELLS]


def pieces_of(mechanism, round_number=0, table=TABLE, seed=SEED):
    """What each agent, who knows one count, hands over, as it is read from a file."""
    counts = np.asarray(table).ravel().tolist()
    told = [own.privatize(count, round_number) for own, count in zip(agents_of(mechanism, seed), counts, strict=True)]
    read = [Piece(**json.loads(json.dumps(asdict(own)))) for own in told]
    assert read == told
    return read


def central(mechanism, round_number, table=TABLE):
    return mechanism.release(table, rng=np.random.default_rng([SEED, round_number]))


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_the_assembled_release_is_the_central_one_bit_for_bit(mechanism, make_rng):
    pieces = pieces_of(mechanism, 7)
    make_rng(1).shuffle(pieces)
    release, expected = assemble(mechanism, pieces), central(mechanism, 7)
    assert release.values.dtype == expected.values.dtype
    assert release.values.values.tobytes() == expected.values.values.tobytes()
    # All of it, but for what is said about the random numbers.
    assert replace(release, guarantee=None) == replace(expected, guarantee=None, simulated=False)
    assert replace(release.guarantee, caveats=()) == replace(expected.guarantee, caveats=(), simulated=False)
    assert Release.from_dataset(release.to_dataset()) == release


PROGRAM = """
import json, sys
from dataclasses import asdict
from bayesdp.papers.subspace import Agent
for description, labels, seed, cell, count in json.load(sys.stdin):
    print(json.dumps(asdict(Agent(description, labels, seed, tuple(cell)).privatize(count, 3))))
"""


@pytest.mark.slow
def test_processes_that_know_one_count_each_make_the_central_release():
    told = [[], []]
    for cell, count in zip(CELLS, TABLE.values.ravel().tolist(), strict=True):
        given = json.dumps([[own.describe(), LABELS, SEED, cell, count] for own in (LATTICE, REAL)])
        done = subprocess.run([sys.executable, "-c", PROGRAM], input=given, capture_output=True, text=True, check=True)
        for pieces, line in zip(told, done.stdout.splitlines(), strict=True):
            pieces.append(Piece(**json.loads(line)))
    for mechanism, pieces in zip((LATTICE, REAL), told, strict=True):
        release, expected = assemble(mechanism, pieces), central(mechanism, 3)
        assert release.values.values.tobytes() == expected.values.values.tobytes()
        assert release.exact == expected.exact


@pytest.mark.parametrize("mechanism", [MECHANISMS[0], REAL], ids=repr)
def test_blocks_of_cells_make_the_same_release(mechanism):
    description = mechanism.describe()
    first = Agent(description, TABLE, SEED, [("Beta", "High"), "county=Alpha, education=Low", ("Alpha", "High")])
    rest = Agent(description, TABLE, SEED, [("Gamma", "Low"), ("Gamma", "High"), ("Beta", "Low")])
    assert first.cells == ("county=Beta, education=High", "county=Alpha, education=Low", "county=Alpha, education=High")
    release = assemble(mechanism, [first.privatize([10, 15, 1], 4), rest.privatize(np.array([3, 0, 20]), 4)])
    assert release == assemble(mechanism, pieces_of(mechanism, 4))


def test_no_agent_holds_the_data_of_another_or_its_own():
    secret = [7654321, 8765432, 6543217, 5432167, 4321765, 3217654]
    for agent, count in zip(agents_of(MECHANISMS[0]), secret, strict=True):
        piece = agent.privatize(count, 0)
        held = pickle.dumps({name: own for name, own in vars(agent).items() if name != "_seed"})
        assert agent._used == {0}
        for number in secret:
            assert number.to_bytes(3, "little") not in held
            if number != piece.values[0]:  # noise can be zero
                assert number.to_bytes(3, "little") not in pickle.dumps(piece)
        assert set(vars(agent)) == {"mechanism", "_seed", "_positions", "_used"}


COPIES = [
    *(lambda agent, own=own: pickle.dumps(agent, own) for own in range(pickle.HIGHEST_PROTOCOL + 1)),
    lambda agent: pickle.dumps([{"agents": (agent,)}]),
    lambda agent: pickle.dumps(agent.privatize),
    cloudpickle.dumps,
    lambda agent: cloudpickle.dumps(lambda count: agent.privatize(count, 0)),
    copy.copy,
    copy.deepcopy,
    lambda agent: copy.deepcopy({"agent": agent}),
]


@pytest.mark.parametrize("copied", COPIES)
def test_an_agent_cannot_be_pickled_or_copied(copied):
    agent = agents_of(LATTICE)[0]
    with pytest.raises(TypeError, match="an Agent cannot be pickled or copied: it holds the common seed") as caught:
        copied(agent)
    for error in (caught.value, caught.value.__cause__, caught.value.__context__):
        assert str(SEED) not in repr(error)


def test_the_seed_is_nowhere_to_be_seen():
    agent = agents_of(REAL)[0]
    piece, release = agent.privatize(15, 0), assemble(REAL, pieces_of(REAL))
    published = [repr(agent), str(agent), repr(piece), json.dumps(asdict(piece)), repr(release), str(release.guarantee)]
    published += [str(release.to_dataset().attrs), pickle.dumps(release).decode("latin-1")]
    for text in published:
        assert str(SEED) not in text
        assert f"{SEED:x}" not in text.lower()
        assert SEED.to_bytes(16, "little").decode("latin-1") not in text


def test_the_code_of_the_noise_needs_the_seed_and_covers_all_of_it():
    given = {"seed": SEED, "round_number": 0, "digest": "d", "noise": np.arange(6)}
    changes = [{}, {"seed": SEED + 1}, {"round_number": 1}, {"digest": "e"}]
    changes += [{"noise": np.arange(6.0)}, {"noise": np.ones(6, int)}]
    assert len({noise_check(**{**given, **change}) for change in changes}) == len(changes)
    assert noise_check(**given) == noise_check(**{**given, "noise": np.arange(6, dtype=">i8")})


def test_the_guarantee_says_against_whom_it_protects_and_lists_determined_cells():
    release = assemble(MECHANISMS[0], pieces_of(MECHANISMS[0]))
    assert not release.simulated
    text = " ".join(str(release.guarantee).split())
    assert not re.search("SIMULATED|operating system", text)
    assert "outsiders only: whoever holds the seed, every agent among them, can subtract the noise" in text
    assert "PCG64 generator, which is not a cryptographic one" in text
    assert "drawn exactly from its law" in text
    told = assemble(LATTICE, pieces_of(LATTICE, 0, [[15, 1], [20, 10], [0, 0]])).guarantee.determined_cells
    assert told == ("county=Gamma, education=Low", "county=Gamma, education=High")


def test_a_round_cannot_be_used_twice_and_a_refused_count_does_not_use_it_up():
    agent = agents_of(LATTICE)[0]
    for count, message in (
        (-1, "counts must be at least 0, but county=Alpha, education=Low is not$"),
        (1.5, "whole numbers, but county=Alpha, education=Low is no whole number$"),
        (2**53, r"must be smaller than 2\*\*53"),
        ([1, 2], "one count for each of 'county=Alpha, education=Low'"),
    ):
        with pytest.raises(ValueError, match=message):
            agent.privatize(count, 1)
    first = agent.privatize(15, 1)
    assert first.cells == ("county=Alpha, education=Low",)
    with pytest.raises(ValueError, match="round_number 1 was used before"):
        agent.privatize(16, 1)
    assert agent.privatize(15, 2) != first
    # Rounds have streams of their own.
    assert len({pieces_of(REAL, number)[0].values[0] for number in range(5)}) == 5


def with_one_changed(pieces, **changes):
    return [replace(pieces[0], **changes), *pieces[1:]]


SPOILED = [
    (lambda p, m: p[1:], "pieces lack cells: 'county=Alpha, education=Low'"),
    (lambda p, m: [*p, p[2]], "hold cells more than once: 'county=Beta, education=Low'"),
    (lambda p, m: with_one_changed(p, cells=("county=Delta",)), "cells that the table does not have: 'county=Delta'"),
    (lambda p, m: [*p[:4], *pieces_of(m, 1)[4:]], "'county=Gamma, education=High' were made with another round .1, not 0"),
    (lambda p, m: [*p[:5], *pieces_of(m, 0, seed=SEED + 1)[5:]], "education=High' were made with other noise: another seed"),
    (lambda p, m: pieces_of(type(m)(BOTH, **({"mu": 0.7} if m is REAL else {"epsilon": 0.7}))), "made with another mechanism"),
    (lambda p, m: [], "at least one piece"),
    (lambda p, m: [3], "pieces must hold what Agent.privatize returns, got int"),
]  # fmt: skip
test_pieces_that_do_not_fit_together_are_refused = refused(
    *(((mechanism, spoil), message) for mechanism in (LATTICE, REAL) for spoil, message in SPOILED),
    of=lambda own: assemble(own[0], own[1](pieces_of(own[0]), own[0])),
)


def far_below_rounding():
    """Pieces with a change far below what a sum in floating point would notice."""
    first, second, *others = pieces_of(REAL)
    big = [replace(first, values=(2.0**30,)), replace(second, values=(2.0**-30 - 3.0,))]
    assert big[0].values[0] + big[1].values[0] == 2.0**30 - 3.0
    return [*big, *others]


FINE, HUGE = ProjectedGaussian(COUNTY, mu=1e6), [[10**9, 1], [20, 10], [3, 0]]
TOO_FINE = r"smaller than 8192, which is 2\*\*53 steps .* county=Alpha, education=Low is not"  # the grid is 2**-40
ON_COUNTIES = ProjectedGaussian(Totals(TABLE), mu=1.0, query=COUNTY)


def agent(**changes):
    given = {"description": REAL.describe(), "frame": LABELS, "seed": SEED, "cells": ("Alpha", "Low")}
    return Agent(**{**given, **changes})


def piece(**changes):
    return Piece(**{**asdict(pieces_of(REAL)[0]), **changes})


test_bad_agents_and_pieces_are_refused = refused(
    (lambda: assemble(REAL, [replace(p, values=(p.values[0] + REAL.grid * (k == 0),)) for k, p in enumerate(pieces_of(REAL))]),
     r"county=Alpha comes out as .*, no whole number; some agent used another seed"),
    (lambda: assemble(REAL, far_below_rounding()), "no whole number"),
    (lambda: pieces_of(FINE, 0, HUGE), TOO_FINE),
    (lambda: central(FINE, 0, HUGE), TOO_FINE),
    (lambda: agent(seed=1234), r"seed must be a positive integer of at least 96 bits.*secrets.randbits\(128\)"),
    (lambda: agent(seed=-SEED), "seed must be a positive integer"),
    (lambda: agent(seed=2.0**100), "seed must be an integer, got float"),
    (lambda: agent(cells=("Alpha", "Middle")), r"labels that are no answers of the query: \('Alpha', 'Middle'\); answers are"),
    (lambda: agent(cells=[]), "cells must name one or more different cells"),
    (lambda: agent(cells=[("Alpha", "Low"), "county=Alpha, education=Low"]), "one or more different cells"),
    (lambda: agent(description={"mechanism": "other", "invariants": {"parts": []}}), "unknown mechanism 'other'"),
    (lambda: agent(description=ON_COUNTIES.describe()), "must be on the cells; .* adds it to other answers: 'county=Alpha'"),
    (lambda: assemble(REAL.describe(), pieces_of(REAL)), "mechanism must be a mechanism of this package, got dict"),
    (lambda: assemble(ON_COUNTIES, pieces_of(REAL)), "adds it to other answers"),
    (lambda: piece(values=[float("nan")]), "values of a piece must be finite, but county=Alpha, education=Low is nan"),
    (lambda: piece(values=["3"]), "value of county=Alpha, education=Low must be an int or a float, got '3'"),
    (lambda: piece(values=[1, 2]), "one value a cell, got 2 for 1 cells"),
    (lambda: piece(round_number=-1), "round_number must be an integer of at least 0"),
)  # fmt: skip

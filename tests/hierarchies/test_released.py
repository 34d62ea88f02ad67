import numpy as np

import bayesdp as bdp
from bayesdp.hierarchies.released import target_of

LABELS = {"tract": ["a", "b"], "age": ["y", "o"]}


def test_every_measurement_is_a_term_with_its_scales_and_what_was_not_published():
    release = bdp.Release.from_published(
        LABELS,
        [
            bdp.Measured(
                bdp.Identity(LABELS),
                [[1.5, np.nan], [0, 2]],
                bdp.noise.Gaussian([[1.0, 2.0], [3.0, 4.0]]),
                unmeasured=["tract=a, age=o"],
            ),
            bdp.Measured(bdp.Margins(LABELS, ["age"]), [3, -1], bdp.noise.DiscreteGaussian(0.5)),
        ],
        [bdp.Exact(bdp.Margins(LABELS, ["tract"]), [4, 2])],
    )
    target = target_of(release, "poisson")
    cells, ages = target.terms
    assert target.fiber is release.fiber
    assert target.family == "poisson"
    assert cells.measured.tolist() == [True, False, True, True]
    assert cells.scale.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert cells.values[cells.measured].tolist() == [1.5, 0.0, 2.0]
    assert ages.scale.tolist() == [0.5, 0.5]
    assert ages.values.tolist() == [3.0, -1.0]
    assert ages.query == bdp.Margins(LABELS, ["age"])

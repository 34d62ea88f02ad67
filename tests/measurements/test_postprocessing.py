from __future__ import annotations

import pytest

from bayesdp.datasets.census_files import POST_PROCESSED
from bayesdp.measurements import Measured
from bayesdp.measurements.parts import KINDS, refused
from bayesdp.noise import DiscreteGaussian
from bayesdp.queries import Totals


@pytest.mark.parametrize(
    ("stated", "kind"),
    [
        ("topdown", "topdown"),
        (POST_PROCESSED, "topdown"),
        ("made consistent", "consistent"),
        ("Consistency by least squares", "consistent"),
        ("nonnegative", "nonnegative"),
        ("clipped at zero", "clipped"),
        ("rounded to 5", "rounded"),
        ("swapped", "swapped"),
        ("percentages of noisy counts, rounded", "ratio"),
    ],
)
def test_each_kind_has_its_reason_and_its_way_out(stated, kind):
    reason, way_out = KINDS[kind]
    with pytest.raises(ValueError, match="no longer follow the noise law 'discrete-gaussian'") as caught:
        Measured(Totals({"county": ["Alpha", "Beta"]}), 5, DiscreteGaussian(sigma=2.0), postprocessing=stated)
    assert reason in str(caught.value)
    assert way_out in str(caught.value)


def test_other_words_get_the_general_advice():
    assert "a noise law of your own that includes it" in refused("smoothed", "laplace")


def test_words_do_not_lead_astray():
    assert KINDS["nonnegative"][0] in refused("no negative numbers", "laplace")
    assert "\n" not in refused("a\nb", "laplace")

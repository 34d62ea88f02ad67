"""Files of exact margins."""

import pytest

from bayesdp import Exact, Margins, Totals
from bayesdp.tables import read_margins

TABLE = {"county": ["Alpha", "Beta", "Gamma"], "region": ("county", ["N", "S", "N"]), "education": ["Low", "High"]}


@pytest.fixture
def read(tmp_path):
    def run(text, frame=TABLE, **kwargs):
        (tmp_path / "margins.csv").write_text(text)
        return read_margins(tmp_path / "margins.csv", frame, **kwargs)

    return run


def test_both_margins_a_single_one_group_totals_and_the_grand_total(read):
    rows, columns = read("county,education,total\nGamma,,10\nAlpha,,20\nBeta,*,30\n,High,22\n*,Low,38\n")
    assert rows == Exact(Margins(TABLE, ["county"]), [20, 30, 10])
    assert columns == Exact(Margins(TABLE, ["education"]), [38, 22])
    assert read("education,people\nLow,38\nHigh,22\n") == [Exact(Margins(TABLE, ["education"]), [38, 22])]
    assert read("region,count\nS,30\nN,30\n") == [Exact(Totals(TABLE, "region"), [30, 30])]
    assert read("year,total\n2000,5\n1990,7\n", {"year": [1990, 2000]})[0].values.tolist() == [7, 5]
    assert read("total\n60\n") == [Exact(Totals(TABLE), 60)]
    mixed = read("education,region,total\nLow,N,1\nLow,S,2\nHigh,N,3\nHigh,S,4\n,,10\n")
    assert mixed == [Exact(Margins(TABLE, ["region", "education"]), [[1, 3], [2, 4]]), Exact(Totals(TABLE), 10)]


WRONG = [
    ("kind,total\na,1\n", r"labels of 'kind' differ only by type, are empty or stand for the sum", {"kind": ["a", "*"]}),
    ("county,total\nAlpha,1\nBeta,2\n", r"the margin by 'county' is not complete, 'county=Gamma' missing"),
    ("county,total\nAlpha,1\nAlpha,2\n", r"line 3: county=Alpha is there already, in line 2"),
    ("county,total\nOmega,1\n", r"line 2, column 'county': 'Omega' is no label of 'county'; labels are 'Alpha', 'Beta'"),
    ("age,total\n5,1\n", r"the column 'age' is neither a dimension nor a group label.*'county', 'education', 'reg"),
    ("county,region,total\nBeta,N,1\n", r"line 2, column 'region': region of county=Beta is 'S', got 'N'"),
    ("county,total\nAlpha,1\nBeta,2.5\nGamma,3\n", r"margins\.csv: values must hold whole numbers, but county=Beta"),
    ("county,total\nAlpha,1\nBeta,-2\nGamma,3\n", r"no nonnegative integer table satisfies the exact values: county=Beta = -2"),
    ("county,total\nAlpha,1\nBeta,x\nGamma,3\n", r"line 3, column 'total': 'x' at county=Beta is not a number"),
    ("county,total\nAlpha,1\nBeta,\nGamma,3\n", r"line 3, column 'total': county=Beta has no value"),
    ("total\n1\n2\n", r"line 3: the grand total is there already, in line 2"),
    ("county,total\n", "no line below the header"),
]  # fmt: skip


def test_what_is_wrong_is_named(read):
    for text, message, *frame in WRONG:
        with pytest.raises(ValueError, match=message) as caught:
            read(text, *frame)
        assert frame or "margins.csv" in str(caught.value)

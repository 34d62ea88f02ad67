"""How text of others is shown, for every character there is, and that nothing is lost in CSV files."""

from __future__ import annotations

import csv
import io
import json
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesdp._text import aligned, csv_label, json_escaped, label_of_csv, printable, printable_lines, width
from tests.nasty import COMPUTED, FOREIGN, LABELS, OBEYED, obeyed

TEXTS = st.text(st.one_of(st.characters(), st.sampled_from("=+-@'\\\"\n\r\t,;\x1b\u202e\ud800ntxuU0123abc")))
"""With surrogates, and with more of what matters."""


class TestPrintable:
    def test_every_character(self):
        # All of the first planes' letters and signs, every seventh of the rest, and the invisible tags.
        for code in (
            *range(0x3400),
            *range(0x3400, sys.maxunicode + 1, 7),
            *range(0xD7F0, 0xE010),
            *range(0xE0000, 0xE0080),
        ):
            own = chr(code)
            shown = printable(own)
            category = unicodedata.category(own)
            if category in ("Cc", "Cf", "Cs", "Cn", "Zl", "Zp"):
                assert shown.isascii(), hex(code)
                assert shown.isprintable(), hex(code)
                assert shown == repr(own)[1:-1], hex(code)  # as Python writes it
            else:
                assert shown in (own, f"\\u{code:04x}"), hex(code)

    @pytest.mark.parametrize("label", OBEYED)
    def test_what_a_terminal_obeys_is_escaped(self, label):
        assert obeyed(label, "")
        assert not obeyed(printable(label), "")
        assert len(printable(label).splitlines()) == 1

    @pytest.mark.parametrize("label", FOREIGN)
    def test_letters_of_all_scripts_stay(self, label):
        assert printable(label) == label

    @given(TEXTS)
    def test_twice_is_once(self, text):
        assert printable(printable(text)) == printable(text)
        assert printable_lines(printable_lines(text)) == printable_lines(text)

    @given(TEXTS)
    def test_lines_are_those_of_the_text(self, text):
        assert printable_lines(text).split("\n") == [printable_lines(own) for own in text.split("\n")]
        assert not obeyed(printable_lines(text), "\n\t")

    def test_values_of_other_types(self):
        assert [printable(own) for own in (3, 2.5, None)] == ["3", "2.5", "None"]


class TestJson:
    @given(st.recursive(TEXTS, lambda own: st.lists(own) | st.dictionaries(TEXTS, own), max_leaves=5))
    def test_the_same_data_without_what_a_terminal_obeys(self, data):
        for indent in (None, 1):
            text = json_escaped(json.dumps(data, ensure_ascii=False, indent=indent))
            assert json.loads(text) == data
            assert not obeyed(text)


class TestCsv:
    @given(TEXTS)
    def test_nothing_is_lost(self, text):
        assert label_of_csv(csv_label(text)) == text

    @given(st.lists(TEXTS, min_size=1))
    def test_through_the_csv_module(self, texts):
        file = io.StringIO()
        csv.writer(file, lineterminator="\n").writerow([csv_label(text) for text in texts])
        assert file.getvalue().count("\n") == 1
        [row] = csv.reader(io.StringIO(file.getvalue()))
        assert [label_of_csv(cell) for cell in row] == texts
        assert not obeyed(file.getvalue())

    @pytest.mark.parametrize("label", COMPUTED[:-1])
    def test_formulas_are_text(self, label):
        assert csv_label(label).startswith("'")

    @pytest.mark.parametrize("prefix", ["=", "+", "-", "@", "\t=", "\r=", " =", "\uff1d", "\uff0b", "\uff0d", "\uff20"])
    def test_whatever_comes_after(self, prefix):
        assert csv_label(f"{prefix}cmd|' /C calc'!A0")[0] == "'"

    def test_numbers_and_most_labels_stay(self):
        assert [csv_label(own) for own in (-5, -2.5, 1990)] == ["-5", "-2.5", "1990"]
        assert [csv_label(own) for own in FOREIGN] == FOREIGN
        assert csv_label("a=b-c") == "a=b-c"

    @pytest.mark.parametrize("cell", ["'\\", "'\\q", "'\\x1", "'a\\u12"])
    def test_a_cell_that_was_not_written_so(self, cell):
        with pytest.raises(ValueError, match="begins no escape"):
            label_of_csv(cell)

    def test_labels_that_differ_stay_different(self):
        assert len({csv_label(label) for label in LABELS}) == len(LABELS)


class TestWidth:
    @pytest.mark.parametrize(
        ("text", "columns"), [("Beta", 4), ("東京", 4), ("ｶﾞ", 2), ("e\u0301", 1), ("القاهرة", 7), ("\uff21", 2)]
    )
    def test_columns(self, text, columns):
        assert width(text) == columns
        assert width(aligned(text, 10)) == width(aligned(text, 10, right=True)) == 10
        assert aligned(text, 1) == text

"""Small functions that many others rely on: counts, numbers as text, ids, labels, names of columns."""

import numpy as np
import polars as pl
import pytest

from tdlg.io.columns import choose_features, usual_at
from tdlg.tables.features import as_categories
from tdlg.tables.ids import alike, id_key
from tdlg.tables.labels import LabelRule, filled_label_ticks, label_ticks, without_words
from tdlg.tables.rows import Sample, quotas
from tdlg.tables.text import count, numbers, numbers_with_comma, unread_number
from tdlg.tables.times import as_times_or_missing


def listed(series):
    return None if series is None else series.to_list()


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([count(1, "node"), count(2000, "category"), count(2, "class")], ["1 node", "2,000 categories", "2 classes"]),
        (listed(numbers(pl.Series(["1", "NA", "3"]))), [1, None, 3]),
        (numbers(pl.Series(["1", "x"])), None),
        (listed(numbers_with_comma(pl.Series(["52,98", "1.234,5", "NA", "7"]))), [52.98, 1234.5, None, 7.0]),
        (numbers_with_comma(pl.Series(["3,200", "1,100"])), None),  # a comma between thousands?
        (
            [unread_number(words) for words in (["3,20", "1"], ["1,234.50"], ["10,5", "rent"])],
            ["3,20", "1,234.50", None],
        ),
        (listed(as_categories([5411, None, 5812], "mcc")), ["5411", None, "5812"]),
        ([id_key(one) for one in (7, 7.0, "7", b"7", "007", "7.0", 1.5)], [7, 7, 7, 7, "007", "7.0", "1.5"]),
        ([alike({"7": 1}, 7.0), alike({7: 1}, "7"), alike({7: 1}, "007")], [1, 1, None]),
        (without_words(np.array(["a", "NA", "?"], object), ["?"]).tolist(), ["a", None, None]),
        (without_words(np.array([0, 1, 2]), [2])[:2].tolist(), [0.0, 1.0]),
        (label_ticks(np.array([0, 5]), None, [3, 9]).tolist(), [3, 9]),
        (label_ticks(np.array([0, 5]), None, label_delay=2).tolist(), [2, 7]),
        (label_ticks(np.array([0, 5]), None), None),
        (filled_label_ticks(np.array([3.0, np.nan]), np.array([True, False])).tolist(), [3.0, np.finfo(float).max]),
        (LabelRule("> 3").read(np.array([1.0, 5.0]))[0].tolist(), [0.0, 1.0]),
        (LabelRule("fraud", missing=("?",)).read(np.array(["fraud", "ok", "?"], object))[1], "fraud"),
        ([LabelRule(column="fraud").named(), LabelRule(">3", column="stars").named(1)], ["fraud", "(stars > 3)"]),
        (quotas(np.array([98, 2]), 10).tolist(), [8.0, 2.0]),
        (Sample(2, shares=(1.0, 1.0)).rows(np.array([1, 2, 3, 4]), np.array([0, 1, -1, 0]), seed=0).tolist(), [1, 3]),
        ([part.tolist() for part in as_times_or_missing(["1970-01-02", ""], "x")[::2]], [[86400, 0], [False, True]]),
        ([usual_at(["bookedAt", "payer_id", "Merchant ID"], "dst"), usual_at(["card_no", "ip"], "src")], [[2], [0]]),
        (
            choose_features({0: [5.0, 7.5], 1: ["2020-01-01", None]}, ["amount", "booked"]),
            ([0], {1: "the same in every row"}),
        ),
    ],
)
def test_small_words(found, expected):
    assert found == expected

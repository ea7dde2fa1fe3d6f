"""Which columns are features by default, and why others are not."""

import numpy as np
import polars as pl
import pytest

from tdlg import from_frame, read_edges
from tdlg.exceptions import TdlgWarning
from tdlg.io.columns import choose_features, revealing

N = 400
ROLES = {"src": "payer", "dst": "shop", "time": "when"}


def table(**more):
    rng = np.random.default_rng(0)
    columns = {
        "payer": [f"p{k}" for k in rng.integers(30, size=N)],
        "shop": [f"s{k}" for k in rng.integers(9, size=N)],
        "when": np.arange(N),
        "fraud": rng.integers(2, size=N),
        "amount": rng.lognormal(size=N),
        "channel": rng.choice(["web", "pos"], N),
    }
    return pl.DataFrame({**columns, **more})


@pytest.mark.parametrize(
    ("column", "why"),
    [
        (np.arange(N), "an id"),
        (np.full(N, 7), "the same in every row"),
        (["EUR"] * N, "the same in every row"),
        ([None] * N, "empty"),
        ([f"2024-01-{1 + k % 28:02}" for k in range(N)], "dates"),
        (np.arange(N).astype("datetime64[D]"), "dates"),
        ([f"note {k}" for k in range(N)], "different in every row"),
        ([f"note {k % 150}" for k in range(N)], "text with 150 different values"),
        ([[k] for k in range(N)], "neither numbers nor text"),
        (np.arange(N) % 2 == 0, None),
        (np.arange(N) % 17, None),
        (np.arange(N)[::-1] * 1.5, None),
        ([f"kind {k % 20}" for k in range(N)], None),
    ],
)
def test_reasons(column, why):
    chosen = choose_features({0: pl.Series("more", column)}, ["more"])
    assert chosen == (([], {0: why}) if why else ([0], {}))


def test_ids_by_name():
    codes = pl.Series(np.arange(N) % 17)
    assert choose_features({0: codes, 1: codes}, ["merchant_id", "mcc"]) == ([1], {0: "an id"})


@pytest.mark.parametrize(
    ("name", "is_left_out"),
    [
        *(
            (name, True)
            for name in ("label", "Label", "labels", "detailed-label", "fraudLabel", "is_fraud", "isFraud", "fraud")
        ),
        *(
            (name, True)
            for name in ("Class", "target", "y", "attack", "attack_cat", "Attack Type", "is attack", "outlier")
        ),
        *(
            (name, False)
            for name in ("amount", "x", "class_size", "fraud_score", "labelled_at", "targets_hit", "key", "family")
        ),
    ],
)
def test_columns_named_like_labels(name, is_left_out):
    columns = {0: pl.Series("", np.arange(N) % 2 == 0)}
    why = {0: "may be a label; --features all, or name it, to use it"}
    assert choose_features(columns, [name], without_labels=True) == (([], why) if is_left_out else ([0], {}))
    assert choose_features(columns, [name]) == ([0], {})


class TestRevealing:
    label = np.repeat([0.0, 1.0], [300, 100])
    known = np.ones(400, bool)

    def test_separating(self):
        assert "tells 0.0 from all other labels" in revealing(self.label * 5 + 1, self.label, self.known)
        assert revealing(-self.label, self.label, self.known) is not None

    def test_not_quite(self):
        values = self.label.copy()
        values[:20] = 1.0
        assert revealing(values, self.label, self.known) is None

    def test_too_few_to_tell(self):
        few = np.r_[0:19, 300:400]
        assert revealing(self.label[few], self.label[few], self.known[few]) is None

    def test_known_only_where_the_label_is(self):
        known = np.arange(400) % 3 > 0
        values = np.where(known, np.arange(400) % 7, np.nan)
        assert "known only where the label is" in revealing(values, self.label, known)
        assert revealing(np.arange(400) % 7.0, self.label, known) is None

    def test_hidden_labels_have_no_influence(self):
        known = np.arange(400) % 2 == 0
        hidden = np.where(known, np.arange(400) % 7, self.label * 100.0)
        assert revealing(hidden, self.label, known) is None


class TestReaders:
    def test_features_by_default(self):
        edges = from_frame(table(payment_id=np.arange(N)), **ROLES, label="fraud")
        assert edges.feature_names == ("amount", "channel")
        assert from_frame(table(), **ROLES, label="fraud", features=[]).feature_names == ()
        assert from_frame(table(), **ROLES, label="fraud", features="amount").feature_names == ("amount",)

    def test_files_do_the_same(self, tmp_path):
        table().write_csv(tmp_path / "table.csv")
        table().write_parquet(tmp_path / "table.parquet")
        for name in ("table.csv", "table.parquet"):
            assert read_edges(tmp_path / name, **ROLES, label="fraud").feature_names == ("amount", "channel")

    def test_categories_beside_chosen_ones(self):
        edges = from_frame(table(mcc=np.arange(N) % 30), **ROLES, label="fraud", categories="mcc")
        assert edges.feature_names == ("amount", "channel", "mcc")
        assert "mcc" in edges.feature_categories

    def test_a_column_that_gives_the_label_away(self):
        given = table().with_columns(chargeback=pl.col("fraud") * 2)
        with pytest.warns(TdlgWarning, match="'chargeback' is not used as a feature: it tells"):
            edges = from_frame(given, **ROLES, label="fraud")
        assert edges.feature_names == ("amount", "channel")
        named = ["amount", "chargeback"]
        assert from_frame(given, **ROLES, label="fraud", features=named).feature_names == tuple(named)


class TestTwoTypes:
    def test_no_id_on_both_sides(self):
        assert from_frame(table(), **ROLES).bipartite
        assert not from_frame(table(), **ROLES, bipartite=False).bipartite

    def test_an_id_on_both_sides(self):
        both = table().with_columns(shop=pl.when(pl.col("when") == 3).then(pl.lit("p1")).otherwise("shop"))
        assert not from_frame(both, **ROLES).bipartite

    def test_too_few_rows_to_tell(self):
        assert not from_frame(table()[:99], **ROLES).bipartite

import re

import numpy as np
import pytest

from plans import two_end_columns, two_end_names
from tdlg import PropagationFeatures, TemporalEdges
from tdlg.explain.sentences import MANY, PARTNERS, Words
from tdlg.propagate.features import gather_evidence

OPINIONS = [  # bob and cat agree with ann about x, y and z, dan disagrees; only bob, cat and dan know the shop
    ("ann", "x", "fraud"),
    ("ann", "y", "fine"),
    ("ann", "z", "fraud"),
    ("bob", "x", "fraud"),
    ("bob", "y", "fine"),
    ("cat", "x", "fraud"),
    ("cat", "z", "fraud"),
    ("dan", "x", "fine"),
    ("dan", "z", "fine"),
    ("bob", "shop", "fraud"),
    ("cat", "shop", "fraud"),
    ("dan", "shop", "fine"),
    ("ann", "shop", None),
]


def words_for(edges, past_only=False, **options):
    features = PropagationFeatures(past_only=past_only, **options).fit(edges)
    query = gather_evidence(features, edges)
    return Words(features, edges, query.evidence, query.at)


def opinions(rows=OPINIONS, **options):
    src, dst, label = zip(*rows, strict=True)
    return TemporalEdges(src, dst, range(len(rows)), label=list(label), bipartite=True, **options)


class TestAgreement:
    @pytest.mark.parametrize("past_only", [False, True])
    def test_sources_that_agree(self, past_only):
        sentence, behind = words_for(opinions(), past_only).agreement(12, "src", 1, raises=True)
        told = "2 of the 2 labelled interactions to 'shop' from sources that agree with 'ann' about other destinations"
        assert sentence == f"{told} were fraud"
        assert sorted(behind) == [9, 10]

    def test_destinations_that_are_labelled_alike(self):
        sentence, behind = words_for(opinions()).agreement(12, "dst", 1, raises=True)
        assert sentence == (
            "2 of the 2 labelled interactions from 'ann' to destinations that other sources label like 'shop' were fraud"
        )
        assert sorted(behind) == [0, 2]

    def test_sources_that_disagree(self):
        rows = [row for row in OPINIONS if row[:2] not in (("bob", "shop"), ("cat", "shop"))]
        for raises in (True, False):
            sentence, behind = words_for(opinions(rows)).agreement(10, "src", 1, raises)
            told = "1 labelled interaction to 'shop' from sources that disagree with 'ann' about other destinations"
            assert sentence == told
            assert behind == [9]

    def test_nobody(self):
        rows = [("ann", "x", "fraud"), ("bob", "shop", "fine"), ("ann", "shop", None)]
        told = "no labelled interaction to 'shop' from sources that agree with 'ann' about other destinations"
        assert words_for(opinions(rows)).agreement(2, "src", 1, raises=True) == (told, [])
        assert words_for(opinions(rows), past_only=True).agreement(2, "src", 1, raises=False) == (f"{told} yet", [])

    def test_numbers(self):
        rows = [(src, dst, {"fraud": 1.5, "fine": 4.0, None: np.nan}[label]) for src, dst, label in OPINIONS]
        sentence, _ = words_for(opinions(rows)).agreement(12, "src", 0, raises=False)
        told = "the 2 labelled interactions to 'shop' from sources that agree with 'ann' about other destinations"
        assert re.fullmatch(rf"{told} had 1\.5 on average \(all: 2\.\d+\)", sentence)

    @pytest.mark.parametrize("past_only", [False, True])
    @pytest.mark.parametrize("n_classes", [2, 3])
    def test_similarities_are_those_of_the_column(self, past_only, n_classes):
        edges = small(n_classes)
        words = words_for(edges, past_only)
        evidence, widths = words._evidence, words._features.plan_.two_end_widths(None)
        at = np.arange(len(edges))
        columns = two_end_columns(edges, at, evidence.targets, evidence.labelled, widths, past_only=past_only)
        classes = words._features.classes_ if n_classes > 2 else ()
        names = [column.name for column in two_end_names(classes, bipartite=False)]
        code = n_classes - 1
        for match, side in (("src", "dst"), ("dst", "src")):
            expected = columns[:, names.index(f"{match}:agreement-sum" + f"[{code}.0]" * (n_classes > 2))]
            for i in range(0, len(edges), 5):
                others, similarity, _ = words._similar(i, match, code)
                left = words._left[side][others, words._column(code)] if len(others) else np.empty(0)
                assert similarity @ left == pytest.approx(expected[i], abs=2e-9)


def small(n_classes=2, n=120, n_nodes=9, seed=0):
    """Fewer than 32 labels per node; ties, self-loops and pairs that repeat."""
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, n_nodes, (2, n))
    label = np.where(rng.random(n) < 0.8, rng.integers(0, n_classes, n), np.nan)
    return TemporalEdges(src, dst, rng.integers(0, 40, n), label=label)


class TestPartners:
    @pytest.mark.parametrize(
        ("match", "told", "behind"),
        [
            (
                "dst",
                "3 of the 6 labelled interactions from other sources of 'shop' to other destinations were fraud",
                6,
            ),
            (
                "src",
                "3 of the 6 labelled interactions to other destinations of 'ann' from other sources were fraud",
                6,
            ),
            ("src-dst", "no labelled interaction from sources of 'ann' to other destinations", 0),
            ("dst-src", "no labelled interaction to destinations of 'shop' from other sources", 0),
        ],
    )
    def test_sentences(self, match, told, behind):
        sentence, positions = words_for(opinions()).partners(12, match, 1, raises=False)
        assert sentence == told + " (58% of all)" * bool(behind)
        if positions:
            plain, _ = words_for(opinions()).partners(12, match, 1, raises=True)
            assert plain == told.partition(" of the ")[2].partition(" were ")[0]
        assert len(positions) == min(behind, 5)
        assert set(positions) <= set(range(3, 9))

    def test_the_past_alone(self):
        sentence, positions = words_for(opinions(), past_only=True).partners(0, "dst", 1, raises=True)
        assert sentence == "no labelled interaction from other sources of 'x' to other destinations yet"
        assert not positions

    @pytest.mark.parametrize("past_only", [False, True])
    @pytest.mark.parametrize("match", ["src", "dst", "src-dst", "dst-src"])
    def test_counts_are_those_of_plain_loops(self, past_only, match):
        edges = small()
        words = words_for(edges, past_only)
        mine, theirs = {"src": (0, 0), "dst": (1, 1), "src-dst": (0, 1), "dst-src": (1, 0)}[match]
        ends, time = list(zip(edges.src.tolist(), edges.dst.tolist(), strict=True)), edges.ticks
        for i in range(0, len(edges), 7):
            counts = [j for j in range(len(edges)) if j != i and (time[j] < time[i] or not past_only)]
            counts = [j for j in counts if ends[j][0] != ends[j][1]]
            near = [j for j in counts if ends[j][theirs] == ends[i][mine] and ends[j][1 - theirs] != ends[i][1 - mine]]
            near = sorted(near, key=lambda j: (abs(time[j] - time[i]), j))[:PARTNERS]
            partners = {ends[j][1 - theirs] for j in near}
            far = [j for j in counts if edges.labelled[j] and ends[j][1 - theirs] in partners]
            far = [j for j in far if ends[j][theirs] != ends[i][mine]]
            far = sorted(far, key=lambda j: (abs(time[j] - time[i]), j))[:MANY]
            rate, base = (
                edges.label[some].mean() if len(some) else 0 for some in (far, np.flatnonzero(edges.labelled))
            )
            sentence, behind = words.partners(i, match, 1, raises=bool(rate > base))
            assert set(behind) <= set(far)
            assert len(behind) == min(5, len(far))
            if len(far) > 1 and rate == base:
                assert re.match(r"(\d+|more than 50) labelled interactions ", sentence)
            elif len(far) > 1:
                assert sentence.startswith(f"{int((edges.label[far] == 1).sum()) or 'none'} of the ")
                assert f" {len(far)} labelled interactions " in sentence


def test_late_labels_and_copies():
    edges = opinions()
    features = PropagationFeatures(past_only=True).fit(edges)
    query = gather_evidence(features, edges)
    late = edges.ticks.copy()
    late[9] = 12  # of bob and the shop, known when it is too late
    words = Words(features, edges, query.evidence._replace(label_ticks=late), query.at)
    sentence, behind = words.agreement(12, "src", 1, raises=True)
    assert sentence.startswith("the only labelled interaction to 'shop' from sources that agree with 'ann'")
    assert behind == [10]
    held = edges[[*range(13), 9, 10]]
    assert words_for(held).agreement(12, "src", 1, True) == words_for(edges).agreement(12, "src", 1, True)

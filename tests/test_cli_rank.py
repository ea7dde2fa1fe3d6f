"""The commands rank and links: what they print, what they say about the method, and saved models."""

import sys

import numpy as np
import pytest

from tdlg import LinkPredictor, LinkRanker, load_model, read_edges
from tdlg.io import read_table
from tdlg.rank import fit as ranking_fit
from test_cli import ok, refused, rows_of


@pytest.fixture(scope="module", autouse=True)
def quick():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranking_fit, "SAMPLED", dict.fromkeys((True, False), (500, 50)))
        patch.setattr(ranking_fit, "CUTS", 2)
        patch.setattr(ranking_fit, "ROWS_PER_CUT", 500)
        patch.setattr("tdlg.models.links.LinkModel.learnt", lambda *_: None)
        patch.setattr(ranking_fit, "_best_number", lambda trees, *_: trees.n_trees)
        train = ranking_fit._trees
        patch.setattr(ranking_fit, "_trees", lambda *given, **more: train(*given[:3], 5, given[4], **more))
        yield


@pytest.fixture(scope="module")
def letters(tmp_path_factory):
    """700 letters, in a table with other names of columns."""
    rng = np.random.default_rng(0)
    sender = rng.integers(0, 20, 700)
    receiver = (sender + rng.integers(1, 4, 700)) % 20
    lines = [f"p{a},p{b},2024-01-{1 + k // 25:02d}" for k, (a, b) in enumerate(zip(sender, receiver, strict=True))]
    path = tmp_path_factory.mktemp("letters") / "letters.csv"
    path.write_text("\n".join(["sender,receiver,date", *lines]))
    return path


def test_the_next_partner(letters):
    result = ok("rank", letters, "--src", "sender", "--dst", "receiver", "--time", "date", "--node", "p3", "--top", 4)
    got = rows_of(result.stdout)
    assert [list(row) for row in got] == [["sender", "receiver", "date", "score", "seen", "reason"]] * 4
    assert {row["sender"] for row in got} == {"p3"}
    assert {row["receiver"] for row in got[:3]} == {"p4", "p5", "p6"}
    assert "ranked by boosted trees, which learnt from 500 rows" in result.stderr
    ranker = LinkRanker(random_state=0).fit(read_edges(letters))
    assert ranker.rank("p3")["dst"].to_list()[:4] == [row["receiver"] for row in got]


def test_several_sources_at_a_time(letters):
    result = ok(
        "rank", letters, "--node", "p3", "--node", "me", "--at", "2024-01-09", "--top", 2, "--method", "recency"
    )
    got = rows_of(result.stdout)
    assert [row["sender"] for row in got] == ["p3", "p3", "me", "me"]
    assert list(got[0]) == ["sender", "receiver", "date", "recency_score", "seen", "reason"]
    assert {row["date"][:10] for row in got} == {"2024-01-09"}
    assert [row["seen"] for row in got] == ["true", "true", "false", "false"]
    assert "ranked by the recency rule" in result.stderr
    assert "'me' never occurred" in result.stderr


@pytest.mark.parametrize("command", [["rank", "--node", "p3"], ["links"]])
def test_only_what_happened_strictly_before_counts(letters, tmp_path, command):
    lines = letters.read_text().splitlines()
    early = [line for line in lines[1:] if line.split(",")[-1] < "2024-01-09"]
    assert 0 < len(early) < sum(line.split(",")[-1] <= "2024-01-09" for line in lines[1:])
    (path := tmp_path / "early.csv").write_text("\n".join([lines[0], *early]))
    name, *more = command
    whole, cut = (ok(name, file, *more, "--at", "2024-01-09").stdout for file in (letters, path))
    assert whole == cut


def test_a_saved_model_knows_later_rows(letters, tmp_path):
    lines = letters.read_text().splitlines()
    (early := tmp_path / "early.csv").write_text("\n".join(lines[:651]))
    ok("rank", early, "--node", "p3", "--save", tmp_path / "m")
    result = ok("rank", letters, "--node", "p3", "--model", tmp_path / "m", "--top", 5)
    assert "the model knows 650 rows; 50 later ones are added" in result.stderr
    model = load_model(tmp_path / "m")
    assert model.edges_.n_edges == 650
    expected = model.update(read_edges(letters)[650:]).rank("p3")
    assert [row["receiver"] for row in rows_of(result.stdout)] == expected["dst"].to_list()[:5]
    assert list(rows_of(ok("score", tmp_path / "m", early).stdout)[0])[-1] == "score"
    assert "Leave out one of the two" in refused(
        "rank", letters, "--node", "p3", "--model", tmp_path / "m", "--method", "trees", code=2
    )


def test_the_columns_are_found_by_the_names_that_the_model_knows(letters, tmp_path):
    odd = tmp_path / "odd.csv"
    names, _, rows = letters.read_text().partition("\n")
    odd.write_text(",".join(f"column {k}" for k in range(names.count(",") + 1)) + "\n" + rows)
    at = {role: names.split(",").index(name) for role, name in read_table(letters).names.items()}
    columns = [part for role, k in at.items() for part in (f"--{role}", f"column {k}")]
    said = ok("rank", odd, *columns, "--node", "p3", "--save", tmp_path / "m").stdout
    assert ok("rank", odd, "--node", "p3", "--model", tmp_path / "m").stdout == said


def test_rows_at_the_last_time_of_the_model(letters, tmp_path):
    """The first 640 rows end within a day; the other rows of that day are added."""
    lines = letters.read_text().splitlines()
    (early := tmp_path / "early.csv").write_text("\n".join(lines[:641]))
    ok("rank", early, "--node", "p3", "--save", tmp_path / "m", "--method", "recency")
    result = ok("rank", letters, "--node", "p3", "--model", tmp_path / "m", "--top", 30, "--save", tmp_path / "all")
    assert "the model knows 640 rows; 60 later ones are added" in result.stderr
    found = LinkRanker("recency").fit(read_edges(letters)).rank("p3")
    assert [row["receiver"] for row in rows_of(result.stdout)] == found["dst"].to_list()
    assert load_model(tmp_path / "all").edges_.n_edges == 700
    (numbers := tmp_path / "numbers.csv").write_text("src,dst,time\np1,p2,5\n")
    said = refused("rank", numbers, "--node", "p3", "--model", tmp_path / "m")
    assert "times of the table are numbers, and those of the model datetimes" in said
    assert "--time-unit" in said


def test_links_fit_no_more_than_they_need(letters, monkeypatch):
    monkeypatch.setattr("tdlg.models.links.LinkModel.learnt", None)
    assert len(rows_of(ok("links", letters, "--top", 7).stdout)) == 7


def test_without_lightgbm_the_header_says_so(letters, monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    for arguments in (["rank", letters, "--node", "p3"], ["links", letters]):
        result = ok(*arguments)
        assert list(rows_of(result.stdout)[0]) == ["sender", "receiver", "date", "recency_score", "seen", "reason"]
        assert (
            "ranked by the recency rule: LightGBM is not installed (from a clone of tdlg: pip install '.[rank]')"
            in result.stderr
        )
    assert "pip install" in refused("rank", letters, "--node", "p3", "--method", "trees")


def test_links_are_ranked_by_trees(letters, tmp_path):
    result = ok("links", letters, "--top", 7, "--save", tmp_path / "m")
    got = rows_of(result.stdout)
    assert [list(row) for row in got] == [["sender", "receiver", "date", "score", "seen", "reason"]] * 7
    assert "ranked by boosted trees" in result.stderr
    assert [row["receiver"] for row in rows_of(ok("links", letters, "--top", 7).stdout)] == [
        row["receiver"] for row in got
    ]
    assert type(load_model(tmp_path / "m")) is LinkPredictor


def test_what_is_refused(letters, tmp_path):
    assert "--node" in refused("rank", letters, code=2)
    assert "'soon'" in refused("rank", letters, "--node", "p3", "--at", "soon")
    assert "there is no folder" in refused("rank", letters, "--node", "p3", "-o", tmp_path / "no" / "x.csv")
    ok("embed", letters, "--dim", 2, "--save", tmp_path / "e", "-o", tmp_path / "e.csv")
    assert "this is a EdgeEmbedding" in refused("rank", letters, "--node", "p3", "--model", tmp_path / "e")

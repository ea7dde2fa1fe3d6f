"""Data of TGB: dictionaries, and csv files with the nodes numbered as TGB numbers them."""

import numpy as np
import pytest

from tdlg.exceptions import ParameterError, ReadError
from tdlg.io import from_tgb, read_tgb


def test_a_dictionary():
    data = {
        "sources": np.array([0.0, 1.0]),
        "destinations": np.array([2.0, 3.0]),
        "timestamps": np.array([5.0, 7.0]),
        "edge_feat": np.array([[1.0, 2.0], [3.0, 4.0]]),
        "edge_label": np.ones(2),
    }
    edges = from_tgb(data)
    assert (edges.src.tolist(), edges.dst.tolist(), edges.time.tolist()) == ([0, 1], [2, 3], [5, 7])
    assert edges.label is None
    assert edges.features is None
    assert from_tgb(data, features=True).features.tolist() == [[1, 2], [3, 4]]
    for wrong in ({"sources": [1]}, [1, 2]):
        with pytest.raises(ReadError, match="must have 'sources', 'destinations', 'timestamps'"):
            from_tgb(wrong)
    with pytest.raises(ReadError, match="data of TGB: The columns differ in length"):
        from_tgb(data | {"timestamps": [1]})


def test_users_and_items(tmp_path):
    path = tmp_path / "tgbl-wiki_edgelist_v2.csv"
    path.write_text("user_id,item_id,timestamp,state_label,list\n0,0,0.0,0,1.5,2\n2,1,36.0,0,2.5,3\n")
    edges = read_tgb(path)
    assert (edges.src.tolist(), edges.dst.tolist(), edges.time.tolist()) == ([0, 2], [3, 4], [0, 36])


@pytest.mark.parametrize("name", ["coin", "review", "comment", "flight"])
def test_time_first(tmp_path, name):
    path = tmp_path / f"tgbl-{name}_edgelist.csv"
    path.write_text("time,src,dst,weight\n10,0xb,0xa,1.0\n12,0xc,0xb,2.0\n12,0xa,0xd,2.0\n")
    edges = read_tgb(path)
    assert (edges.src.tolist(), edges.dst.tolist(), edges.time.tolist()) == ([0, 2, 1], [1, 0, 3], [10, 12, 12])


def test_days(tmp_path):
    path = tmp_path / "tgbl-flight_edgelist.csv"
    path.write_text("day,src,dst\n2019-01-01,EDDF,KJFK\n2019-01-02,KJFK,EDDF\n")
    assert read_tgb(path).time.tolist() == [1_546_300_800, 1_546_387_200]
    path.write_text("day,src,dst\n2019-01-01,EDDF,KJFK\nyesterday,KJFK,EDDF\n")
    with pytest.raises(ReadError, match=r"column 1 must be numbers or dates\. Row 2 after"):
        read_tgb(path)


def test_ids_of_several_types(tmp_path):
    """Text among numbers, also after many rows of numbers; 7 and 007 are two nodes, as in TGB."""
    path = tmp_path / "tgbl-coin_edgelist.csv"
    path.write_text("day,src,dst\n1,7,8\n1.5,8,0xa\n" + "2,7,8\n" * 12_000 + "3,0xb,007\n")
    edges = read_tgb(path)
    assert edges.src[[0, 1, -1]].tolist() == [0, 1, 3]
    assert edges.dst[[0, 1, -1]].tolist() == [1, 2, 4]
    assert edges.time[[0, 1, -1]].tolist() == [1, 1.5, 3]


def test_what_is_refused(tmp_path):
    path = tmp_path / "edges.csv"
    path.write_text("time,src,dst\n1,2,3\n")
    assert len(read_tgb(path, "tgbl-coin")) == 1
    with pytest.raises(ParameterError, match=r"'edges.csv' does not name a data set.*name=.*wiki"):
        read_tgb(path)
    with pytest.raises(ParameterError, match="no data set 'tgbn-trade'"):
        read_tgb(path, "tgbn-trade")
    with pytest.raises(ReadError, match="no file"):
        read_tgb(tmp_path / "tgbl-coin.csv")
    for text in ("time,src,dst\nnoon,2,3\n", "time,src,dst\n1,,3\n", "time\n1\n"):
        path.write_text(text)
        with pytest.raises(ReadError, match=r"edges.csv: (all cells of the column|this is not)"):
            read_tgb(path, "coin")
    path.write_text("user,item,time\nann,2,3\n")
    with pytest.raises(ReadError, match=r"column 1 must be numbers. Row 1 after"):
        read_tgb(path, "wiki")

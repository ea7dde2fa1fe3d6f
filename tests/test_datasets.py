"""load_dataset and the files behind it: formats, where a file is looked for, sums, unpacking, downloading."""

import gzip
import hashlib
import io
import os
import threading
import zipfile
from dataclasses import FrozenInstanceError, replace
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import polars as pl
import pooch
import pytest

from tdlg import TemporalEdges
from tdlg.datasets import DATASETS, Dataset, dataset_file, describe, fetch, is_available, load_dataset
from tdlg.exceptions import ParameterError, ReadError
from test_import import loaded_by

PAPER = ("bitcoinalpha", "bitcoinotc", "escorts", "wikielect", "epinions")
DAY = 86400


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache, no TDLG_DATA, and no data set whose file may be asked of the real network."""
    folder = tmp_path / "cache"
    monkeypatch.setattr(pooch, "os_cache", lambda name: str(folder / name))
    monkeypatch.delenv("TDLG_DATA", raising=False)
    monkeypatch.setenv("NO_PROXY", "*")
    for name, dataset in DATASETS.items():
        monkeypatch.setitem(DATASETS, name, replace(dataset, address=nowhere(dataset.address)))
    return folder / "tdlg"


def nowhere(address):
    """The same file at a port of this machine where nobody answers."""
    return None if address is None else f"http://127.0.0.1:1/{Path(address).name}"


@pytest.fixture
def data(tmp_path, monkeypatch):
    """The folder that TDLG_DATA names, empty."""
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("TDLG_DATA", str(folder))
    return folder


@pytest.fixture
def known(monkeypatch):
    """Declare that this text is the file of a data set."""

    def known(name, text, **changes):
        total = hashlib.sha256(text.encode()).hexdigest()
        monkeypatch.setitem(DATASETS, name, replace(DATASETS[name], sha256=total, **changes))
        return text.encode()

    return known


def zipped(**members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "."), content)
    return buffer.getvalue()


def rows(edges):
    return list(zip(edges.src.tolist(), edges.dst.tolist(), edges.time.tolist(), strict=True))


def everything_in(folder):
    return sorted(path.name for path in folder.rglob("*"))


def write_handbook(path):
    pl.DataFrame(
        {
            "customer": [596, 4961],
            "terminal": [596, 3412],
            "time": [datetime(2018, 4, 1, 0, 0, 31), datetime(2018, 4, 1, 0, 2, 10)],
            "amount": [57.16, 81.51],
            "fraud": [0, 1],
            "scenario": [0, 2],
        }
    ).write_parquet(path)


SIGNED_ROWS = [(3, 1, 300), (1, 2, 100), (2, 2, 200), (3, 1, 200)]
SIGNED_RATINGS = [1, -1, 0, 1]
SIGNED_BLANKS = "3 1 1 300\n1 2 -1 100\n2 2 0 200\n3 1 1 200\n"
TIMED_ROWS = [(1, 4, 0), (2, 5, 36), (2, 4, 77)]

FORMATS = {
    "bitcoinalpha": SIGNED_BLANKS.replace(" ", ","),
    "bitcoinotc": SIGNED_BLANKS.replace(" ", ","),
    "escorts": "% bip multiweighted\n% src, tgt, class_label, time\n% class_label: −1,0,1\n% 4 3 2\n" + SIGNED_BLANKS,
    "wikielect": SIGNED_BLANKS,
    "epinions": SIGNED_BLANKS,
    "collegemsg": "1 4 0\n2 5 36\n2 4 77\n",
    "fb-forum": "1,4,0\n2,5,36\n2,4,77\n",
    "wikipedia": "1 4 0\n2 5 36\n2 4 77\n",
}
TOPOLOGY = "# Directed graph\n# FromNodeId\tToNodeId\tSign\n0\t1\t-1\n1\t128552\t-1\n2\t1\t1\n"


class TestFormats:
    @pytest.mark.parametrize("name", [name for name in FORMATS if "rating" in DATASETS[name].columns])
    def test_signed(self, name, data, known):
        (data / DATASETS[name].files[0]).write_bytes(known(name, FORMATS[name]))
        edges = load_dataset(name)
        assert rows(edges) == SIGNED_ROWS
        assert edges.label.tolist() == [1, 0, 0, 1]
        assert edges.label.dtype == np.int64
        assert edges.weight is None
        assert not edges.bipartite
        assert edges.n_nodes == 3
        assert load_dataset(name, label="rating").label.tolist() == SIGNED_RATINGS

    @pytest.mark.parametrize("name", [name for name in FORMATS if "rating" not in DATASETS[name].columns])
    def test_without_ratings(self, name, data, known):
        (data / DATASETS[name].files[0]).write_bytes(known(name, FORMATS[name]))
        edges = load_dataset(name)
        assert rows(edges) == TIMED_ROWS
        assert edges.label is None
        assert edges.bipartite == (name != "collegemsg")

    def test_wikipedia_bans(self, data, known):
        (data / "wikipedia-labels.csv").write_bytes(
            known("wikipedia-bans", "u,i,ts,label\n0,3,0,0\n1,4,36,1\n0,4,77,0\n")
        )
        edges = load_dataset("wikipedia-bans")
        assert rows(edges) == [(0, 3, 0), (1, 4, 36), (0, 4, 77)]
        assert edges.label.tolist() == [0, 1, 0]
        assert edges.bipartite

    def test_darpa(self, data, known):
        lines = ["07/31/1998-23:59,-", "07/32/1998-06:00,smurf", "08/01/1998-06:00,-", "07/31/1998-00:00,ipsweep"]
        text = "".join(f"172.016.112.020,192.168.001.0{at},{line}\n" for at, line in enumerate(lines))
        (data / "darpa.csv").write_bytes(known("darpa", text))
        edges = load_dataset("darpa", dates=True)
        minutes = ["1998-07-31T23:59", "1998-08-01T06:00", "1998-08-01T06:00", "1998-07-31T00:00"]
        np.testing.assert_array_equal(edges.time, np.array(minutes, "datetime64[s]"))
        assert load_dataset("darpa").time.tolist() == edges.time.astype("datetime64[s]").astype(int).tolist()
        assert edges.label.tolist() == [0, 1, 0, 1]
        assert edges.src[0] == "172.016.112.020"
        assert not edges.bipartite

    @pytest.mark.parametrize("text", ["a,b,1998-07-31,-\n", "a,b\n", "", "a,b,07/33/1998-06:00,-\n"])
    def test_darpa_of_another_format(self, text, data):
        (data / "darpa.csv").write_text(text)
        with pytest.raises(
            ReadError, match=r"(?s)must have the columns source, destination, minute .* Get the right file"
        ):
            load_dataset("darpa", check=False)

    def test_handbook(self, data):
        write_handbook(data / "handbook.parquet")
        edges = load_dataset("handbook", dates=True, check=False)
        assert edges.time.astype("datetime64[s]").astype(str).tolist() == ["2018-04-01T00:00:31", "2018-04-01T00:02:10"]
        assert load_dataset("handbook", check=False).time.tolist() == [1522540831, 1522540930]
        for one in (edges, load_dataset("handbook", check=False)):
            assert one.src.tolist() == [596, 4961]
            assert one.dst.tolist() == [596, 3412]
            assert one.n_nodes == 4
            assert one.label.tolist() == [0, 1]
            assert one.feature_names == ("amount",)  # and not the scenario
            assert one.features.tolist() == [[57.16], [81.51]]

    def test_times_may_have_fractions(self, data, known):
        (data / "soc-sign-bitcoinotc.csv").write_bytes(
            known("bitcoinotc", "6,2,4,1289241911.72836\n6,5,2,1289241941.5\n")
        )
        assert load_dataset("bitcoinotc").time.tolist() == [1289241911.72836, 1289241941.5]
        dated = load_dataset("bitcoinotc", dates=True).time.astype("datetime64[us]").astype(str).tolist()
        assert dated == ["2010-11-08T18:45:11.728360", "2010-11-08T18:45:41.500000"]

    @pytest.mark.parametrize(
        "text",
        [
            SIGNED_BLANKS.replace(" ", ","),
            SIGNED_BLANKS.replace(" ", "\t"),
            "% sym signed\n% 4 3\n" + SIGNED_BLANKS,
            "% asym\n" + SIGNED_BLANKS.replace("\n", "\r\n"),
        ],
    )
    def test_epinions_in_the_forms_of_its_repository(self, text, data, known):
        (data / "soc-epinions-trust-dir.edges").write_bytes(known("epinions", text))
        assert rows(load_dataset("epinions")) == SIGNED_ROWS
        assert load_dataset("epinions").label.tolist() == [1, 0, 0, 1]

    def test_two_kinds_of_nodes(self, data, known):
        (data / "escorts.edges").write_bytes(known("escorts", "1 1 0 10\n1 2 1 20\n2 1 1 30\n"))
        assert load_dataset("escorts").n_nodes == 2
        bipartite = load_dataset("escorts", bipartite=True)
        assert bipartite.bipartite
        assert bipartite.n_nodes == 4
        (data / "fb-forum.edges").write_bytes(known("fb-forum", "1,1,10\n1,2,20\n"))
        assert load_dataset("fb-forum").n_nodes == 3
        assert load_dataset("fb-forum", bipartite=False).n_nodes == 2

    def test_the_rows_of_both_labels_line_up(self, data, known):
        (data / "escorts.edges").write_bytes(known("escorts", FORMATS["escorts"]))
        edges, rating = load_dataset("escorts"), load_dataset("escorts", label="rating").label
        assert edges.label.tolist() == (rating > 0).astype(int).tolist()

    @pytest.mark.parametrize("text", ["1 2 good 10\n1 2 bad 20\n", "1 2 1 10\n1 2 nan 20\n"])
    def test_ratings_that_are_no_numbers(self, text, data):
        (data / "soc-wiki-elec.edges").write_text(text)
        with pytest.raises(ReadError, match="ratings must be whole numbers"):
            load_dataset("wikielect", check=False)


class TestTimesMadeUp:
    @pytest.fixture(autouse=True)
    def file(self, data, known):
        (data / "soc-sign-epinions.txt").write_bytes(known("epinions-topology", TOPOLOGY))

    def test_edges_and_labels_are_the_files(self):
        edges = load_dataset("epinions-topology", random_state=0)
        assert edges.src.tolist() == [0, 1, 2]
        assert edges.dst.tolist() == [1, 128552, 1]
        assert edges.label.tolist() == [0, 0, 1]
        assert load_dataset("epinions-topology", random_state=0, label="rating").label.tolist() == [-1, -1, 1]

    def test_times_come_from_the_seed(self):
        first, same, other = (load_dataset("epinions-topology", random_state=seed).time.tolist() for seed in (0, 0, 1))
        assert first == same != other

    def test_times_are_evenly_drawn(self, data, known):
        (data / "soc-sign-epinions.txt").write_bytes(known("epinions-topology", "1\t2\t1\n" * 20_000))
        time = load_dataset("epinions-topology", random_state=0).time
        counts, _ = np.histogram(time, 10, (0, 943 * DAY))
        assert counts.sum() == 20_000
        assert abs(counts - 2000).max() < 5 * 2000**0.5

    def test_the_registry_says_so(self):
        assert "NO TIMES" in DATASETS["epinions-topology"].note
        assert DATASETS["epinions-topology"].days is None


@pytest.mark.parametrize("call", [load_dataset, dataset_file, is_available])
@pytest.mark.parametrize("name", ["zzz", None, ["escorts"]])
def test_a_name_that_is_none(call, name):
    with pytest.raises(ParameterError, match="There is no data set"):
        call(name)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("bitcoin-otc", {}, r"no data set 'bitcoin-otc'\. Did you mean 'bitcoinotc'\? .*: bitcoinalpha, "),
        ("escorts", {"label": "sign"}, r"'label' must be one of \('positive', 'rating'\). Got 'sign'"),
        ("collegemsg", {"label": "rating"}, r"'collegemsg' has no ratings.*'bitcoinalpha'"),
        ("epinions-topology", {}, r"has no times: they are synthetic.* Pass random_state="),
        ("epinions", {"random_state": 0}, r"'epinions' has real times. Got 0. Leave out random_state"),
        ("wikipedia", {"dates": True}, "times of 'wikipedia' are not dates.*Leave out dates=True"),
        ("wikipedia-bans", {"dates": True}, "times of 'wikipedia-bans' are not dates"),
        ("epinions-topology", {"dates": True, "random_state": 0}, "times of 'epinions-topology' are not dates"),
    ],
)
def test_arguments_that_do_not_fit(name, options, message):
    with pytest.raises(ParameterError, match=message):
        load_dataset(name, **options)


TEXT = "1 4 0\n2 5 36\n2 4 77\n"
OTHER = "9 9 9\n"


class TestWhereItIsLookedFor:
    def test_the_given_folder_comes_before_the_cache(self, data, cache):
        cache.mkdir(parents=True)
        (cache / "CollegeMsg.txt").write_text(OTHER)
        assert rows(load_dataset("collegemsg", check=False)) == [(9, 9, 9)]
        (data / "CollegeMsg.txt").write_text(TEXT)
        assert rows(load_dataset("collegemsg", check=False)) == TIMED_ROWS
        assert dataset_file("collegemsg", check=False) == data / "CollegeMsg.txt"

    @pytest.mark.parametrize("given", [None, ""])
    def test_the_cache_without_a_given_folder(self, given, cache, known, monkeypatch):
        if given is not None:
            monkeypatch.setenv("TDLG_DATA", given)
        cache.mkdir(parents=True)
        (cache / "CollegeMsg.txt").write_bytes(known("collegemsg", TEXT))
        assert dataset_file("collegemsg") == cache / "CollegeMsg.txt"

    def test_unpacked_comes_before_packed(self, data, cache, known):
        cache.mkdir(parents=True)
        (cache / "CollegeMsg.txt").write_bytes(known("collegemsg", TEXT))
        (data / "CollegeMsg.txt.gz").write_bytes(b"never looked at")
        assert dataset_file("collegemsg") == cache / "CollegeMsg.txt"

    def test_another_name_of_the_file(self, data, known):
        (data / "ia-escorts-dynamic.edges").write_bytes(known("escorts", FORMATS["escorts"]))
        assert rows(load_dataset("escorts")) == SIGNED_ROWS

    def test_a_home_folder(self, tmp_path, monkeypatch, known):
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("USERPROFILE", str(tmp_path))
        monkeypatch.setenv("TDLG_DATA", "~")
        (tmp_path / "CollegeMsg.txt").write_bytes(known("collegemsg", TEXT))
        assert dataset_file("collegemsg") == tmp_path / "CollegeMsg.txt"

    @pytest.mark.parametrize("call", [load_dataset, is_available])
    def test_a_given_folder_that_is_none(self, call, tmp_path, monkeypatch):
        monkeypatch.setenv("TDLG_DATA", str(tmp_path / "dtaa"))
        with pytest.raises(ReadError, match=r"TDLG_DATA must name a folder. Got .*dtaa"):
            call("collegemsg")

    def test_a_folder_of_the_files_name_is_not_the_file(self, data):
        (data / "CollegeMsg.txt").mkdir()
        assert not is_available("collegemsg")

    def test_is_available(self, data, cache, server):
        server.serves("collegemsg", TEXT.encode())
        assert not is_available("collegemsg")
        assert not server.asked
        assert not cache.exists()
        (data / "CollegeMsg.txt.gz").write_bytes(b"not even looked into")
        assert is_available("collegemsg")

    def test_the_two_epinions_are_not_mistaken(self, data):
        (data / "soc-sign-epinions.txt.gz").write_bytes(b"")
        assert is_available("epinions-topology")
        assert not is_available("epinions")


class TestSums:
    def test_a_wrong_file_is_refused_and_shows_both_sums(self, data, known):
        known("collegemsg", TEXT)
        (data / "CollegeMsg.txt").write_text(OTHER)
        with pytest.raises(ReadError) as caught:
            load_dataset("collegemsg")
        message = str(caught.value)
        assert str(data / "CollegeMsg.txt") in message
        assert hashlib.sha256(OTHER.encode()).hexdigest() in message
        assert hashlib.sha256(TEXT.encode()).hexdigest() in message
        assert "Remove it, and it is downloaded again. Or pass check=False" in message

    def test_a_corrupt_cache_is_not_used_and_not_overwritten(self, cache, server):
        server.serves("collegemsg", TEXT.encode())
        cache.mkdir(parents=True)
        (cache / "CollegeMsg.txt").write_text(TEXT[:-1])
        with pytest.raises(ReadError, match="or it is damaged"):
            load_dataset("collegemsg")
        assert not server.asked
        (cache / "CollegeMsg.txt").unlink()
        assert rows(load_dataset("collegemsg")) == TIMED_ROWS

    def test_where_there_is_no_address_the_way_out_is_the_page(self, data):
        (data / "soc-epinions-trust-dir.edges").write_text(SIGNED_BLANKS)
        with pytest.raises(
            ReadError, match=r"get it again from https://networkrepository.com/soc-epinions-trust-dir.php"
        ):
            load_dataset("epinions")
        assert rows(load_dataset("epinions", check=False)) == SIGNED_ROWS


class TestUnpacking:
    PACKED = {  # noqa: RUF012
        "CollegeMsg.txt.gz": gzip.compress(TEXT.encode()),
        "CollegeMsg.zip": zipped(readme__html="<p>Cite.", CollegeMsg__txt=TEXT, other__txt="1 2 3\n"),
    }

    @pytest.mark.parametrize("file", PACKED)
    def test_into_the_cache(self, file, data, cache, known):
        known("collegemsg", TEXT)
        (data / file).write_bytes(self.PACKED[file])
        assert dataset_file("collegemsg") == cache / "CollegeMsg.txt"
        assert rows(load_dataset("collegemsg")) == TIMED_ROWS
        assert everything_in(cache) == ["CollegeMsg.txt"]
        assert everything_in(data) == [file]

    def test_the_right_file_of_an_archive_is_told_by_its_sum(self, data, known):
        known("escorts", FORMATS["escorts"])
        (data / "escorts.zip").write_bytes(zipped(a__edges=TEXT, folder="", whatever__mtx=FORMATS["escorts"]))
        assert rows(load_dataset("escorts")) == SIGNED_ROWS

    def test_a_file_unpacked_by_the_browser_under_the_packed_name(self, data, known):
        (data / "CollegeMsg.txt.gz").write_bytes(known("collegemsg", TEXT))
        assert rows(load_dataset("collegemsg")) == TIMED_ROWS

    @pytest.mark.parametrize(
        ("file", "content"),
        [
            ("CollegeMsg.txt.gz", PACKED["CollegeMsg.txt.gz"][:-12]),
            ("CollegeMsg.txt.gz", PACKED["CollegeMsg.txt.gz"][:-8] + b"12345678"),
            ("CollegeMsg.txt.gz", b"\x1f\x8b and no more"),
            ("CollegeMsg.zip", PACKED["CollegeMsg.zip"][:-30]),
            ("CollegeMsg.zip", PACKED["CollegeMsg.zip"].replace(b"1 4 0", b"1 4 1")),
        ],
        ids=["gz cut", "gz altered", "gz of nothing", "zip cut", "zip altered"],
    )
    def test_a_damaged_archive(self, file, content, data, cache, known):
        known("collegemsg", TEXT)
        assert content != self.PACKED[file]
        (data / file).write_bytes(content)
        with pytest.raises(ReadError, match=r"damaged or cut short.* Remove it, and it is downloaded again"):
            load_dataset("collegemsg")
        assert everything_in(cache) == []

    def test_an_archive_of_something_else(self, data, cache, known):
        known("collegemsg", TEXT)
        (data / "CollegeMsg.zip").write_bytes(zipped(a__txt=OTHER, b__txt="1 2 3\n"))
        with pytest.raises(ReadError) as caught:
            load_dataset("collegemsg", check=False)
        for text in (OTHER, "1 2 3\n", TEXT):
            assert hashlib.sha256(text.encode()).hexdigest() in str(caught.value)
        assert "(a.txt)" in str(caught.value)
        assert everything_in(cache) == []

    def test_an_empty_archive(self, data, known):
        known("collegemsg", TEXT)
        (data / "CollegeMsg.zip").write_bytes(zipped())
        with pytest.raises(ReadError, match="does not hold the file of the data set 'collegemsg'"):
            load_dataset("collegemsg")

    def test_the_file_appears_whole_or_not_at_all(self, data, cache, known, monkeypatch):
        known("collegemsg", TEXT)
        (data / "CollegeMsg.txt.gz").write_bytes(self.PACKED["CollegeMsg.txt.gz"])
        seen = []

        def killed(source, target):
            seen.append((Path(source).read_text(), Path(target), Path(target).exists()))
            raise KeyboardInterrupt

        monkeypatch.setattr(fetch.os, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            load_dataset("collegemsg")
        assert seen == [(TEXT, cache / "CollegeMsg.txt", False)]
        assert everything_in(cache) == []

    def test_a_cache_that_cannot_be_written_to(self, data, cache):
        cache.parent.mkdir()
        cache.write_text("a file, no folder")
        (data / "CollegeMsg.txt.gz").write_bytes(self.PACKED["CollegeMsg.txt.gz"])
        with pytest.raises(ReadError, match=r"cannot be written to .* TDLG_DATA"):
            load_dataset("collegemsg")


JODIE = (
    "user_id,item_id,timestamp,state_label,comma_separated_list_of_features\n"
    "0,0,0.0,0,-0.17,0.2,1e-3\n1,1,36.0,0,-0.1,0.2,0.3\n1,0,77.0,1,-0.1,0.2,0.3\n2,1,131.0,0,0,0,0\n"
)


class TestTheTableOfJodie:
    def test_it_becomes_the_file(self, data, known):
        text = known("wikipedia", "1 4 0\n2 5 36\n2 4 77\n3 5 131\n").decode()
        (data / "wikipedia.csv").write_text(JODIE)
        assert dataset_file("wikipedia").read_text() == text
        assert load_dataset("wikipedia").n_src_nodes == 3

    def test_with_its_labels(self, data, known):
        text = known("wikipedia-bans", "u,i,ts,label\r\n0,3,0,0\r\n1,4,36,0\r\n1,3,77,1\r\n2,4,131,0\r\n")
        (data / "wikipedia.csv").write_text(JODIE)
        assert dataset_file("wikipedia-bans").read_bytes() == text
        assert load_dataset("wikipedia-bans").label.tolist() == [0, 0, 1, 0]

    @pytest.mark.parametrize("row", ["x,1,2.0,0\n", "5\n"])
    def test_a_damaged_one(self, row, data, cache, known):
        known("wikipedia", TEXT)
        (data / "wikipedia.csv").write_text(JODIE + row)
        with pytest.raises(ReadError, match="damaged or cut short"):
            load_dataset("wikipedia")
        assert everything_in(cache) == []

    def test_one_of_other_edges(self, data, known):
        known("wikipedia", TEXT)
        (data / "wikipedia.csv").write_text(JODIE)
        with pytest.raises(ReadError, match="does not hold the file"):
            load_dataset("wikipedia")


class Server:
    """Gives out what it is told to, on this machine, and counts how often it is asked."""

    def __init__(self, known):
        self.known, self.asked, self.answers = known, [], {}
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.asked.append(self.path)
                status, headers, content = outer.answers.get(self.path, (404, {}, b"no such file"))
                self.send_response(status)
                for header, value in headers.items():
                    self.send_header(header, value)
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *args):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.http.server_port}"
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.02,))
        self.thread.start()

    def serves(self, name, content, file="file.gz", status=200, text=TEXT, headers=None):
        self.answers[f"/{file}"] = (status, headers or {}, content)
        self.known(name, text, address=f"{self.address}/{file}")

    def close(self):
        self.http.shutdown()
        self.thread.join()
        self.http.server_close()


@pytest.fixture
def server(known):
    server = Server(known)
    yield server
    server.close()


class TestDownloading:
    @pytest.mark.parametrize(
        ("content", "headers"),
        [
            (gzip.compress(TEXT.encode()), {}),
            (zipped(readme__html="<p>", a__txt=TEXT), {}),
            (TEXT.encode(), {}),
            (gzip.compress(TEXT.encode()), {"Content-Encoding": "gzip"}),
        ],
        ids=["gz", "zip", "plain", "unpacked on the way"],
    )
    def test_once_into_the_cache(self, content, headers, cache, server, capfd):
        server.serves("collegemsg", content, headers=headers)
        assert rows(load_dataset("collegemsg")) == TIMED_ROWS
        assert (cache / "CollegeMsg.txt").read_text() == TEXT
        assert everything_in(cache) == ["CollegeMsg.txt"]
        load_dataset("collegemsg")
        assert server.asked == ["/file.gz"]
        assert capfd.readouterr() == ("", "")

    def test_not_into_the_given_folder(self, data, cache, server):
        server.serves("collegemsg", TEXT.encode())
        assert dataset_file("collegemsg") == cache / "CollegeMsg.txt"
        assert everything_in(data) == []

    @pytest.mark.parametrize(
        ("content", "status", "message"),
        [
            (gzip.compress(TEXT.encode())[:-10], 200, "damaged or cut short"),
            (gzip.compress(OTHER.encode()), 200, "does not hold the file"),
            (b"  <!DOCTYPE html><title>Sign in", 200, "it is a web page"),
            (b"", 200, "does not hold the file"),
            (b"gone", 404, "cannot be downloaded .*HTTPError: 404"),
            (b"broken", 500, "cannot be downloaded .*HTTPError: 500"),
        ],
        ids=["cut", "other", "page", "empty", "404", "500"],
    )
    def test_what_comes_is_not_the_file(self, content, status, message, cache, server):
        server.serves("collegemsg", content, status=status)
        with pytest.raises(ReadError, match=message) as caught:
            load_dataset("collegemsg")
        assert f"{server.address}/file.gz" in str(caught.value)
        assert f"put the file file.gz as it is, or CollegeMsg.txt unpacked, into the folder {cache}" in str(
            caught.value
        )
        assert "unfinished" not in str(caught.value)
        assert everything_in(cache) == []

    def test_a_connection_that_breaks(self, cache, server):
        content = gzip.compress(TEXT.encode())
        server.serves("collegemsg", content[:20], headers={"Content-Length": str(len(content))})
        with pytest.raises(ReadError, match=r"cannot be downloaded|cut short"):
            load_dataset("collegemsg")
        assert everything_in(cache) == []

    @pytest.mark.parametrize(
        ("name", "parts"),
        [
            (
                "bitcoinalpha",
                [
                    "cannot be downloaded from http://127.0.0.1:1/soc-sign-bitcoinalpha.csv.gz (ConnectionError",
                    "https://snap.stanford.edu/data/soc-sign-bitcoin-alpha.html",
                    "put the file soc-sign-bitcoinalpha.csv.gz as it is, or soc-sign-bitcoinalpha.csv unpacked",
                    "into the folder {cache}, or into any other that the environment variable TDLG_DATA names",
                ],
            ),
            (
                "epinions",
                [
                    "The data set 'epinions' is not on this machine, and no address is known",
                    "Open https://networkrepository.com/soc-epinions-trust-dir.php in a browser",
                    "put the file soc-epinions-trust-dir.zip as it is",
                    "or soc-epinions-trust-dir.edges unpacked, into the folder {cache}",
                ],
            ),
            (
                "handbook",
                [
                    "It is made from https://github.com/Fraud-Detection-Handbook/simulated-data-raw",
                    "A pickle can run any code when it is read",
                    "TX_FRAUD in this order as the file handbook.parquet, and load it with check=False",
                    "Put the file handbook.parquet into the folder {cache}, or into any other that",
                ],
            ),
        ],
    )
    def test_what_to_do_without_a_network(self, name, parts, cache):
        with pytest.raises(ReadError) as caught:
            load_dataset(name)
        for part in parts:
            assert part.format(cache=cache) in str(caught.value)
        assert everything_in(cache) == []

    def test_no_network_with_a_given_folder(self, data):
        with pytest.raises(ReadError) as caught:
            load_dataset("bitcoinalpha")
        assert f"soc-sign-bitcoinalpha.csv unpacked, into the folder {data}." in str(caught.value)

    def test_what_the_message_asks_for_works(self, cache, known):
        known("bitcoinalpha", FORMATS["bitcoinalpha"])
        with pytest.raises(ReadError):
            load_dataset("bitcoinalpha")
        (cache / "soc-sign-bitcoinalpha.csv.gz").write_bytes(gzip.compress(FORMATS["bitcoinalpha"].encode()))
        assert rows(load_dataset("bitcoinalpha")) == SIGNED_ROWS


class TestRegistry:
    @pytest.mark.parametrize("dataset", DATASETS.values(), ids=DATASETS)
    def test_an_entry_is_complete(self, dataset):
        assert DATASETS[dataset.name].name == dataset.name
        assert len(dataset.sha256) == 64
        assert set(dataset.sha256) <= set("0123456789abcdef")
        assert dataset.page.startswith("https://")
        assert dataset.address is None or dataset.address.startswith("https://")
        assert dataset.licence
        assert dataset.citation
        labelled = "rating" in dataset.columns or "label" in dataset.columns
        assert labelled == (dataset.positive is not None) == (dataset.label is not None)
        assert dataset.features == (("amount",) if dataset.name == "handbook" else ())
        assert ("time" in dataset.columns) == (dataset.days is not None)

    def test_the_published_table(self):
        figures = {name: (DATASETS[name].n_nodes, DATASETS[name].n_edges, DATASETS[name].days) for name in PAPER}
        assert figures == {
            "bitcoinalpha": (3783, 24186, 1901),
            "bitcoinotc": (5881, 35592, 1903),
            "escorts": (10106, 50632, 2232),
            "wikielect": (7118, 107071, 1378),
            "epinions": (131828, 841372, 943),
        }

    def test_no_two_have_the_same_file(self):
        names = [file for dataset in DATASETS.values() for file in (*dataset.files, *dataset.packed_files)]
        names.remove("wikipedia.csv")  # holds "wikipedia" and "wikipedia-bans"
        assert len(names) == len(set(names))
        assert len({dataset.sha256 for dataset in DATASETS.values()}) == len(DATASETS)

    def test_packed_names(self):
        assert REAL["bitcoinalpha"].packed_files == ("soc-sign-bitcoinalpha.csv.gz", "soc-sign-bitcoinalpha.zip")
        assert REAL["wikipedia"].packed_files[0] == "wikipedia.csv"
        assert REAL["epinions"].packed_files == ("soc-epinions-trust-dir.edges.gz", "soc-epinions-trust-dir.zip")
        assert "ia-escorts-dynamic.zip" in REAL["escorts"].packed_files

    def test_an_entry_is_frozen(self):
        with pytest.raises(FrozenInstanceError):
            DATASETS["escorts"].sha256 = ""
        assert isinstance(DATASETS["escorts"], Dataset)

    def test_the_import_is_light(self):
        assert not loaded_by("import tdlg.datasets") & {"pooch", "requests", "polars", "sklearn", "narwhals"}


REAL = dict(DATASETS)


class TestTable:
    @pytest.mark.parametrize(
        ("seconds", "days"), [(0, 0), (43199, 0), (43201, 1), (1903.27 * DAY, 1903), (30.99 * DAY, 31)]
    )
    def test_days_to_the_nearest(self, seconds, days):
        assert describe(TemporalEdges([1, 1], [2, 2], [1e9, 1e9 + seconds]))["days"] == days

    @pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
    def test_datetimes(self, unit):
        times = np.array(["2020-01-01", "2020-03-01"], f"datetime64[{unit}]")
        assert describe(TemporalEdges([1, 1], [2, 2], times))["days"] == 60

    def test_positive(self):
        label = [10, 0, -3, np.nan, 2, 5, 1]
        edges = TemporalEdges(range(7), range(7), range(7), label=label)
        assert describe(edges) == {"n_nodes": 7, "n_edges": 7, "days": 0, "positive": 66.67}

    @pytest.mark.parametrize("label", [None, ["a", "b"], [np.nan, np.nan]])
    def test_nothing_to_count(self, label):
        assert describe(TemporalEdges([1, 1], [2, 2], [0, 1], label=label))["positive"] is None

    def test_no_edges(self):
        assert describe(TemporalEdges([], [], [])) == {"n_nodes": 0, "n_edges": 0, "days": None, "positive": None}


@pytest.mark.needs("data")
class TestRealFiles:
    @pytest.fixture(autouse=True)
    def folder(self, data_dir, monkeypatch):
        monkeypatch.setenv("TDLG_DATA", os.fspath(data_dir))

    @pytest.mark.parametrize("name", [name for name in DATASETS if name != "epinions"])  # whose times few have
    def test_they_are_what_the_registry_says(self, name):
        dataset = DATASETS[name]
        found = describe(load_dataset(name, random_state=None if dataset.days else 0))
        if dataset.days is None:
            found["days"] = None  # its times are drawn
        assert found == {key: getattr(dataset, key) for key in ("n_nodes", "n_edges", "days", "positive")}

    def test_views(self):
        bipartite = load_dataset("escorts", bipartite=True)
        assert (bipartite.n_src_nodes, bipartite.n_nodes) == (10106, 10106 + 6624)
        assert load_dataset("fb-forum", bipartite=False).n_nodes == 899
        assert load_dataset("wikipedia").n_src_nodes == 8227

    def test_rows_are_the_files(self):
        alpha = load_dataset("bitcoinalpha", label="rating")
        assert rows(alpha[:2]) == [(7188, 1, 1407470400), (430, 1, 1376539200)]
        assert alpha.label[-2:].tolist() == [10, -10]
        assert load_dataset("bitcoinotc").time[0] == 1289241911.72836
        elections = load_dataset("wikielect")
        assert int(np.sum(elections.src == elections.dst)) == 58

    def test_the_wikipedia_file_comes_back_from_a_table_of_jodie(self, data_dir, tmp_path, cache, monkeypatch):
        lines = (data_dir / "ml_wikipedia.txt").read_text().splitlines()
        numbers = [tuple(map(int, line.split())) for line in lines]
        table = [f"{user - 1},{page - 8228},{time}.0,0,0.1,0.2\n" for user, page, time in numbers]
        (tmp_path / "wikipedia.csv").write_text(JODIE.splitlines(keepends=True)[0] + "".join(table))
        monkeypatch.setenv("TDLG_DATA", str(tmp_path))
        assert dataset_file("wikipedia") == cache / "ml_wikipedia.txt"

    def test_the_labels_of_wikipedia_come_back_from_a_table_of_jodie(self, data_dir, tmp_path, cache, monkeypatch):
        lines = (data_dir / "wikipedia-labels.csv").read_text().splitlines()[1:]
        numbers = [tuple(map(int, line.split(","))) for line in lines]
        table = [f"{user},{page - 8227},{time}.0,{label},0.1,0.2\n" for user, page, time, label in numbers]
        (tmp_path / "wikipedia.csv").write_text(JODIE.splitlines(keepends=True)[0] + "".join(table))
        monkeypatch.setenv("TDLG_DATA", str(tmp_path))
        assert dataset_file("wikipedia-bans") == cache / "wikipedia-labels.csv"
        assert dataset_file("wikipedia") == cache / "ml_wikipedia.txt"  # the same edges

    def test_the_last_edit_of_a_banned_user_carries_the_label(self):
        edges = load_dataset("wikipedia-bans")
        last = {user: row for row, user in enumerate(edges.src.tolist())}
        banned = np.flatnonzero(edges.label)
        assert len(banned) == 217
        assert all(last[edges.src[row]] == row for row in banned)

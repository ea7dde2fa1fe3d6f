"""Files of models: written whole or not at all, and no other file is believed."""

import io
import json
import os
import stat
import zipfile
from pathlib import Path

import numpy as np
import pytest

from saving import N, made_edges, same
from tdlg import LineGraphClassifier, PropagationClassifier, load_model
from tdlg.exceptions import ReadError
from tdlg.persist import model as archive


@pytest.fixture(scope="module")
def model():
    return LineGraphClassifier(bandwidth=20.0).fit(made_edges())


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.tdlg"


@pytest.fixture
def saved(model, path):
    model.save(path)
    return path


# ---- writing


def test_a_path_may_be_text_and_a_file_is_replaced(model, path):
    path.write_bytes(b"something else" * 1000)
    model.save(str(path))
    assert same(load_model(str(path)).coef_, model.coef_)
    assert os.listdir(path.parent) == [path.name]


def test_the_same_model_gives_the_same_bytes(model, saved):
    first = saved.read_bytes()
    model.save(saved)
    assert saved.read_bytes() == first


@pytest.mark.skipif(os.name == "nt", reason="no such modes")
def test_the_mode_of_the_old_file_and_a_link_are_kept(model, path):
    path.write_text("old")
    path.chmod(0o640)
    (link := path.with_name("link")).symlink_to(path)
    model.save(link)
    assert link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert load_model(path).get_params() == model.get_params()


@pytest.mark.parametrize("error", [OSError("no space left"), KeyboardInterrupt(), MemoryError()])
@pytest.mark.parametrize(
    ("owner", "name", "after"),
    [
        (archive.Encoder, "_new_array", 2),
        (archive.Encoder, "write_json", 0),
        (archive.npy, "write_array", 1),
        (archive, "_checksum", 0),
        (os, "fsync", 0),
        (os, "replace", 0),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_failure_leaves_the_old_file(owner, name, after, error, saved, monkeypatch):
    calls, whole, before = [], getattr(owner, name), saved.read_bytes()

    def failing(*args, **kwargs):
        calls.append(args)
        if len(calls) > after:
            raise error
        return whole(*args, **kwargs)

    monkeypatch.setattr(owner, name, failing)
    with pytest.raises(type(error)):
        LineGraphClassifier(C=3).fit(made_edges()).save(saved)
    monkeypatch.undo()
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == [saved.name]


# ---- what is refused on loading


def refused(path, data, match="."):
    path.write_bytes(data)
    with pytest.raises(ReadError, match=match) as caught:
        load_model(path)
    assert str(path) in str(caught.value)


def test_a_truncated_file_is_refused(saved):
    data = saved.read_bytes()
    for length in {0, 1, 3, 4, 30, 100, len(data) - 1, len(data) - 64, len(data) - 83, *range(0, len(data), 397)}:
        refused(saved, data[:length], "empty" if length == 0 else "truncated|not a tdlg model")
    refused(saved, data[:1000], "truncated")


def test_a_flipped_byte_is_found_wherever_it_is(saved):
    data = saved.read_bytes()
    for place in {*range(0, len(data), 211), *range(64), *range(len(data) - 400, len(data))}:
        flipped = bytearray(data)
        flipped[place] ^= 1 << (place % 8)
        refused(saved, bytes(flipped), "damaged|not a tdlg model")


def test_bytes_before_and_after_are_refused(saved):
    data = saved.read_bytes()
    refused(saved, b"x" + data, "damaged")
    refused(saved, data + b"\0", "not a tdlg model|damaged")
    refused(saved, data + data, "damaged")


@pytest.mark.parametrize("data", [b"src,dst,time\n1,2,3\n", b"\x80\x04K\x01.", b"PK", bytes(range(256)) * 20])
def test_other_files_are_refused(data, path):
    refused(path, data, "not a tdlg model|truncated")


def test_other_zips_are_refused(path, saved):
    np.savez(other := io.BytesIO(), a=np.zeros(3))
    refused(path, other.getvalue(), "not a tdlg model")


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    with pytest.raises(ReadError, match=r"nothing\.tdlg: there is no such file"):
        load_model(tmp_path / "nothing.tdlg")
    with pytest.raises(ReadError, match="folder"):
        load_model(tmp_path)


def rewritten(path, change=lambda manifest: None, members=(), without=(), **how):
    """The model at a path with another manifest or other members, and the right checksum: as by a forger."""
    with zipfile.ZipFile(path) as old:
        kept = {name: old.read(name) for name in old.namelist() if name not in without}
    manifest = json.loads(kept.get("manifest.json", b"{}"))
    new = change(manifest)
    if "manifest.json" in kept:
        kept["manifest.json"] = json.dumps(manifest if new is None else new).encode()
    with zipfile.ZipFile(path, "w", **how) as file:
        file.comment = archive.MARK + b"0" * archive.HEX_DIGITS
        for name, data in [*kept.items(), *members]:
            file.writestr(name, data)
    with_checksum(path, path.read_bytes())


def with_checksum(path, data):
    """Write these bytes with the right checksum."""
    path.write_bytes(data)
    with open(path, "r+b") as file:
        digest = archive._checksum(file)
        file.seek(-archive.HEX_DIGITS, os.SEEK_END)
        file.write(digest)


def mutated(rng, data):
    """The bytes with some of them changed, removed or added."""
    data = bytearray(data)
    for _ in range(rng.integers(1, 4)):
        at = int(rng.integers(len(data))) if len(data) else 0
        pieces = [bytes(rng.integers(0, 256, 1, np.uint8)), b"", b"(", b"'", b"\\", b"9" * 20, b"null", b"{", b"\xff"]
        piece = pieces[rng.integers(len(pieces))]
        data[at : at + int(rng.integers(0, 4))] = piece
    return bytes(data)


@pytest.mark.parametrize("n_files", [150, pytest.param(2000, marks=pytest.mark.needs("time"))])
@pytest.mark.parametrize("kind", ["line graph", "trees"])
def test_mutated_models_are_refused_or_read(model, path, few_trees, kind, n_files):
    """Whatever is in a file, no other error comes out: numpy's parser of headers alone has several."""
    (model if kind == "line graph" else PropagationClassifier(random_state=0).fit(made_edges())).save(path)
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist()}
    headers = [name for name in members if name.endswith(".npy")]
    refusals = set()
    for k in range(n_files):
        path.write_bytes(whole)
        if k % 3 == 0:
            with_checksum(path, mutated(rng, whole[: -archive.HEX_DIGITS]) + whole[-archive.HEX_DIGITS :])
        else:
            name = str(rng.choice(headers if k % 3 == 1 else list(members)))
            data = members[name]
            start = data[:128] if k % 3 == 1 else data
            rewritten(path, members=[(name, mutated(rng, start) + data[len(start) :])], without=[name])
        try:
            load_model(path)
        except ReadError as error:
            refusals.add(type(error.__cause__))
    assert len(refusals) > 2


def estimator_of(manifest):
    return manifest["shared"][manifest["model"]["index"]]


def test_a_forger_must_change_something(saved, model):
    rewritten(saved)
    assert same(load_model(saved).coef_, model.coef_)


def test_a_newer_version_says_which_is_needed(saved):
    def newer(manifest):
        manifest |= {"format_version": 11, "model": {"kind": "of the future"}}
        manifest["made_with"]["tdlg"] = "7.8.9"

    rewritten(saved, newer, members=[("a/new/kind.bin", b"")])
    with pytest.raises(ReadError, match=r"version 11 .* tdlg 7\.8\.9; .*reads version 10.*pip install \. in it"):
        load_model(saved)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_an_older_version_says_that_a_new_fit_is_needed(version, saved):
    def older(manifest):
        manifest["format_version"] = version
        manifest["made_with"]["tdlg"] = "0.0.9"

    rewritten(saved, older)
    with pytest.raises(
        ReadError, match=rf"version {version} .* tdlg 0\.0\.9; .*reads version 10\. .*Fit the model again"
    ):
        load_model(saved)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.update(format="other"),
        lambda m: m.update(format_version="1"),
        lambda m: m.update(format_version=0),
        lambda m: m.update(format_version=True),
        lambda m: m.pop("format_version") and None,
        lambda m: m.pop("made_with") and None,
        lambda m: m.update(made_with="tdlg"),
        lambda m: [m],
        lambda m: 3,
    ],
)
def test_other_manifests_are_refused(change, saved):
    rewritten(saved, change)
    refused(saved, saved.read_bytes(), "not a tdlg model")


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.pop("model") and None,
        lambda m: m.pop("shared") and None,
        lambda m: m.update(model=7),
        lambda m: m.update(model={"kind": "tuple", "items": []}),
        lambda m: m.update(model={"kind": "eval", "value": "1"}),
        lambda m: (
            m["shared"].append(m["model"])
            or m.update(model={"kind": "shared", "index": len(m["shared"]) - 1})
            or m["shared"].__setitem__(-1, m["model"])
        ),
        lambda m: estimator_of(m).update({"class": "TemporalEdges"}),
        lambda m: estimator_of(m).update({"class": "read_edges"}),
        lambda m: estimator_of(m).update({"class": "os.system"}),
        lambda m: estimator_of(m).update({"class": "__builtins__"}),
        lambda m: estimator_of(m).update({"class": ["LineGraphClassifier"]}),
        lambda m: estimator_of(m)["params"].update(new_in_2050=1),
        lambda m: estimator_of(m)["fitted"].pop("intercept_") and None,
        lambda m: estimator_of(m)["fitted"].pop("coef_") and None,
        lambda m: estimator_of(m)["fitted"].update(coef_={"kind": "array", "member": "../x.npy", "frozen": False}),
        lambda m: estimator_of(m)["fitted"].update(coef_={"kind": "array", "member": "manifest.json", "frozen": False}),
        lambda m: estimator_of(m)["fitted"].update(coef_={"kind": "array", "member": "999999.npy", "frozen": False}),
        lambda m: estimator_of(m)["fitted"].update(coef_={"kind": "scalar", "dtype": "O", "value": "00" * 8}),
        lambda m: estimator_of(m)["fitted"].update(coef_={"kind": "record", "name": "Decay", "fields": {}}),
        lambda m: estimator_of(m)["fitted"].update(coef_={"kind": "record", "name": "OwnColumn", "fields": {"of": 1}}),
        lambda m: estimator_of(m)["fitted"].update(decay_={"kind": "decay", "name": "Decay", "fields": {}}),
        lambda m: estimator_of(m)["fitted"].update(edges_={"kind": "edges", "table": None, "rows": [], "label": None}),
    ],
)
def test_forged_trees_are_refused(change, saved):
    rewritten(saved, change)
    refused(saved, saved.read_bytes(), "cannot be rebuilt")


def test_values_that_unfold_are_refused(saved):
    """Each tuple holds the one before twice: hashing the last, as a dict's key, would take 2 ** n_levels steps."""

    def nest(manifest, n_levels):
        estimator, first = estimator_of(manifest), len(manifest["shared"])
        manifest["shared"] += [{"kind": "tuple", "items": [0, 0]}] + [
            {"kind": "tuple", "items": [{"kind": "shared", "index": first + level}] * 2} for level in range(n_levels)
        ]
        last = {"kind": "shared", "index": first + n_levels}
        estimator["fitted"]["extra_"] = {"kind": "dict", "items": [[last, 1]]}

    for n_levels in (1, 45):  # the first is quick even where it is not refused
        rewritten(saved, lambda manifest, n_levels=n_levels: nest(manifest, n_levels))
        refused(saved, saved.read_bytes(), "a tuple is never shared")


def npy(array, **how):
    np.save(stream := io.BytesIO(), array, **how)
    return stream.getvalue()


@pytest.mark.parametrize(
    "members",
    [
        [("../../evil.npy", b"")],
        [("/etc/passwd", b"")],
        [("code.py", b"")],
        [("000001.pkl", b"")],
        [("\u0661\u0661\u0661\u0661\u0661\u0661.npy", b"")],
    ],
)
def test_unexpected_members_are_refused(members, saved):
    rewritten(saved, members=members)
    refused(saved, saved.read_bytes(), "members that no model has")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_twice_is_refused(saved):
    rewritten(saved, members=[("000001.npy", npy(np.zeros(3)))])
    refused(saved, saved.read_bytes(), "members that no model has")


def test_packed_members_are_refused(saved):
    rewritten(saved, members=[("000900.npy", bytes(10**6))], compression=zipfile.ZIP_DEFLATED)
    refused(saved, saved.read_bytes(), "declare more bytes than the file has")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x93NUMPY",
        npy(np.array([{}]), allow_pickle=True),
        npy(np.zeros(3))[:-1],
        npy(np.zeros(3)) + b"\0",
        npy(np.zeros(3)).replace(b"(3,), }  ", b"(10**9,)}"),
        npy(np.zeros(3)).replace(b"(3,), }         ", b"(99999999999,),}"),
        npy(np.zeros(2, "i4,f8")),
        npy(np.zeros(3)).replace(b"'<f8'", b"'<U0'").replace(b"(3,), }        ", b"(1000000000,),}")[:128],
        npy(np.zeros((1, 3))),
    ],
)
def test_arrays_that_are_none_are_refused(data, saved):
    rewritten(saved, lambda m: estimator_of(m)["fitted"]["coef_"].update(member="000900.npy"), [("000900.npy", data)])
    refused(saved, saved.read_bytes(), "cannot be rebuilt")


@pytest.mark.parametrize("n_declared", [b"(2,), }         ", b"(4,), }         ", b"(99999999999,),}"])
def test_an_array_of_another_size_is_not_allocated(n_declared, saved):
    data = npy(np.zeros(3)).replace(b"(3,), }         ", n_declared)
    rewritten(saved, lambda m: estimator_of(m)["fitted"]["coef_"].update(member="000900.npy"), [("000900.npy", data)])
    refused(saved, saved.read_bytes(), "declares .* but has other content")


EDGES = made_edges(ids=str, features=np.zeros((N, 2)), weight=np.ones(N))[:30]
INT32 = np.zeros(N, np.int32)


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("rows", np.full(30, N)),
        ("rows", np.full(30, -1)),
        ("rows", np.full(30, 0.5)),
        ("rows", range(N - 29, N + 1)),
        ("rows", range(-1, 29)),
        ("label", np.zeros(3)),
        ("ticks", np.zeros(N - 1)),
        ("ticks", np.full(N, np.nan)),
        ("ticks", np.zeros(N, ">i8")),
        ("weight", np.ones(N - 1)),
        ("unit", "fortnight"),
        ("src", np.zeros(N - 1, np.int64)),
        ("label_ticks", np.zeros(3, np.int64)),
        ("label_ticks", np.zeros(30, np.int32)),
        ("features", {"matrix": np.zeros((N, 3)), "names": ("a", "b"), "categories": {}}),
        ("features", {"matrix": np.zeros((N - 1, 2)), "names": ("a", "b"), "categories": {}}),
        ("spaces", None),
        ("spaces", [[np.array(["a"], object), INT32, INT32 + 1]]),
        ("spaces", [[np.array(["a"], object), INT32 - 1, INT32]]),
        ("spaces", [[np.array(["a"], object), INT32[1:], INT32]]),
        ("spaces", [[np.array([], object), INT32, INT32]]),
        ("spaces", [[np.array(["a"], object), INT32, INT32]] * 2),
    ],
)
def test_forged_edges_are_refused(name, array, path):
    model = LineGraphClassifier()
    model.classes_, model.forged_ = EDGES, array
    model.save(path)

    def forge(manifest):
        kind = "edges" if name in ("rows", "label", "label_ticks") else "table"
        (node,) = (node for node in manifest["shared"] if node["kind"] == kind)
        node[name] = estimator_of(manifest)["fitted"]["forged_"]

    rewritten(path, forge)
    refused(path, path.read_bytes(), "it holds|cannot be rebuilt")


def test_nothing_is_unpickled(saved, monkeypatch):
    import pickle

    def forbidden(*args, **kwargs):
        raise AssertionError("unpickled")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, forbidden)
    load_model(saved)


def test_the_users_folder_is_known(model, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    model.save("~/model.tdlg")
    assert same(load_model("~/model.tdlg").coef_, load_model(tmp_path / "model.tdlg").coef_)


def test_paths_in_errors_are_those_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ReadError, match=r"^here\.tdlg: "):
        load_model(Path("here.tdlg"))

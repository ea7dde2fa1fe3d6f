"""Bodies of requests to events within limits, and answers to JSON."""

import datetime
import io
import json
import re
import tracemalloc

import numpy as np
import polars as pl
import pytest

from serving import arrow
from tdlg.exceptions import ParameterError
from tdlg.serve.http import Limits, RefusedError, as_json, read_arrow, read_items
from tdlg.serve.schema import ARROW, JSON, LINES, Refused


@pytest.mark.parametrize(
    "name", ["body", "events", "queue", "batch", "desks", "connections", "seconds", "head_seconds"]
)
def test_limits_are_counts(name):
    with pytest.raises(ParameterError, match=name):
        Limits(**{name: 0})


def test_a_request_must_fit_in_the_queue():
    with pytest.raises(ParameterError, match="'queue' parameter of Limits must be at least 'events', 50"):
        Limits(events=50, queue=49)


# ---- bodies


class TestBodies:
    def test_one_list_and_lines(self):
        one, two = {"id": 1}, {"id": "ü"}
        found = read_items(json.dumps(one).encode(), "application/json", Limits(), "event")
        assert found == ([one], True, False)
        found = read_items(json.dumps([one, two]).encode(), "Application/JSON; charset=utf-8", Limits(), "event")
        assert found == ([one, two], False, False)
        for media in LINES:
            found = read_items(b'{"id": 1}\r\n\n  \n{"id": "\\u00fc"}', media, Limits(), "event")
            assert found == ([one, two], False, True)

    def test_a_bad_line_is_named_by_its_number(self):
        body = b'{"id": 1}\n\nnonsense\n[1]\n{"x": NaN}\n{"id": 2}\n\xff\n'
        items = read_items(body, LINES[0], Limits(), "event").items
        assert [isinstance(item, Refused) for item in items] == [False, True, True, True, False, True]
        assert items[1].error.message.startswith("Line 3 is not JSON: ")
        assert items[1].error.value == "nonsense"
        assert items[2].error.message == "One event is a JSON object. Got [1] instead."
        assert (
            items[3].error.message
            == "Line 5 is not JSON: NaN is not a value of JSON; leave the field out, or give null."
        )
        assert items[5].error.message.startswith("Line 7 is not JSON: ")

    @pytest.mark.parametrize(
        ("body", "media", "status", "words"),
        [
            (b"nonsense", "application/json", 400, "The body is not JSON: "),
            (
                b'{"id": 1}\n{"id": 2}',
                "application/json",
                400,
                "For JSON lines, set Content-Type: application/x-ndjson",
            ),
            (b"", "application/json", 400, "The body is not JSON"),
            (b"\xff", "application/json", 400, "not UTF-8"),
            (b"[" * 100_000, "application/json", 400, "nested too deeply"),
            (b"[Infinity]", "application/json", 400, "Infinity is not a value of JSON"),
            (b"9" * 5000, "application/json", 400, "The body is not JSON"),
            (b"{}", "", 415, "Got 'none' instead"),
            (b"{}", "text/plain", 415, "Got 'text/plain' instead"),
            (b"a=1", "application/x-www-form-urlencoded", 415, "must be one of"),
            (b"[{},{},{},{}]", "application/json", 413, "A request may hold 3 items. Got 4"),
            (b"{}\n{}\n{}\n{}\n", "application/jsonlines", 413, "A request may hold 3 items. Got 4"),
            (b"nonsense", ARROW, 400, "not an Arrow IPC stream"),
            (b"", ARROW, 400, "not an Arrow IPC stream"),
        ],
    )
    def test_what_cannot_be_read_is_refused(self, body, media, status, words):
        with pytest.raises(RefusedError, match=re.escape(words)) as caught:
            read_items(body, media, Limits(events=3, queue=3), "event")
        assert caught.value.status == status

    @pytest.mark.parametrize(
        ("body", "media"),
        [
            (b"[" + b"0," * 500_000 + b"0]", "application/json"),
            (b"0\n" * 500_000, LINES[0]),
            (b"x\n" * 500_000, LINES[0]),
            (b"\n" * 500_000, LINES[0]),
        ],
    )
    def test_items_are_counted_before_they_are_described(self, body, media, monkeypatch):
        monkeypatch.setattr("tdlg.serve.http._item_problem", lambda *words: pytest.fail("a fault was described"))
        monkeypatch.setattr("tdlg.serve.http._BadLine", lambda *words: pytest.fail("a line was read"))
        with pytest.raises(RefusedError, match=r"may hold 10000 items\. Got 50000[01]:") as caught:
            read_items(body, media, Limits(), "event")
        assert caught.value.status == 413

    @pytest.mark.parametrize(
        ("body", "media", "words"),
        [
            (b"[" + b"0," * (4 << 20), JSON, "Got 4194304: send them in parts"),
            (b"[" + b'"ab",' * 1_600_000, JSON, "Got 1600000: send them in parts"),
            (b"0\n" * (4 << 20), LINES[0], "Got 4194304: send them in parts"),
            (b"[" + b"[]," * 2_700_000, JSON, "may hold 167772 lists and objects"),
            (b'{"id": [' + b"{}," * 2_700_000, JSON, "may hold 167772 lists and objects"),
            (b"{}\n" * 2_700_000, LINES[0], "may hold 167772 lists and objects"),
            (b"[" * (8 << 20), JSON, "may hold 167772 lists and objects"),
        ],
        ids=["zeros", "words", "lines", "lists", "objects", "lines of objects", "deep"],
    )
    def test_a_refused_body_of_full_size_leaves_little_behind(self, body, media, words):
        body = body[:-1] + b"]" if media == JSON and words.startswith("Got") else body
        tracemalloc.start()
        try:
            with pytest.raises(RefusedError, match=re.escape(words)) as caught:
                read_items(body, media, Limits(), "event")
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert caught.value.status == 413
        assert peak < 16 * len(body)

    def test_what_is_beside_the_point_may_be_nested(self):
        body = json.dumps([{"id": k, "basket": [{"sku": [k]}] * 4} for k in range(10_000)]).encode()
        assert len(read_items(body, JSON, Limits(), "event").items) == 10_000

    @pytest.mark.parametrize(
        ("body", "media"),
        [
            (json.dumps([0, {"id": 1}] * 300).encode(), "application/json"),
            (b'nonsense\n{"id": 1}\n' * 300, LINES[0]),
        ],
    )
    def test_the_first_faults_are_described_and_all_keep_their_places(self, body, media):
        items = read_items(body, media, Limits(), "event").items
        assert items[1::2] == [{"id": 1}] * 300
        assert len(set(map(id, items[0::2]))) == 101
        assert items[198] != items[200] == items[598]
        assert (
            items[200].error.message
            == "This event cannot be read. Only the first 100 faults of a request are described."
        )

    def test_something_else_than_an_object(self):
        (fault,) = read_items(b"5", "application/json", Limits(), "label").items
        assert fault.error.message == "One label is a JSON object. Got 5 instead."


class TestArrow:
    FRAME = pl.DataFrame(
        {
            "id": ["a", "b", None],
            "src": pl.Series(["x", "y", "x"], dtype=pl.Categorical),
            "amount": [1.5, None, 3.0],
            "time": pl.Series([0, 60_000_000, 120_000_000]).cast(pl.Datetime("us")),
        }
    )

    def test_rows_are_events(self):
        assert read_arrow(arrow(self.FRAME), Limits()) == self.FRAME.cast({"src": pl.String}).to_dicts()

    def test_of_another_writer(self):
        pa = pytest.importorskip("pyarrow")
        table = pa.table({"src": pa.array(["q", "q", "r"]).dictionary_encode(), "n": [1, 2, 3]})
        file = io.BytesIO()
        with pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=2)
        assert read_arrow(file.getvalue(), Limits()) == table.to_pylist()

    @pytest.mark.parametrize("compression", ["lz4", "zstd"])
    def test_a_compressed_stream_is_refused(self, compression):
        with pytest.raises(RefusedError, match="is compressed"):
            read_arrow(arrow(self.FRAME, compression=compression), Limits())

    def test_a_compressed_dictionary_is_refused(self):
        pa = pytest.importorskip("pyarrow")
        table = pa.table({"src": pa.array(["q" * 100] * 3).dictionary_encode()})
        file = io.BytesIO()
        with pa.ipc.new_stream(file, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
            writer.write_table(table)
        with pytest.raises(RefusedError, match="is compressed"):
            read_arrow(file.getvalue(), Limits())

    def test_text_that_would_be_repeated_many_times(self):
        frame = pl.DataFrame({"src": pl.Series(["x" * 1000] * 5000, dtype=pl.Categorical)})
        limits = Limits(body=100_000)
        assert len(arrow(frame)) < limits.body
        with pytest.raises(RefusedError, match="has 5000000 bytes, of at most 400000"):
            read_arrow(arrow(frame), limits)

    @pytest.mark.parametrize("value", [None, True])
    def test_few_bytes_that_are_many_values(self, value):
        frame = pl.DataFrame({f"column {k}": [value] * 5000 for k in range(500)})
        assert len(arrow(frame)) < 1 << 20
        with pytest.raises(
            RefusedError, match="5000 rows of 500 columns are 2500000 values, of at most 2097152"
        ) as caught:
            read_arrow(arrow(frame), Limits())
        assert caught.value.status == 413

    def test_too_many_rows(self):
        with pytest.raises(RefusedError, match="may hold 2 rows"):
            read_arrow(arrow(self.FRAME), Limits(events=2, queue=2))

    @pytest.mark.parametrize("values", [[[1]], [{"a": 1}], [b"x"]])
    def test_nested_columns_are_named(self, values):
        with pytest.raises(RefusedError, match="The column 'odd' holds") as caught:
            read_arrow(arrow(pl.DataFrame({"odd": values})), Limits())
        assert (caught.value.status, caught.value.problem.field) == (422, "odd")

    def test_a_time_that_python_lacks(self):
        frame = pl.DataFrame({"time": pl.Series([2**60]).cast(pl.Datetime("us"))})
        with pytest.raises(RefusedError, match="cannot be read"):
            read_arrow(arrow(frame), Limits())

    def test_damaged_streams_are_refused_or_read(self):
        import random

        rng, whole, statuses = random.Random(0), arrow(self.FRAME), set()
        for _ in range(300):
            damaged = bytearray(whole)
            for _ in range(rng.randrange(1, 4)):
                damaged[rng.randrange(len(whole))] = rng.randrange(256)
            damaged = damaged[: rng.randrange(len(whole))] if rng.random() < 0.3 else damaged
            try:
                read_arrow(bytes(damaged), Limits())
            except RefusedError as refusal:
                statuses.add(refusal.status)
        assert statuses <= {400, 413, 415, 422}


def test_whole_numbers_that_a_browser_would_round_are_text():
    largest, larger = 2**53 - 1, 2**53 + 1
    value = {"id": larger, "near": [largest, -larger], "score": 0.12345678901234567, "text": ":12345678901234567890"}
    assert json.loads(as_json(value)) == {**value, "id": str(larger), "near": [largest, str(-larger)]}
    assert as_json(larger) == f'"{larger}"'.encode()
    assert as_json([np.int64(larger), True]) == f'["{larger}",true]'.encode()


def test_answers_are_json():
    value = {
        "a": float("nan"),
        "b": [np.float64(1.5), np.int64(3), [np.bool_(True)]],
        "c": np.datetime64("2025-01-31T10:00"),
        "d": np.datetime64("NaT"),
        "e": datetime.date(2025, 1, 31),
        "f": (1, float("inf")),
        "g": {"x"},
        "h": "ü",
    }
    assert json.loads(as_json(value)) == {
        "a": None, "b": [1.5, 3, [True]], "c": "2025-01-31T10:00", "d": None, "e": "2025-01-31", "f": [1, None], "g": ["x"],
        "h": "ü",
    }  # fmt: skip

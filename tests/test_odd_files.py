"""Small odd files, and what each is read as: edges, warnings or an error."""

# ruff: noqa: E501

import warnings

import numpy as np
import pytest

from tdlg import read_edges
from tdlg.exceptions import TdlgError

SHOWN = 5  # values of a column


def described(folder, name, content, options):
    """The edges with the first values of each column, and the warnings; or the error, with its hints."""
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            edges = read_edges(path, **options)
        except TdlgError as error:
            return f"{type(error).__name__}: {error}".replace(f"{folder}/", "")
    columns = {"src": edges.src, "dst": edges.dst, "time": edges.time, "label": edges.label}
    columns |= {"label_time": edges.label_time, "weight": edges.weight}
    columns |= {one: edges.features[:, k] for k, one in enumerate(edges.feature_names)}
    shown = [f"{one}: {np.asarray(values)[-SHOWN:].tolist()}" for one, values in columns.items() if values is not None]
    shown += [f"{one} are {words}" for one, words in edges.feature_categories.items()]
    shown += [f"warned: {warning.message}".replace(f"{folder}/", "") for warning in warned]
    return "; ".join([repr(edges), *shown])


FILES = [
    (
        "plain.csv",
        "src,dst,time\na,b,1\nb,c,2\n",
        None,
        "TemporalEdges(2 edges, 3 nodes, time 1 to 2); src: ['a', 'b']; dst: ['b', 'c']; time: [1, 2]",
    ),
    (
        "no-header.csv",
        "1,2,3\n2,3,4\n",
        None,
        "TemporalEdges(2 edges, 3 nodes, time 3 to 4); src: [1, 2]; dst: [2, 3]; time: [3, 4]",
    ),
    (
        "no-header-text.csv",
        "a,b,3\nb,c,4\n",
        None,
        "TemporalEdges(2 edges, 3 nodes, time 3 to 4); src: ['a', 'b']; dst: ['b', 'c']; time: [3, 4]",
    ),
    (
        "no-header-four.csv",
        "a,b,3,1\nb,c,4,0\n",
        None,
        "ReadError: no-header-four.csv: There are 4 columns and no names. The first row, by position, is {0: "
        "'a', 1: 'b', 2: '3', 3: '1'}. Pass src=0, dst=1 and time=3, or other positions.",
    ),
    (
        "positions.csv",
        "a,b,3,1\nb,c,4,0\n",
        dict(src=0, dst=1, time=2, label=3),
        "TemporalEdges(2 edges, 3 nodes, time 3 to 4, label: 2 values); src: ['a', 'b']; dst: ['b', 'c']; tim"
        "e: [3, 4]; label: [1, 0]",
    ),
    (
        "forced-header.csv",
        "1,2,3\n2,3,4\n4,5,6\n",
        dict(header=True, src="1", dst="2", time="3"),
        "TemporalEdges(2 edges, 4 nodes, time 4 to 6); src: [2, 4]; dst: [3, 5]; time: [4, 6]",
    ),
    (
        "forced-no-header.csv",
        "a,b,2020-01-01\nb,c,2020-01-02\n",
        dict(header=False),
        "TemporalEdges(2 edges, 3 nodes, 2020-01-01 to 2020-01-02); src: ['a', 'b']; dst: ['b', 'c']; time: ["
        "datetime.datetime(2020, 1, 1, 0, 0), datetime.datetime(2020, 1, 2, 0, 0)]",
    ),
    (
        "semicolons.csv",
        "von;nach;time;amount\na;b;1;3,20\nb;c;2;1.234,50\n",
        dict(src="von", dst="nach"),
        "TemporalEdges(2 edges, 3 nodes, time 1 to 2, 1 feature); src: ['a', 'b']; dst: ['b', 'c']; time: [1,"
        " 2]; amount: [3.2, 1234.5]",
    ),
    (
        "tabs.tsv",
        "src\tdst\ttime\tx\na\tb\t1\t3,5\nb\tc\t2\t4\n",
        None,
        "TemporalEdges(2 edges, 3 nodes, time 1 to 2, 1 feature); src: ['a', 'b']; dst: ['b', 'c']; time: [1,"
        " 2]; x: [3.5, 4.0]",
    ),
    (
        "bars.csv",
        "src|dst|time\na|b|1\nb|c|2\n",
        None,
        "TemporalEdges(2 edges, 3 nodes, time 1 to 2); src: ['a', 'b']; dst: ['b', 'c']; time: [1, 2]",
    ),
    (
        "colons.csv",
        "a::b::1\nb::c::2\n",
        None,
        "TemporalEdges(2 edges, 3 nodes, time 1 to 2); src: ['a', 'b']; dst: ['b', 'c']; time: [1, 2]",
    ),
    (
        "colons-name.csv",
        "src::dst::time\na::b::1\nb::c::2\n",
        None,
        "TemporalEdges(2 edges, 3 nodes, time 1 to 2); src: ['a', 'b']; dst: ['b', 'c']; time: [1, 2]",
    ),
    (
        "blanks.txt",
        "1 2   3\n 2\t3 4 \n",
        None,
        "TemporalEdges(2 edges, 3 nodes, time 3 to 4); src: [1, 2]; dst: [2, 3]; time: [3, 4]",
    ),
    (
        "blanks-option.csv",
        "src  dst time\na b  1\nb c 2\n",
        dict(separator="\\s+"),
        "TemporalEdges(2 edges, 3 nodes, time 1 to 2); src: ['a', 'b']; dst: ['b', 'c']; time: [1, 2]",
    ),
    (
        "two-columns.csv",
        "src,dst\na,b\n",
        None,
        "ReadError: two-columns.csv: No column has a usual name for 'time'. The columns are ['src', 'dst']. P"
        "ass time= with a name.",
    ),
    (
        "one-column.csv",
        "src\na\n",
        None,
        "ReadError: one-column.csv: only one column found; the first line is 'src'. Pass the right separator=.",
    ),
    (
        "two-signs.csv",
        "a;b,c;1\nb;c,d;2\n",
        dict(separator=";"),
        "TemporalEdges(2 edges, 4 nodes, time 1 to 2); src: ['a', 'b']; dst: ['b,c', 'c,d']; time: [1, 2]",
    ),
    (
        "empty.csv",
        "",
        None,
        "ReadError: empty.csv: the file has no rows. Check that it was written or downloaded in full.",
    ),
    (
        "only-header.csv",
        "src,dst,time\n",
        None,
        "TemporalEdges(0 edges, 0 nodes); src: []; dst: []; time: []",
    ),
    (
        "only-comments.csv",
        "# a\n% b\n",
        None,
        "ReadError: only-comments.csv: the file has no rows. Check that it was written or downloaded in full.",
    ),
    (
        "blank-lines.csv",
        "\n\nsrc,dst,time\n\na,b,1\n  \n\nb,c,2\n\n",
        None,
        "TemporalEdges(2 edges, 3 nodes, time 1 to 2); src: ['a', 'b']; dst: ['b', 'c']; time: [1, 2]",
    ),
    (
        "comments.csv",
        "# made by x\nsrc,dst,time\na,b,1\n#b,c,9\n% more\nb,c,2\n",
        None,
        "TemporalEdges(2 edges, 3 nodes, time 1 to 2); src: ['a', 'b']; dst: ['b', 'c']; time: [1, 2]; warned"
        ": comments.csv: 1 of the lines that start with # or % have 3 values, like the rows. They are skipped"
        " as comments. If they are rows, write their first values in quotes.",
    ),
    (
        "names-in-comment.csv",
        "# FromNodeId\tToNodeId\tTime\n1\t2\t5\n2\t3\t6\n",
        None,
        "TemporalEdges(2 edges, 3 nodes, time 5 to 6); src: [1, 2]; dst: [2, 3]; time: [5, 6]",
    ),
    (
        "names-in-comment-label.csv",
        "% src dst time sign\n1 2 5 1\n2 3 6 -1\n",
        dict(label="sign"),
        "TemporalEdges(2 edges, 3 nodes, time 5 to 6, label: 2 values); src: [1, 2]; dst: [2, 3]; time: [5, 6"
        "]; label: [1, -1]",
    ),
    (
        "hash-in-quotes.csv",
        'src,dst,time\n"#a",b,1\n"x\n#y",c,2\n',
        None,
        "TemporalEdges(2 edges, 4 nodes, time 1 to 2); src: ['#a', 'x\\n#y']; dst: ['b', 'c']; time: [1, 2]",
    ),
    (
        "quotes.csv",
        'src,dst,time\n"a, the ""first""",b,1\n" b ",c,2\n',
        None,
        "TemporalEdges(2 edges, 3 nodes, time 1 to 2); src: ['a, the \"first\"', 'b']; dst: ['b', 'c']; time: [1, 2]",
    ),
    (
        "open-quote.csv",
        'src,dst,time\n"a,b,1\nb,c,2\n',
        None,
        "ReadError: open-quote.csv: data row 1 has 1 fields, the first line has 3: 'a,b,1b,c,2'. A quote in i"
        "t is not closed: close or remove it.",
    ),
    (
        "line-in-quotes.csv",
        'src,dst,time\n"a\nb",c,1\n"a\r\nb",c,2\n',
        None,
        "TemporalEdges(2 edges, 3 nodes, time 1 to 2); src: ['a\\nb', 'a\\r\\nb']; dst: ['c', 'c']; time: [1, 2]",
    ),
    (
        "windows.csv",
        "src,dst,time\r\na,b,1\r\nb,c,2\r\n",
        None,
        "TemporalEdges(2 edges, 3 nodes, time 1 to 2); src: ['a', 'b']; dst: ['b', 'c']; time: [1, 2]",
    ),
    (
        "old-mac.csv",
        "src,dst,time\ra,b,1\rb,c,2\r",
        None,
        "TemporalEdges(2 edges, 3 nodes, time 1 to 2); src: ['a', 'b']; dst: ['b', 'c']; time: [1, 2]",
    ),
    (
        "bom.csv",
        b"\xef\xbb\xbfsrc,dst,time\na,b,1\n",
        None,
        "TemporalEdges(1 edge, 2 nodes, time 1 to 1); src: ['a']; dst: ['b']; time: [1]",
    ),
    (
        "utf16.csv",
        b"\xff\xfes\x00r\x00c\x00,\x00d\x00s\x00t\x00,\x00t\x00i\x00m\x00e\x00\n\x00a\x00,\x00b\x00,\x001\x00\n\x00",
        None,
        "ReadError: utf16.csv: the text is not UTF-8 ('utf-8' codec can't decode byte 0xff in position 0: inv"
        "alid start byte). Save it in UTF-8.",
    ),
    (
        "latin.csv",
        b"src,dst,time\nJ\xfcrgen,b,1\n",
        None,
        "ReadError: latin.csv: the text is not UTF-8 ('utf-8' codec can't decode byte 0xfc in position 1: inv"
        "alid start byte). Save it in UTF-8.",
    ),
    (
        "unicode.csv",
        "Konto,Händler,time\nJürgen,Café № 1,1\n李,🙂,2\n",
        dict(src="Konto", dst="Händler"),
        "TemporalEdges(2 edges, 4 nodes, time 1 to 2); src: ['Jürgen', '李']; dst: ['Café № 1', '🙂']; time: [1, 2]",
    ),
    (
        "wrong-name.csv",
        "Konto,Händler,time\na,b,1\n",
        dict(src="Konto", dst="Haendler"),
        "ReadError: wrong-name.csv: No column 'Haendler' for 'dst'. Did you mean 'Händler'? The columns are ["
        "'Konto', 'Händler', 'time'].",
    ),
    (
        "too-many-fields.csv",
        "src,dst,time\na,b,1\nb,c,2,3\n",
        None,
        "ReadError: too-many-fields.csv: data row 2 has 4 fields, the first line has 3: 'b,c,2,3'. Correct th"
        "at row, or pass the right separator=.",
    ),
    (
        "too-few-fields.csv",
        "src,dst,time\na,b,1\nb,c\n",
        None,
        "ReadError: too-few-fields.csv: data row 2 has 2 fields, the first line has 3: 'b,c'. Correct that ro"
        "w, or pass the right separator=.",
    ),
    (
        "empty-id.csv",
        "src,dst,time\na,b,1\n,c,2\n",
        None,
        "ReadError: empty-id.csv: The 'src' has a missing id in data row 2 (src: None, dst: 'c', time: 2). Dr"
        "op that row, or give the node an id.",
    ),
    (
        "na-id.csv",
        "src,dst,time\na,b,1\nNA,c,2\n",
        None,
        "TemporalEdges(2 edges, 4 nodes, time 1 to 2); src: ['a', 'NA']; dst: ['b', 'c']; time: [1, 2]",
    ),
    (
        "empty-time.csv",
        "src,dst,time\na,b,1\nb,c,\n",
        None,
        "ReadError: empty-time.csv: The 'time' must be finite. Got nan in data row 2 (src: 'b', dst: 'c', tim"
        "e: None). Drop that row: an edge needs a time.",
    ),
    (
        "codes.csv",
        "src,dst,time\n007,8,1\n7,9,2\n",
        None,
        "TemporalEdges(2 edges, 4 nodes, time 1 to 2); src: ['007', '7']; dst: ['8', '9']; time: [1, 2]",
    ),
    (
        "mixed-ids.csv",
        "src,dst,time\n1,a,1\n2,b,2\n",
        None,
        "TemporalEdges(2 edges, 4 nodes, time 1 to 2); src: ['1', '2']; dst: ['a', 'b']; time: [1, 2]",
    ),
    (
        "mixed-ids-bipartite.csv",
        "src,dst,time\n1,a,1\n2,b,2\n",
        dict(bipartite=True),
        "TemporalEdges(2 edges, 4 nodes, time 1 to 2, bipartite); src: [1, 2]; dst: ['a', 'b']; time: [1, 2]",
    ),
    (
        "whole-floats.csv",
        "src,dst,time\n1.0,2,1\n2.0,1,2\n",
        None,
        "TemporalEdges(2 edges, 2 nodes, time 1 to 2); src: [1, 2]; dst: [2, 1]; time: [1, 2]",
    ),
    (
        "huge-ids.csv",
        "src,dst,time\n99999999999999999999,1,1\n2,3,2\n",
        None,
        "TemporalEdges(2 edges, 4 nodes, time 1 to 2); src: ['99999999999999999999', '2']; dst: ['1', '3']; t"
        "ime: [1, 2]",
    ),
    (
        "truth-ids.csv",
        "src,dst,time\ntrue,false,1\nfalse,true,2\n",
        None,
        "TemporalEdges(2 edges, 2 nodes, time 1 to 2); src: ['true', 'false']; dst: ['false', 'true']; time: [1, 2]",
    ),
    (
        "comma-ids.csv",
        "src;dst;time\n1,5;2;1\n2,5;1,5;2\n",
        None,
        "TemporalEdges(2 edges, 3 nodes, time 1 to 2); src: ['1,5', '2,5']; dst: ['2', '1,5']; time: [1, 2]",
    ),
    (
        "signs.csv",
        "src,dst,time\n+1,-2,1\n-2,3,2\n",
        None,
        "TemporalEdges(2 edges, 3 nodes, time 1 to 2); src: [1, -2]; dst: [-2, 3]; time: [1, 2]",
    ),
    (
        "scientific.csv",
        "src,dst,time\na,b,1e3\nb,c,1.5e3\n",
        None,
        "TemporalEdges(2 edges, 3 nodes, time 1000 to 1500); src: ['a', 'b']; dst: ['b', 'c']; time: [1000.0, 1500.0]",
    ),
    (
        "infinite-time.csv",
        "src,dst,time\na,b,inf\nb,c,2\n",
        None,
        "ReadError: infinite-time.csv: The 'time' must be finite. Got inf in data row 1 (src: 'a', dst: 'b', "
        "time: inf). Drop that row: an edge needs a time.",
    ),
    (
        "nan-time.csv",
        "src,dst,time\na,b,nan\nb,c,2\n",
        None,
        "ReadError: nan-time.csv: The 'time' must be finite. Got nan in data row 1 (src: 'a', dst: 'b', time:"
        " None). Drop that row: an edge needs a time.",
    ),
    (
        "huge-time.csv",
        "src,dst,time\na,b,99999999999999999999\nb,c,2\n",
        None,
        "ReadError: huge-time.csv: The 'time' in data row 1 (src: 'a', dst: 'b', time: '99999999999999999999'"
        ") is 99999999999999999999, beyond int64. Subtract a start, or pass floats.",
    ),
    (
        "dates.csv",
        "src,dst,time\na,b,2020-01-31\nb,c,2020-02-01\n",
        None,
        "TemporalEdges(2 edges, 3 nodes, 2020-01-31 to 2020-02-01); src: ['a', 'b']; dst: ['b', 'c']; time: ["
        "datetime.datetime(2020, 1, 31, 0, 0), datetime.datetime(2020, 2, 1, 0, 0)]",
    ),
    (
        "datetimes.csv",
        "src,dst,time\na,b,2020-01-31 10:00\nb,c,2020-01-31T10:00:30.250\n",
        None,
        "TemporalEdges(2 edges, 3 nodes, 2020-01-31 to 2020-01-31); src: ['a', 'b']; dst: ['b', 'c']; time: ["
        "datetime.datetime(2020, 1, 31, 10, 0), datetime.datetime(2020, 1, 31, 10, 0, 30, 250000)]",
    ),
    (
        "zones.csv",
        "src,dst,time\na,b,2020-01-31T10:00:00+02:00\nb,c,2020-01-31T10:00:00Z\n",
        None,
        "TemporalEdges(2 edges, 3 nodes, 2020-01-31 to 2020-01-31); src: ['a', 'b']; dst: ['b', 'c']; time: ["
        "datetime.datetime(2020, 1, 31, 8, 0), datetime.datetime(2020, 1, 31, 10, 0)]",
    ),
    (
        "half-zoned.csv",
        "src,dst,time\na,b,2020-01-31T10:00:00Z\nb,c,2020-01-31T10:00:00\n",
        None,
        "ReadError: half-zoned.csv: The 'time' in data row 2 (src: 'b', dst: 'c', time: '2020-01-31T10:00:00'"
        ") has no time zone, and the rows before it have one. Pass all times with a zone, or none.",
    ),
    (
        "german-dates.csv",
        "src;dst;time\na;b;31.01.2020 10:15\nb;c;01.02.2020 10:16\n",
        None,
        "TemporalEdges(2 edges, 3 nodes, 2020-01-31 to 2020-02-01); src: ['a', 'b']; dst: ['b', 'c']; time: ["
        "datetime.datetime(2020, 1, 31, 10, 15), datetime.datetime(2020, 2, 1, 10, 16)]",
    ),
    (
        "us-dates.csv",
        "src,dst,time\na,b,1/31/2020 3:04 PM\nb,c,2/1/2020 12:00 AM\n",
        None,
        "TemporalEdges(2 edges, 3 nodes, 2020-01-31 to 2020-02-01); src: ['a', 'b']; dst: ['b', 'c']; time: ["
        "datetime.datetime(2020, 1, 31, 15, 4), datetime.datetime(2020, 2, 1, 0, 0)]",
    ),
    (
        "ambiguous-dates.csv",
        "src,dst,time\na,b,03/04/2020\nb,c,05/06/2020\n",
        None,
        "ReadError: ambiguous-dates.csv: The 'time' is ambiguous: '03/04/2020' in data row 1 (src: 'a', dst: "
        "'b', time: '03/04/2020') can be day/month or month/day. Pass time_format='%d/%m/%Y' if the day comes"
        " first. Pass time_format='%m/%d/%Y' if the month comes first.",
    ),
    (
        "formatted-dates.csv",
        "src,dst,time\na,b,03/04/2020\nb,c,05/06/2020\n",
        dict(time_format="%d/%m/%Y"),
        "TemporalEdges(2 edges, 3 nodes, 2020-04-03 to 2020-06-05); src: ['a', 'b']; dst: ['b', 'c']; time: ["
        "datetime.datetime(2020, 4, 3, 0, 0), datetime.datetime(2020, 6, 5, 0, 0)]",
    ),
    (
        "both-orders.csv",
        "src,dst,time\na,b,31/01/2020\nb,c,01/31/2020\n",
        None,
        "ReadError: both-orders.csv: The 'time' in data row 2 (src: 'b', dst: 'c', time: '01/31/2020') is '01"
        "/31/2020', which is not in the same order of day and month as the other rows. Correct or drop that r"
        "ow. Or pass the format of all times, such as time_format='%d.%m.%Y %H:%M'.",
    ),
    (
        "named-months.csv",
        "src;dst;time\na;b;31 Jan 2020\nb;c;1 February 2020 10:00\n",
        None,
        "TemporalEdges(2 edges, 3 nodes, 2020-01-31 to 2020-02-01); src: ['a', 'b']; dst: ['b', 'c']; time: ["
        "datetime.datetime(2020, 1, 31, 0, 0), datetime.datetime(2020, 2, 1, 10, 0)]",
    ),
    (
        "month-first.csv",
        "src;dst;time\na;b;Jan 31, 2020\nb;c;Fri, Feb 1, 2020\n",
        None,
        "TemporalEdges(2 edges, 3 nodes, 2020-01-31 to 2020-02-01); src: ['a', 'b']; dst: ['b', 'c']; time: ["
        "datetime.datetime(2020, 1, 31, 0, 0), datetime.datetime(2020, 2, 1, 0, 0)]",
    ),
    (
        "no-such-day.csv",
        "src,dst,time\na,b,2020-02-30\n",
        None,
        "ReadError: no-such-day.csv: The 'time' in data row 1 (src: 'a', dst: 'b', time: '2020-02-30') is '20"
        "20-02-30', which is not a date of the calendar. Correct or drop that row. Or pass the format of all "
        "times, such as time_format='%d.%m.%Y %H:%M'.",
    ),
    (
        "compact-dates.csv",
        "src,dst,time\na,b,20200131\nb,c,20200201\n",
        dict(time_format="%Y%m%d"),
        "TemporalEdges(2 edges, 3 nodes, 2020-01-31 to 2020-02-01); src: ['a', 'b']; dst: ['b', 'c']; time: ["
        "datetime.datetime(2020, 1, 31, 0, 0), datetime.datetime(2020, 2, 1, 0, 0)]",
    ),
    (
        "seconds.csv",
        "src,dst,time\na,b,1580000000\nb,c,1580000060\n",
        dict(time_unit="s"),
        "TemporalEdges(2 edges, 3 nodes, 2020-01-26 to 2020-01-26); src: ['a', 'b']; dst: ['b', 'c']; time: ["
        "datetime.datetime(2020, 1, 26, 0, 53, 20), datetime.datetime(2020, 1, 26, 0, 54, 20)]",
    ),
    (
        "fractions.csv",
        "src,dst,time\na,b,1580000000.5\nb,c,1580000060\n",
        dict(time_unit="s"),
        "TemporalEdges(2 edges, 3 nodes, 2020-01-26 to 2020-01-26); src: ['a', 'b']; dst: ['b', 'c']; time: ["
        "datetime.datetime(2020, 1, 26, 0, 53, 20, 500000), datetime.datetime(2020, 1, 26, 0, 54, 20)]",
    ),
    (
        "unit-of-dates.csv",
        "src,dst,time\na,b,2020-01-01\n",
        dict(time_unit="s"),
        "ReadError: unit-of-dates.csv: The 'time_unit' 's' is only for numbers, but these times are dates. Le"
        "ave it out.",
    ),
    (
        "nanoseconds.csv",
        "src,dst,time\na,b,2020-01-01T00:00:00.123456789\n",
        None,
        "TemporalEdges(1 edge, 2 nodes, 2020-01-01 to 2020-01-01); src: ['a']; dst: ['b']; time: [1577836800123456789]",
    ),
    (
        "mixed-forms.csv",
        "src,dst,time\na,b,2020-01-31\nb,c,31.01.2020\n",
        None,
        "ReadError: mixed-forms.csv: The 'time' in data row 2 (src: 'b', dst: 'c', time: '31.01.2020') is '31"
        ".01.2020', which is not a date written as in the first row, '2020-01-31'. Correct or drop that row. "
        "Or pass the format of all times, such as time_format='%d.%m.%Y %H:%M'.",
    ),
    (
        "labels.csv",
        "src,dst,time,fraud\na,b,1,0\nb,c,2,\nc,d,3,NA\nd,e,4,1\n",
        dict(label="fraud"),
        "TemporalEdges(4 edges, 5 nodes, time 1 to 4, label: 2 values (2 unknown)); src: ['a', 'b', 'c', 'd']"
        "; dst: ['b', 'c', 'd', 'e']; time: [1, 2, 3, 4]; label: [0.0, nan, nan, 1.0]",
    ),
    (
        "word-labels.csv",
        "src,dst,time,fraud\na,b,1,ok\nb,c,2,?\nc,d,3,n/a\nd,e,4,bad\n",
        dict(label="fraud", missing=["?"]),
        "TemporalEdges(4 edges, 5 nodes, time 1 to 4, label: 2 values (2 unknown)); src: ['a', 'b', 'c', 'd']"
        "; dst: ['b', 'c', 'd', 'e']; time: [1, 2, 3, 4]; label: ['ok', None, None, 'bad']",
    ),
    (
        "number-labels.csv",
        "src,dst,time,fraud\na,b,1,0\nb,c,2,?\nd,e,4,1\n",
        dict(label="fraud", missing="?"),
        "TemporalEdges(3 edges, 5 nodes, time 1 to 4, label: 2 values (1 unknown)); src: ['a', 'b', 'd']; dst"
        ": ['b', 'c', 'e']; time: [1, 2, 4]; label: [0.0, nan, 1.0]",
    ),
    (
        "truth-labels.csv",
        "src,dst,time,fraud\na,b,1,True\nb,c,2,\nd,e,4,FALSE\n",
        dict(label="fraud"),
        "TemporalEdges(3 edges, 5 nodes, time 1 to 4, label: 2 values (1 unknown)); src: ['a', 'b', 'd']; dst"
        ": ['b', 'c', 'e']; time: [1, 2, 4]; label: ['True', None, 'FALSE']",
    ),
    (
        "label-time.csv",
        "src,dst,time,y,known\na,b,2020-01-01,0,2020-02-01\nb,c,2020-01-02,,\nc,d,2020-01-03,1,9999-12-31\n",
        dict(label="y", label_time="known"),
        "TemporalEdges(3 edges, 4 nodes, 2020-01-01 to 2020-01-03, label: 2 values (1 unknown), label_time); "
        "src: ['a', 'b', 'c']; dst: ['b', 'c', 'd']; time: [datetime.datetime(2020, 1, 1, 0, 0), datetime.dat"
        "etime(2020, 1, 2, 0, 0), datetime.datetime(2020, 1, 3, 0, 0)]; label: [0.0, nan, 1.0]; label_time: ["
        "datetime.datetime(2020, 2, 1, 0, 0), 9223372036854775807, datetime.datetime(9999, 12, 31, 0, 0)]",
    ),
    (
        "label-time-missing.csv",
        "src,dst,time,y,known\na,b,1,0,\nb,c,2,,\n",
        dict(label="y", label_time="known"),
        "ReadError: label-time-missing.csv: The 'label_time' is missing in data row 1 (src: 'a', dst: 'b', ti"
        "me: 1, label: 0, label_time: None), whose label is known. Pass the time when it became known, or mak"
        "e the label missing too.",
    ),
    (
        "label-delay.csv",
        "src,dst,time,y\na,b,1,0\nb,c,2,1\n",
        dict(label="y", label_delay=3),
        "TemporalEdges(2 edges, 3 nodes, time 1 to 2, label: 2 values, label_time); src: ['a', 'b']; dst: ['b"
        "', 'c']; time: [1, 2]; label: [0, 1]; label_time: [4, 5]",
    ),
    (
        "weights.csv",
        "src,dst,time,w\na,b,1,0.5\nb,c,2,3\n",
        dict(weight="w"),
        "TemporalEdges(2 edges, 3 nodes, time 1 to 2, weight); src: ['a', 'b']; dst: ['b', 'c']; time: [1, 2]"
        "; weight: [0.5, 3.0]",
    ),
    (
        "features.csv",
        "id,src,dst,time,amount,kind,booked,same\n1,a,b,1,2.5,x,2020-01-01,1\n2,b,c,2,,y,2020-01-02,1\n3,c,d,3,4,,2020-01-03,1\n",
        None,
        "TemporalEdges(3 edges, 4 nodes, time 1 to 3, 2 features); src: ['a', 'b', 'c']; dst: ['b', 'c', 'd']"
        "; time: [1, 2, 3]; amount: [2.5, nan, 4.0]; kind: [0.0, 1.0, nan]; kind are ('x', 'y')",
    ),
    (
        "categories.csv",
        "src,dst,time,mcc\na,b,1,5411\nb,c,2,\nc,d,3,5812\n",
        dict(categories="mcc"),
        "TemporalEdges(3 edges, 4 nodes, time 1 to 3, 1 feature); src: ['a', 'b', 'c']; dst: ['b', 'c', 'd'];"
        " time: [1, 2, 3]; mcc: [0.0, nan, 1.0]; mcc are ('5411', '5812')",
    ),
    (
        "label-as-feature.csv",
        "src,dst,time,y\na,b,1,0\n",
        dict(label="y", features=["y"]),
        "ReadError: label-as-feature.csv: The column 'y' is the 'label', and as a feature it would reveal the"
        " label to predict. Leave it out of features=.",
    ),
    (
        "thousands.csv",
        'src,dst,time,x\na,b,1,"1,234.50"\nb,c,2,"3,20"\n',
        None,
        "TemporalEdges(2 edges, 3 nodes, time 1 to 2, 1 feature); src: ['a', 'b']; dst: ['b', 'c']; time: [1,"
        " 2]; x: [0.0, 1.0]; x are ('1,234.50', '3,20'); warned: The feature 'x' is read as 2 different words"
        ", such as '1,234.50'. To have numbers, write them as 1234.56.",
    ),
    (
        "same-names.csv",
        "src,dst,time,x,x\na,b,1,2,3\nb,c,2,3,4\n",
        dict(features=[3, 4]),
        "TemporalEdges(2 edges, 3 nodes, time 1 to 2, 2 features); src: ['a', 'b']; dst: ['b', 'c']; time: [1"
        ", 2]; x (column 3): [2.0, 3.0]; x (column 4): [3.0, 4.0]",
    ),
    (
        "same-name-asked.csv",
        "src,dst,time,x,x\na,b,1,2,3\n",
        dict(features="x"),
        "ReadError: same-name-asked.csv: The name 'x' for 'features' stands for the columns [3, 4]. Pass a po"
        "sition, such as features=3.",
    ),
    (
        "two-sources.csv",
        "src,user,dst,time\na,x,b,1\nb,y,c,2\n",
        None,
        "TemporalEdges(2 edges, 3 nodes, time 1 to 2, 1 feature); src: ['a', 'b']; dst: ['b', 'c']; time: [1, 2]; user: [0.0, 1.0]; user are ('x', 'y')",
    ),
    (
        "shop-names.csv",
        "Card No;Merchant;booked at;Betrag\n17;Kiosk;31.01.2020;3\n18;Shop;01.02.2020;4\n",
        None,
        "TemporalEdges(2 edges, 4 nodes, 2020-01-31 to 2020-02-01, 1 feature); src: ['17', '18']; dst: ['Kios"
        "k', 'Shop']; time: [datetime.datetime(2020, 1, 31, 0, 0), datetime.datetime(2020, 2, 1, 0, 0)]; Betr"
        "ag: [3.0, 4.0]",
    ),
    (
        "lines.jsonl",
        '{"src": "a", "dst": 1, "time": 1.5}\n\n{"src": "b", "dst": "1", "time": 2, "x": true}\n',
        None,
        "TemporalEdges(2 edges, 3 nodes, time 1.5 to 2); src: ['a', 'b']; dst: ['1', '1']; time: [1.5, 2.0]",
    ),
    (
        "nested.jsonl",
        '{"src": "a", "dst": "b", "time": 1, "x": {"y": 1}, "z": [1]}\n{"src": "b", "dst": "c", "time": 2}\n',
        None,
        "TemporalEdges(2 edges, 3 nodes, time 1 to 2); src: ['a', 'b']; dst: ['b', 'c']; time: [1, 2]",
    ),
    (
        "nested-id.jsonl",
        '{"src": ["a"], "dst": "b", "time": 1}\n',
        None,
        "ReadError: nested-id.jsonl: The 'src' must have one value per row. Got ['a'] in data row 1 (src: ['a"
        "'], dst: 'b', time: 1). Put the value that you need into a column of its own.",
    ),
    (
        "mixed-values.jsonl",
        '{"src": 1, "dst": 2, "time": 1, "x": 1}\n{"src": 2, "dst": 3, "time": 2, "x": "two"}\n{"src": 2, "dst": 3, "time": 3, "x": 1.5}\n',
        None,
        "TemporalEdges(3 edges, 3 nodes, time 1 to 3, 1 feature); src: [1, 2, 2]; dst: [2, 3, 3]; time: [1, 2"
        ", 3]; x: [0.0, 2.0, 1.0]; x are ('1', '1.5', 'two')",
    ),
    (
        "late-decimals.jsonl",
        "".join(f'{{"src": {k}, "dst": 0, "time": {k}, "x": 1}}\n' for k in range(1, 120))
        + '{"src": 1, "dst": 0, "time": 120, "x": 1.5}\n',
        None,
        "TemporalEdges(120 edges, 120 nodes, time 1 to 120, 1 feature, bipartite); src: [116, 117, 118, 119, "
        "1]; dst: [0, 0, 0, 0, 0]; time: [116, 117, 118, 119, 120]; x: [1.0, 1.0, 1.0, 1.0, 1.5]",
    ),
    (
        "late-key.jsonl",
        "".join(f'{{"src": {k}, "dst": 0, "time": {k}}}\n' for k in range(1, 120))
        + '{"src": 1, "dst": 0, "time": 120, "y": 1}\n',
        dict(label="y"),
        "TemporalEdges(120 edges, 120 nodes, time 1 to 120, label: 1 value (119 unknown), bipartite); src: [1"
        "16, 117, 118, 119, 1]; dst: [0, 0, 0, 0, 0]; time: [116, 117, 118, 119, 120]; label: [nan, nan, nan,"
        " nan, 1.0]",
    ),
    (
        "constants.jsonl",
        '{"src": 1, "dst": 2, "time": 1, "x": NaN}\n{"src": 2, "dst": 3, "time": 2, "x": 1}\n',
        None,
        "TemporalEdges(2 edges, 3 nodes, time 1 to 2); src: [1, 2]; dst: [2, 3]; time: [1, 2]",
    ),
    (
        "infinity.jsonl",
        '{"src": 1, "dst": 2, "time": Infinity}\n',
        None,
        "ReadError: infinity.jsonl: The 'time' must be finite. Got inf in data row 1 (src: 1, dst: 2, time: i"
        "nf). Drop that row: an edge needs a time.",
    ),
    (
        "truth-with-numbers.jsonl",
        '{"src": 1, "dst": 2, "time": 1, "y": true}\n{"src": 2, "dst": 3, "time": 2, "y": 1}\n',
        dict(label="y"),
        "TemporalEdges(2 edges, 3 nodes, time 1 to 2, label: 2 values); src: [1, 2]; dst: [2, 3]; time: [1, 2"
        "]; label: ['true', '1']",
    ),
    (
        "big-numbers.jsonl",
        '{"src": 99999999999999999999, "dst": 2, "time": 1}\n{"src": 2, "dst": 3, "time": 2}\n',
        None,
        "TemporalEdges(2 edges, 3 nodes, time 1 to 2); src: ['99999999999999999999', '2']; dst: ['2', '3']; t"
        "ime: [1, 2]",
    ),
    (
        "array.jsonl",
        '[{"src": 1, "dst": 2, "time": 1}]\n',
        None,
        'ReadError: array.jsonl: line 1 is not a JSON object: \'[{"src": 1, "dst": 2, "time": 1}]\'. Write one '
        "object per line, in UTF-8 and without commas between them. An array of objects must be split into li"
        "nes first.",
    ),
    (
        "pretty.json",
        '{\n  "src": 1\n}\n',
        None,
        "ReadError: pretty.json: line 1 is not a JSON object: '{' (Expecting property name enclosed in double"
        " quotes). Write one object per line, in UTF-8 and without commas between them.",
    ),
    (
        "cut.jsonl",
        '{"src": 1, "dst": 2, "time": 1}\n{"src": 2, "dst"',
        None,
        "ReadError: cut.jsonl: line 2 is not a JSON object: '{\"src\": 2, \"dst\"' (Expecting ':' delimiter). Wri"
        "te one object per line, in UTF-8 and without commas between them.",
    ),
    (
        "commas.jsonl",
        '{"src": 1, "dst": 2, "time": 1},\n{"src": 2, "dst": 3, "time": 2}\n',
        None,
        'ReadError: commas.jsonl: line 1 is not a JSON object: \'{"src": 1, "dst": 2, "time": 1},\' (Extra data'
        "). Write one object per line, in UTF-8 and without commas between them.",
    ),
    (
        "numbers.jsonl",
        "1\n2\n",
        None,
        "ReadError: numbers.jsonl: line 1 is not a JSON object: '1'. Write one object per line, in UTF-8 and "
        "without commas between them.",
    ),
    (
        "empty.jsonl",
        "\n",
        None,
        "ReadError: empty.jsonl: the file has no rows. Check that it was written or downloaded in full.",
    ),
    (
        "half-character.jsonl",
        '{"src": "a\\ud83d", "dst": "b", "time": 1}\n',
        None,
        "TemporalEdges(1 edge, 2 nodes, time 1 to 1); src: ['a?']; dst: ['b']; time: [1]",
    ),
    (
        "escaped.jsonl",
        '{"src": "a],[b", "dst": "\\u00fc", "time": "2020-01-01T00:00:00Z"}\n',
        None,
        "TemporalEdges(1 edge, 2 nodes, 2020-01-01 to 2020-01-01); src: ['a],[b']; dst: ['ü']; time: [datetim"
        "e.datetime(2020, 1, 1, 0, 0)]",
    ),
    (
        "text-times.jsonl",
        '{"src": 7, "dst": "7", "time": "5"}\n{"src": "007", "dst": 8, "time": "6"}\n',
        None,
        "TemporalEdges(2 edges, 3 nodes, time 5 to 6); src: ['7', '007']; dst: ['7', '8']; time: [5, 6]",
    ),
    (
        "option-of-csv.jsonl",
        '{"src": 1, "dst": 2, "time": 1}\n',
        dict(separator=","),
        "ReadError: option-of-csv.jsonl: The 'separator' is for csv files, and this is JSON lines. Got ','. L"
        "eave out separator=.",
    ),
    (
        "not-parquet.parquet",
        "src,dst,time\na,b,1\n",
        None,
        "ReadError: not-parquet.parquet: this is not a parquet file, or it is damaged (it holds no footer). I"
        "f it is text, rename it to .csv; else download or write it again.",
    ),
    (
        "workbook.csv",
        b"PK\x03\x04....xl/workbook.xml",
        None,
        "ReadError: workbook.csv: this is an Excel workbook. Export its sheet as csv (in Excel: Save As, CSV "
        "UTF-8), or save it as parquet.",
    ),
    (
        "picture.csv",
        b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x00",
        None,
        "ReadError: picture.csv: this is not text but binary data; it begins with b'\\x89PNG\\r\\n\\x1a\\n\\x00\\x00"
        "\\x00\\rIHDR'. Pass csv or JSON lines in UTF-8, also gzipped, or parquet.",
    ),
    (
        "parquet.csv",
        b"PAR1\x00\x00\x00\x00",
        None,
        "ReadError: parquet.csv: this is a parquet file. Rename it to .parquet.",
    ),
]


@pytest.mark.parametrize(("name", "content", "options", "wanted"), FILES, ids=[file[0] for file in FILES])
def test_an_odd_file(tmp_path, name, content, options, wanted):
    assert described(tmp_path, name, content, options or {}) == wanted

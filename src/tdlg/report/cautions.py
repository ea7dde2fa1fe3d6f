"""What a reader should know before trusting the figures: labels of one class only at the end, another question measured."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tdlg.judge.holdout import HeldOut
from tdlg.report.selection import Selected
from tdlg.report.subject import Subject
from tdlg.report.text import count, escaped, percent

__all__ = ["LastLabels", "cautions", "last_labels"]

FEWEST = 5  # labels of one class at the end that are worth a word
CHANCE = 1e-6  # probability of that many labels of one class by chance, below which the page mentions them


class LastLabels(NamedTuple):
    """The last labels, all of one class, which those before make unlikely."""

    code: int  # the class
    n: int
    start: Any  # the time of the first of them
    share_before: float  # of this class among the labels before


def last_labels(ticks: NDArray[Any], codes: NDArray[np.int64]) -> LastLabels | None:
    """Find labels of one class at the end of time that are no chance; None where there are no such labels.

    Parameters
    ----------
    ticks
        The times of the edges.
    codes
        Their classes, -1 where unknown.
    """
    known = np.flatnonzero(codes >= 0)
    known = known[np.argsort(ticks[known], kind="stable")]
    times, classes = ticks[known], codes[known]
    others = np.flatnonzero(classes != classes[-1:])
    if not len(others):
        return None
    start = int(np.searchsorted(times, times[others[-1]], "right"))  # what happened at that time is not after it
    n, share = len(classes) - start, float(np.mean(classes[:start] == classes[-1]))
    if n < FEWEST or (share > 0 and n * np.log(share) > np.log(CHANCE)):
        return None
    return LastLabels(int(classes[-1]), n, times[start], share)


def cautions(subject: Subject, held: HeldOut | None, selected: Selected, last: LastLabels | None) -> str:
    """The warnings, as HTML; empty where there are none."""
    found = []
    if last is not None:
        found.append(
            f"<b>The latest labels are all of one class.</b> The last {count(last.n, 'label')}, from "
            f"{escaped(subject.clock.short(last.start))} on, are all {escaped(subject.called(last.code))}; of the earlier "
            f"labels, {percent(last.share_before)} are. Labels of this class probably become known sooner than others. "
            f"The quality measured on these labels means little, and the chart of shares over time leaves them out."
        )
    late = _later_than_every_label(subject, selected)
    if held is not None and held.how == "random" and late > len(selected.edges) / 2:
        found.append(
            f"<b>The quality below was measured in another setting.</b> {late:,} of the "
            f"{count(len(selected.edges), 'interaction')} to predict "
            f"are later than every label, but the labels held out were chosen at random among earlier and later "
            f"ones. Expect worse predictions than measured. To measure this setting, hold out the last labels: "
            f"<code>--evaluate forecast</code>, or <code>evaluate=&quot;time&quot;</code> in Python."
        )
    items = "".join(f"<p>{text}</p>" for text in found)
    return f'<div class="cautions" role="note" aria-label="Warnings">{items}</div>' if found else ""


def _later_than_every_label(subject: Subject, selected: Selected) -> int:
    if not selected.is_to_predict:
        return 0
    learnt = subject.learnt
    return int(np.count_nonzero(selected.edges.ticks > learnt.ticks[learnt.labelled].max()))

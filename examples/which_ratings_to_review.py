"""Which ratings should a trading site review if it has time for ten per week?

On Bitcoin OTC, traders rate each other after a deal. The deal is known at once; whether the rating will be distrust is to
be predicted. Each rating is scored with the labels of strictly earlier ones.
"""

import sys

import numpy as np

from tdlg import PropagationClassifier, TemporalEdges
from tdlg.datasets import load_dataset
from tdlg.exceptions import ReadError
from tdlg.judge.methods import make_method

START = np.datetime64("2013-07-01T00:00:00")  # earlier ratings are for training, later ones for the evaluation
BUDGET = 10  # ratings per week


def load_ratings() -> TemporalEdges:
    """The ratings in the order of time, with dates and with labels in words."""
    ratings = load_dataset("bitcoinotc", dates=True)
    ratings = ratings.with_label(np.where(ratings.label == 1, "trust", "distrust"))
    return ratings[np.argsort(ratings.time, kind="stable")]


def top_of_each_week(risk: np.ndarray, week: np.ndarray) -> np.ndarray:
    """Positions of the ratings to review: week by week, the riskiest first."""
    order = np.lexsort((-risk, week))
    rank = np.arange(len(order)) - np.searchsorted(week[order], week[order])
    return order[rank < BUDGET]


def main() -> None:
    ratings = load_ratings()
    past, new = ratings[ratings.time < START], ratings[ratings.time >= START]
    week = (new.time - START) // np.timedelta64(7, "D")
    is_distrust = new.label == "distrust"

    model = PropagationClassifier(setting="stream", random_state=0).fit(past)
    distrust = list(model.classes_).index("distrust")
    risk = model.predict_proba(new)[:, distrust]  # a label in `new` counts for strictly later ratings only

    rates = make_method("label-rates", stream=True, random_state=0)
    rates.fit(past)
    alerts = top_of_each_week(risk, week)
    by_rates = top_of_each_week(-rates.decision_function(new), week)  # its scores are high for the second class, trust

    weeks, per_week = np.unique(week, return_counts=True)
    bad_per_week = np.array([is_distrust[week == number].sum() for number in weeks])
    by_chance = (np.minimum(BUDGET, per_week) * bad_per_week / per_week).sum()
    best = np.minimum(BUDGET, bad_per_week).sum()

    print(f"Learnt from {len(past):,} ratings before {START.astype('datetime64[D]')}; {len(new):,} followed in")
    print(f"{len(weeks)} weeks, {is_distrust.sum():,} of them distrust. {BUDGET} per week are reviewed.\n")
    print(f"{'':24} reviewed  distrust among them")
    for name, found in (
        ("this package", is_distrust[alerts].sum()),
        ("label rates by trader", is_distrust[by_rates].sum()),
        ("chosen at random", by_chance),
        ("knowing the answer", best),
    ):
        print(f"{name:24}{len(alerts):9,}  {found:6,.0f}  {found / len(alerts):4.0%}")

    print("\nThe first three to review:")
    reasons = model.explain(new, top=2, rows=alerts[:3], positive="distrust")
    for i in alerts[:3]:
        when = new.time[i].astype("datetime64[s]")
        print(f"{when}  {new.src[i]} rates {new.dst[i]}: {risk[i]:.0%} distrust; it was {new.label[i]}")
        for reason, effect in reasons.filter(reasons["edge"] == i)["reason", "effect"].iter_rows():
            print(f"  {'for' if effect > 0 else 'against'}: {reason}")


if __name__ == "__main__":
    try:
        main()
    except ReadError as error:  # the data are not available: the message says which file to put where
        print(error, file=sys.stderr)
        sys.exit(77)

"""Does the network improve the model that I have?

Votes on who becomes an administrator of Wikipedia: for a random 30 % of them, it is not recorded whether they were for or
against. A model has columns of its own, here the hour, the weekday, and the number of earlier votes of candidate and voter.
The same boosted trees then get the columns of this package too, as steps of a scikit-learn pipeline. (This fills gaps in a
record, where later votes are known. To predict future votes, see which_ratings_to_review.py.)
"""

import sys
from operator import attrgetter

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer

from tdlg import EdgeEmbedding, PropagationFeatures, TemporalEdges
from tdlg.datasets import load_dataset
from tdlg.exceptions import ReadError
from tdlg.judge.methods import make_method

HOUR = 3600  # seconds


def so_far(node: np.ndarray) -> np.ndarray:
    """The number of earlier rows with the same node."""
    order = np.argsort(node, kind="stable")
    count = np.empty(len(node))
    count[order] = np.arange(len(node)) - np.searchsorted(node[order], node[order])
    return count


def load_votes() -> TemporalEdges:
    """The votes in the order of time, 1 for those against, with the columns of my model as features."""
    votes = load_dataset("wikielect")
    votes = votes[np.argsort(votes.time, kind="stable")]
    mine = {
        "hour": votes.time // HOUR % 24,
        "weekday": votes.time // (24 * HOUR) % 7,
        "votes on the candidate": so_far(votes.dst),
        "votes of the voter": so_far(votes.src),
    }
    return TemporalEdges(votes.src, votes.dst, votes.time, label=1 - votes.label, features=mine)


def main() -> None:
    known, gaps = train_test_split(load_votes(), test_size=0.3, random_state=0)
    mine = FunctionTransformer(attrgetter("features"))
    print(
        f"{len(known):,} votes are known, {len(gaps):,} are to be predicted; {gaps.label.mean():.0%} of them against.\n"
    )
    print(f"{'':40}AUC    average precision")
    for name, columns in {
        "my columns": mine,
        "my columns, 16 vectors (EdgeEmbedding)": make_union(mine, EdgeEmbedding(16, random_state=0)),
        "my columns, PropagationFeatures": PropagationFeatures(),  # takes the features of edges along
    }.items():
        model = make_pipeline(columns, HistGradientBoostingClassifier(random_state=0)).fit(known, known.label)
        show(name, gaps.label, model.predict_proba(gaps)[:, 1])
    rates = make_method("label-rates", random_state=0)
    rates.fit(known)
    show("label rates by voter and candidate", gaps.label, rates.decision_function(gaps))


def show(name: str, is_against: np.ndarray, score: np.ndarray) -> None:
    print(f"{name:40}{roc_auc_score(is_against, score):.3f}  {average_precision_score(is_against, score):.2f}")


if __name__ == "__main__":
    try:
        main()
    except ReadError as error:  # the data are not available: the message says which file to put where
        print(error, file=sys.stderr)
        sys.exit(77)

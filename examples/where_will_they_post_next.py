"""Which topic will this member of a forum write to next?

Whenever somebody is about to post, every topic is a candidate. The line graph between candidates and posts, multiplied by
ones, gives counts of earlier posts that decay over an hour to a month: of the same member in the same topic ("pair"), and
of anybody in that topic ("dst"). Logistic regression learns how to weigh these counts.
"""

import sys

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tdlg import Laplace, LineGraph, TemporalEdges
from tdlg.datasets import load_dataset
from tdlg.exceptions import ReadError

SAMPLED = 1000  # posts to learn from, and the number of later ones to predict
BANDWIDTHS = ("1h", "1d", "7d", "30d")
NOTHING = 1e-9  # added to counts, because 0 has no log


def columns(predicted: TemporalEdges, topics: np.ndarray, posts: TemporalEdges) -> np.ndarray:
    """For each post to predict and each topic, logs of decayed counts of strictly earlier posts."""
    member, time = np.repeat(predicted.src, len(topics)), np.repeat(predicted.time, len(topics))
    candidates = TemporalEdges(member, np.tile(topics, len(predicted)), time, bipartite=True)
    counts = [
        LineGraph(candidates, posts, decay=Laplace(bandwidth), match=match, past_only=True) @ np.ones(len(posts))
        for match in ("pair", "dst")
        for bandwidth in BANDWIDTHS
    ]
    return np.log(np.column_stack(counts) + NOTHING)


def plain_rules(posts: TemporalEdges, predicted: set[int]) -> dict[str, np.ndarray]:
    """What one would try first: for each post to predict, a score of each topic by the posts before it."""
    member, topic = posts.src_code, posts.dst_code - posts.n_src_nodes
    last, often = np.zeros((2, posts.n_src_nodes, posts.n_nodes - posts.n_src_nodes))
    rules = {"where they posted last": [], "where they posted most": [], "where most is posted": []}
    for i, (who, where) in enumerate(zip(member, topic, strict=True)):
        if i in predicted:
            for scores, score in zip(rules.values(), (last[who], often[who], often.sum(axis=0)), strict=True):
                scores.append(score.copy())
        last[who, where] = i + 1
        often[who, where] += 1
    return {name: np.array(scores) for name, scores in rules.items()}


def ranks(scores: np.ndarray, right: np.ndarray) -> np.ndarray:
    """How many topics score higher than the right one; of those that score the same, half."""
    own = scores[right][:, np.newaxis]
    return (scores > own).sum(axis=1) + ((scores == own).sum(axis=1) - 1) / 2


def main() -> None:
    posts = load_dataset("fb-forum", dates=True)
    posts = posts[np.argsort(posts.time, kind="stable")]
    rng, fifth, topics = np.random.default_rng(0), len(posts) // 5, np.unique(posts.dst)
    early, late = (start + np.sort(rng.choice(fifth, SAMPLED, replace=False)) for start in (3 * fifth, 4 * fifth))
    right_early, right = (posts.dst[rows][:, np.newaxis] == topics for rows in (early, late))

    model = make_pipeline(StandardScaler(), LogisticRegression())
    model.fit(columns(posts[early], topics, posts), right_early.ravel())
    ours = model.decision_function(columns(posts[late], topics, posts)).reshape(right.shape)
    rules = plain_rules(posts, set(late.tolist()))

    print(f"{len(posts):,} posts of {posts.n_src_nodes} members to {len(topics)} topics.")
    print(
        f"Learnt from {SAMPLED:,} posts of the fourth fifth; {SAMPLED:,} of the last fifth are predicted, one by one.\n"
    )
    print(f"{'the right topic is':26}first  among 3  among 10")
    for name, scores in {"this package": ours, **rules}.items():
        first, three, ten = ((ranks(scores, right) < k).mean() for k in (1, 3, 10))
        print(f"{name:26}{first:5.0%}  {three:7.0%}  {ten:8.0%}")

    last = posts[late[-1] : late[-1] + 1]
    print(f"\nMember {last.src[0]} at {last.time[0]}:")
    for place, topic in enumerate(np.argsort(-ours[-1], kind="stable")[:5], start=1):
        times = f"{rules['where they posted most'][-1, topic]:.0f} earlier posts"
        print(f"  {place}. topic {topics[topic]:<4} {times}{'; correct' if right[-1, topic] else ''}")


if __name__ == "__main__":
    try:
        main()
    except ReadError as error:  # the data are not available: the message says which file to put where
        print(error, file=sys.stderr)
        sys.exit(77)

"""The next partner is ranked: a_thousand_candidates."""

import os

from _bench import claim, data_file, main

from tdlg import LinkRanker
from tdlg.datasets import load_dataset
from tdlg.judge.ranking import RankingTask, evaluate_ranking


@claim(
    "Wikipedia's 110,000 edits are learnt in three minutes, and a query ranks 1,000 candidates in 5 ms. TGB's split.",
    OMP_NUM_THREADS="1",
)
def a_thousand_candidates(claim):
    os.environ["TDLG_DATA"] = str(data_file("ml_wikipedia.txt").parent)
    task = RankingTask(load_dataset("wikipedia"))
    LinkRanker(n_trees=2).fit(task.part("train")[:1000]).top(1)  # compiled before it is timed
    result = evaluate_ranking(LinkRanker("trees", random_state=0), task)
    claim.check("fit, CPU seconds", result.fit_seconds, 180)
    claim.check("one query of 1,000 candidates, CPU milliseconds", result.query_milliseconds, 5)
    claim.check("test MRR", result.by_edge.mrr, 0.829, at_least=True)


if __name__ == "__main__":
    main()

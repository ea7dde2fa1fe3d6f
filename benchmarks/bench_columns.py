"""Propagated columns, fits with them, and bursts.

columns_of_three_scales, a_million_payments, beside_lightgbm, bursts_of_darpa
"""

import io
import statistics
import zipfile
from time import perf_counter, process_time

import numpy as np
import polars as pl
from _bench import claim, data_file, epinions_topology, hide_labels, main, not_run
from sklearn.metrics import roc_auc_score

from tdlg import BurstDetector, PropagationClassifier, PropagationFeatures, TemporalEdges, make_payments


def payments(n, n_features, n_known=None):
    """Payments with their amount and other numbers; the labels from the n_known-th on are missing."""
    made, rng = make_payments(n, random_state=0).edges, np.random.default_rng(0)
    features = {f"number {k}": rng.lognormal(size=n) for k in range(1, n_features)}
    features["amount"] = np.asarray(made.features)[:, 0]
    label = np.where(np.arange(n) < (n_known or n), np.asarray(made.label, float), np.nan)
    return TemporalEdges(made.src, made.dst, made.time, label=label, features=features, bipartite=True)


def seconds_of(clock, work):
    start = clock()
    work()
    return clock() - start


@claim("The columns of three time scales of Epinions' 841,372 edges are made in 5 seconds. 30 % of the labels hidden.")
def columns_of_three_scales(claim):
    edges = epinions_topology()
    labels, _ = hide_labels(edges)
    features = PropagationFeatures(scales=(0.001, 0.03, 1.0), two_ends="none")
    features.fit(edges[:2000], labels[:2000]).transform(edges[:2000])  # compiled
    times = []
    for _ in range(3):
        fresh = TemporalEdges(edges.src, edges.dst, edges.time)
        start = perf_counter()
        columns = features.fit(fresh, labels).transform(fresh)
        times.append(perf_counter() - start)
    claim.check("seconds", statistics.median(times), 5, note=f"{columns.shape[1]} columns, layouts included")


@claim(
    "A million payments with two amounts: columns in 10 seconds, a fit in 30. Past only, all cores, a tenth unlabelled."
)
def a_million_payments(claim, n=1_000_000):
    edges = payments(n, 2, round(0.9 * n))
    n_columns = PropagationFeatures(past_only=True).fit(edges).transform(edges).shape[1]  # compiled; memory is there
    fresh = payments(n, 2, round(0.9 * n))  # without what was kept for the columns
    columns = seconds_of(perf_counter, lambda: PropagationFeatures(past_only=True).fit(fresh).transform(fresh))
    claim.check("seconds for the columns", columns, 10, note=f"{n_columns} columns")
    fresh = payments(n, 2, round(0.9 * n))
    fit = seconds_of(perf_counter, lambda: PropagationClassifier(setting="stream", random_state=0).fit(fresh))
    claim.check("seconds for the fit", fit, 30)


@claim(
    "A fit takes at most 5 times the processor time of LightGBM's 200 trees on 40 ready columns.", OMP_NUM_THREADS="1"
)
def beside_lightgbm(claim):
    try:
        from lightgbm import LGBMClassifier
    except ImportError:
        not_run("needs lightgbm")
    for n, n_features in ((20_000, 3), (50_000, 6)):
        edges = payments(n, n_features)
        ready = PropagationFeatures(past_only=True, n_threads=1).fit_transform(edges)[:, :40]
        model = PropagationClassifier(setting="stream", n_threads=1, random_state=0)
        trees = LGBMClassifier(n_estimators=200, num_leaves=15, learning_rate=0.05, n_jobs=1, verbose=-1)
        works = (lambda: model.fit(edges)), (lambda: trees.fit(ready, edges.label))
        turns = [[seconds_of(process_time, work) for work in works] for _ in range(4)]
        ours, theirs = (statistics.median(times) for times in zip(*turns[1:], strict=True))  # the first turn compiles
        what = f"times LightGBM's, {n:,} rows with {n_features} features"
        claim.check(what, ours / theirs, 5.0, note=f"{ours:.2f} s against {theirs:.2f} s")


@claim("DARPA's 4.6 million connections are scored without labels in 5 seconds of CPU; AUC of attacks at least 0.980.")
def bursts_of_darpa(claim):
    with zipfile.ZipFile(data_file("darpa.zip")) as archive:
        text = io.BytesIO(archive.read(archive.namelist()[0]))
    src, dst, time, attack = pl.read_csv(text, has_header=False, infer_schema=False).iter_columns()
    time = time.str.replace("07/32/1998", "08/01/1998", literal=True).str.to_datetime("%m/%d/%Y-%H:%M")
    ids = pl.concat([src, dst]).rank("dense").to_numpy().astype(np.int64)
    edges = TemporalEdges(ids[: len(src)], ids[len(src) :], time.to_numpy())
    BurstDetector().fit(edges[:1000])  # compiles
    start = process_time()
    detector = BurstDetector().fit(edges)
    seconds = process_time() - start
    auc = roc_auc_score((attack != "-").to_numpy(), -detector.scores_)
    claim.check("AUC", auc, 0.98, at_least=True, note=f"{detector.fast_!r}, {detector.slow_!r}")
    claim.check("seconds of CPU", seconds, 5)


if __name__ == "__main__":
    main()

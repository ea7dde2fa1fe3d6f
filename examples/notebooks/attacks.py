import marimo

app = marimo.App()


@app.cell
def _():
    import marimo as mo
    import numpy as np

    import tdlg

    mo.md("# An attack among usual traffic\n\nBursts are found in one pass, without labels and without the future.")
    return mo, np, tdlg


@app.cell
def _(np, tdlg):
    usual = tdlg.make_payments(random_state=2).edges
    rng = np.random.default_rng(0)
    start = np.datetime64("2025-06-20T03:00", "us")
    seconds = np.sort(rng.integers(0, 1200, 60)).astype("timedelta64[s]")
    edges = tdlg.TemporalEdges(
        np.append(usual.src, np.repeat(usual.src[:1], 60)),  # 60 interactions of one source within 20 minutes
        np.append(usual.dst, rng.choice(usual.dst, 60)),
        np.append(usual.time, start + seconds),
        label=np.append(np.zeros(len(usual), int), np.ones(60, int)),
        bipartite=True,
    )
    edges
    return (edges,)


@app.cell
def _(edges, mo, np, tdlg):
    detector = tdlg.BurstDetector(fast="1h", slow="30d").fit(edges)
    first = np.argsort(detector.scores_)[:60]  # the lower the score, the more of an outlier
    share = float(edges.label[first].mean())
    mo.md(
        f"{share:.0%} of the 60 most unusual interactions are of the attack, which is {edges.label.mean():.1%} of all."
    )
    return detector, first, share


@app.cell
def _(detector, edges, first):
    detector.explain(edges, rows=first[:5], top=1).select("src", "dst", "time", "reason")
    return


if __name__ == "__main__":
    app.run()

import marimo

app = marimo.App()


@app.cell
def _():
    import marimo as mo
    import numpy as np

    import tdlg

    mo.md("# Frauds among payments\n\nSynthetic card payments; a label becomes known days to weeks after its payment.")
    return mo, np, tdlg


@app.cell
def _(tdlg):
    payments = tdlg.make_payments(random_state=2)
    edges = payments.known_at("2025-06-01")  # yours: tdlg.read_edges("payments.csv", label="fraud")
    edges
    return edges, payments


@app.cell
def _(edges, tdlg):
    model = tdlg.PropagationClassifier(setting="forecast", random_state=0).fit(edges)
    table = model.explain(edges[~edges.labelled], top=1).sort("score", descending=True)
    table.select("src", "dst", "time", "score", "reason").head(10)
    return (model,)


@app.cell
def _(edges, mo, model, np, payments):
    june = edges.time >= np.datetime64("2025-06-01")
    first = np.argsort(-model.predict_proba(edges[june])[:, 1])[:20]
    fraud = payments.edges.label[june]  # the truth, which the model has not seen
    found, usual = float(fraud[first].mean()), float(fraud.mean())
    mo.md(f"Of the 20 payments of June with the highest scores, {found:.0%} are frauds; of all, {usual:.1%}.")
    return found, usual


if __name__ == "__main__":
    app.run()

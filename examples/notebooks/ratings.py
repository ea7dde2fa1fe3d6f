import marimo

app = marimo.App()


@app.cell
def _():
    import marimo as mo
    import numpy as np
    from sklearn.metrics import roc_auc_score

    import tdlg
    from tdlg.datasets import load_dataset

    mo.md(
        "# Distrust among ratings\n\nTraders on Bitcoin Alpha rate each other. Which of the latest ratings are distrust?"
    )
    return load_dataset, mo, np, roc_auc_score, tdlg


@app.cell
def _(load_dataset, np):
    ratings = load_dataset("bitcoinalpha", dates=True)
    ratings = ratings.with_label(np.where(ratings.label == 1, "trust", "distrust"))
    ratings
    return (ratings,)


@app.cell
def _(mo, np, ratings, roc_auc_score, tdlg):
    later = ratings.time >= np.sort(ratings.time)[len(ratings) * 7 // 10]
    known = ratings.with_label(np.where(later, None, ratings.label))
    model = tdlg.PropagationClassifier(setting="forecast", random_state=0).fit(known)
    risk = model.predict_proba(known[later])[:, list(model.classes_).index("distrust")]
    auc = float(roc_auc_score(ratings.label[later] == "distrust", risk))
    mo.md(f"Learnt from the first 70 % of the ratings; area under the curve of the others: {auc:.2f}.")
    return auc, known, later, model, risk


@app.cell
def _(known, later, model, np, risk):
    model.explain(known[later], rows=np.argsort(-risk)[:5], top=1).select("src", "dst", "time", "score", "reason")
    return


if __name__ == "__main__":
    app.run()

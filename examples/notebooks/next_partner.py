import marimo

app = marimo.App()


@app.cell
def _():
    import marimo as mo
    import numpy as np

    import tdlg
    from tdlg.datasets import load_dataset

    mo.md("# The next partner\n\nStudents write to each other. To whom will each sender of the last messages write?")
    return load_dataset, mo, np, tdlg


@app.cell
def _(load_dataset, np):
    messages = load_dataset("collegemsg", dates=True)
    messages = messages[np.argsort(messages.time, kind="stable")]
    messages
    return (messages,)


@app.cell
def _(messages, tdlg):
    past, last = messages[:-200], messages[-200:]
    ranker = tdlg.LinkRanker(random_state=0).fit(past)
    ranker.rank(last.src[0]).head(5)
    return last, ranker


@app.cell
def _(last, mo, np, ranker):
    senders, receivers = set(ranker.edges_.src.tolist()), set(ranker.edges_.dst.tolist())
    asked = [(src, dst) for src, dst in zip(last.src.tolist(), last.dst.tolist(), strict=True) if src in senders]
    asked = [(src, dst) for src, dst in asked if dst in receivers][:50]
    ranks = [ranker.rank(src)["dst"].to_list().index(dst) for src, dst in asked]
    among_ten = float(np.mean(np.array(ranks) < 10))
    mo.md(f"The right one is among the first ten for {among_ten:.0%} of {len(ranks)} messages.")
    return (among_ten,)


if __name__ == "__main__":
    app.run()

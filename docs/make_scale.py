"""Make the table and the plot of scale.md from results/scale.csv, which benchmarks add to. Needs matplotlib."""

import csv
from pathlib import Path

HERE = Path(__file__).parent
RESULTS = HERE.parent / "results" / "scale.csv"
PAGE = HERE / "scale.md"
START, END = "<!-- measured -->", "<!-- end -->"
STEPS = {
    "reading": "reading: labels, times, statistics",
    "sorting into buckets": "sorting into buckets",
    "looking at nodes": "gaps of nodes, shared ids",
    "making columns": "columns",
    "fitting": "fit, on a sample",
    "scoring": "scores of a tenth of the rows",
    "writing": "writing the table",
    "all classify": "**classify, all**",
    "layout": "line graph: layout",
    "product": "line graph: product",
    "explicit matrix": "line graph: the explicit matrix",
}


def measured() -> dict[tuple[str, int], dict[str, str]]:
    """The last row of each step and size."""
    with RESULTS.open() as file:
        return {(row["what"], int(row["n_edges"])): row for row in csv.DictReader(file)}


def table(rows: dict[tuple[str, int], dict[str, str]]) -> str:
    """Processor microseconds per edge, and bytes per edge."""
    sizes = sorted({n for _, n in rows})
    lines = [f"| processor microseconds per edge | {' | '.join(f'{n / 1e6:g} M' for n in sizes)} |"]
    lines.append("|---" * (len(sizes) + 1) + "|")
    for what, words in STEPS.items():
        cells = [f"{float(rows[what, n]['cpu_seconds']) / n * 1e6:.3g}" if (what, n) in rows else "" for n in sizes]
        if any(cells):
            lines.append(f"| {words} | {' | '.join(cells)} |")
    for what, words, field, unit in (
        ("all classify", "seconds of classify, on the wall", "seconds", 1),
        ("all classify", "classify: resident memory, GB", "peak_bytes", 1e9),
        ("all classify", "classify: temporary files, bytes per edge", "disk_bytes", None),
        ("all products", "line graph: resident memory, bytes per edge", "peak_bytes", None),
    ):
        cells = [f"{float(rows[what, n][field]) / (unit or n):.3g}" if (what, n) in rows else "" for n in sizes]
        lines.append(f"| {words} | {' | '.join(cells)} |")
    machines = ", ".join(dict.fromkeys(row["machine"] for row in rows.values()))
    return "\n".join([*lines, "", f"Machine: {machines}."])


def draw(rows: dict[tuple[str, int], dict[str, str]]) -> None:
    """Processor microseconds per edge against the number of edges."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "tdlg"
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
    for what in ("all classify", "making columns", "sorting into buckets", "product", "explicit matrix"):
        sizes = sorted(n for name, n in rows if name == what)
        values = [float(rows[what, n]["cpu_seconds"]) / n * 1e6 for n in sizes]
        if sizes:
            axes.plot(sizes, values, marker="o", label=STEPS[what].replace("*", ""))
    axes.set(xscale="log", yscale="log", xlabel="edges", ylabel="processor \N{MICRO SIGN}s per edge")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    figure.savefig(HERE / "images" / "scale.svg", metadata={"Date": None})


def main() -> None:
    """Write both."""
    rows = measured()
    before, _, rest = PAGE.read_text().partition(START)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{START}\n{table(rows)}\n{END}{after}")
    draw(rows)


if __name__ == "__main__":
    main()

"""Make the table and the plot of scale.md from results/scale.csv, which benchmarks add to. Needs matplotlib."""

import csv
from pathlib import Path

from tdlg_paper.tables import write_sections

HERE = Path(__file__).parent
RESULTS = HERE.parent / "results" / "scale.csv"
PAGE = HERE / "scale.md"
Rows = dict[tuple[str, int], dict[str, str]]
FIFTY = "50 products"
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
    "product": "line graph: one product",
    FIFTY: "line graph: 50 products, as for the paper's classifier with few vectors",
    "explicit matrix": "line graph: the explicit matrix",
}


def measured() -> Rows:
    """The last row of each step and size."""
    with RESULTS.open() as file:
        return {(row["what"], int(row["n_edges"])): row for row in csv.DictReader(file)}


def in_words(value: float) -> str:
    """A figure with three digits; nothing for 0, which was not measured."""
    return "" if not value else f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def figure(row: dict[str, str], field: str) -> float:
    """A field of a row; "risen_bytes" is the memory above that of the process before the work."""
    return float(row["peak_bytes"]) - float(row["base_bytes"]) if field == "risen_bytes" else float(row[field])


def lines_of(rows: Rows, title: str, field: str, steps: dict[str, str], unit: float, *, per_edge: bool) -> list[str]:
    """The lines of a table with one figure for each step and size, in a unit, per edge or of all edges."""
    sizes = sorted({n for _, n in rows})
    lines = [f"| **{title}** |{' |' * len(sizes)}"]
    for what, words in steps.items():
        of_size = {n: figure(rows[what, n], field) for n in sizes if (what, n) in rows}
        found = [of_size.get(n, 0.0) / unit / (n if per_edge else 1) for n in sizes]
        if any(found):
            lines.append(f"| {words} | {' | '.join(map(in_words, found))} |")
    return lines


def table(rows: Rows) -> list[str]:
    """Processor time, memory and temporary files of each step."""
    classify = {what: words for what, words in STEPS.items() if "line graph" not in words}
    every = {"all classify": "classify, all", FIFTY: "line graph: 50 products"}
    sizes = sorted({n for _, n in rows})
    lines = [f"| edges | {' | '.join(f'{n / 1e6:g} M' for n in sizes)} |", "|---" * (len(sizes) + 1) + "|"]
    lines += lines_of(rows, "processor microseconds per edge", "cpu_seconds", STEPS, 1e-6, per_edge=True)
    lines += lines_of(rows, "memory above the process itself, bytes per edge", "risen_bytes", STEPS, 1, per_edge=True)
    lines += lines_of(rows, "temporary files, bytes per edge at the peak", "disk_bytes", classify, 1, per_edge=True)
    lines += lines_of(rows, "memory, GB", "peak_bytes", every, 1e9, per_edge=False)
    machines = ", ".join(dict.fromkeys(row["machine"] for row in rows.values()))
    return [*lines, "", f"Machine: {machines}."]


def draw(rows: Rows) -> None:
    """Processor microseconds per edge against the number of edges."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "tdlg"
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
    for what in ("all classify", "making columns", "sorting into buckets", "layout", "product", "explicit matrix"):
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
    write_sections(PAGE, {"scale": table(rows)})
    draw(rows)


if __name__ == "__main__":
    main()

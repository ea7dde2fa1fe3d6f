"""The command embed: interactions or nodes as vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tdlg.cli.cost import vectors as vectors_need
from tdlg.cli.files import check_fits
from tdlg.cli.options import Columns, EdgesPath, Output, Save, Seed, example, with_columns_except
from tdlg.cli.output import check_model_file, check_output, give, keep_model
from tdlg.cli.table import note_table, read_table
from tdlg.cli.terminal import count, note, working

if TYPE_CHECKING:
    import polars as pl

    from tdlg.edges import TemporalEdges

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add this command."""
    app.command(
        short_help="Embed interactions or nodes as vectors.",
        epilog=example("tdlg embed messages.csv --nodes --dim 16 -o vectors.parquet"),
    )(embed)


@with_columns_except("features", "categories")
def embed(
    edges: EdgesPath,
    *,
    nodes: Annotated[bool, typer.Option("--nodes", help="Write one vector per node instead of one per row.")] = False,
    dim: Annotated[int, typer.Option(min=1, help="Dimension of the vectors.")] = 128,
    save: Save = None,
    output: Output = None,
    seed: Seed = 0,
    columns: Columns,
) -> None:
    """Embed interactions or nodes as vectors for other tools.

    The result is your table with the columns e0, e1, ... added; with --nodes, it is a table with one row per node.
    """
    import polars as pl

    from tdlg.embed.eigenvectors import EdgeEmbedding
    from tdlg.linegraph.decay import NoDecay

    check_output(output)
    check_model_file(save)
    check_fits(edges, vectors_need(dim), "A smaller --dim needs less.")
    table = read_table(edges, columns, features=())
    note_table(table, columns, features=False)
    is_one_time = table.edges.ticks.min() == table.edges.ticks.max()
    if is_one_time:
        note("all times are equal, so time is ignored")
    model = EdgeEmbedding(dim, decay=NoDecay() if is_one_time else None, random_state=seed)
    with working(f"computing {count(dim, 'dimension')}"):
        vectors = model.fit_transform(table.edges)
    if vectors.shape[1] < dim:
        note(f"these interactions allow only {count(vectors.shape[1], 'dimension')}")
    keep_model(model, save)
    if nodes:
        give(_node_vectors(table.edges, vectors), output)
    else:
        added = {f"e{k}": pl.Series(column) for k, column in enumerate(vectors.T)}
        give(table.with_columns(**added), output)


def _node_vectors(edges: TemporalEdges, vectors: Any) -> pl.DataFrame:
    import numpy as np
    import polars as pl

    from tdlg.embed.nodes import node_embeddings
    from tdlg.explain.reasons import as_series

    means = np.asarray(node_embeddings(edges, vectors))
    frame = pl.DataFrame({f"e{k}": column for k, column in enumerate(means.T)})
    frame.insert_column(0, as_series(edges.node_ids).alias("node"))
    if edges.bipartite:
        sides = np.where(np.arange(len(means)) < (edges.n_src_nodes or 0), "src", "dst")
        frame.insert_column(1, pl.Series("side", sides))
    return frame

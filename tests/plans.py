"""Plans of columns, made by hand, for tests of the columns about both ends."""

import numpy as np

from tdlg import Laplace
from tdlg.propagate import two_ends
from tdlg.propagate.features import Evidence, Network
from tdlg.propagate.plan import ColumnPlan


def two_end_plan(
    widths=(1.0, 1.0),
    classes=(),
    n_targets=1,
    *,
    past_only=False,
    bipartite,
    only_partners=False,
    scale_names=("0.03", "1"),
):
    """A plan that has columns about both ends; with classes, each of them has its own."""
    decays = [Laplace(min(float(width), 1e200)) for width in (1.0, *widths)]  # which does not decay
    names = np.array(list(classes) or ["no", "yes"] if n_targets == 1 else list(classes) or list(range(n_targets)))
    prior = (0.0,) * (len(classes) or n_targets)
    ends = "partners" if only_partners else "all"
    return ColumnPlan(
        ("src",), tuple(decays), ("1",), tuple(scale_names), (), names, prior, 1.0, past_only, 1.0, ends, bipartite
    )


def two_end_names(classes=(), *, bipartite, only_partners=False, scale_names=("0.03", "1")):
    return two_end_plan(
        classes=classes, bipartite=bipartite, only_partners=only_partners, scale_names=scale_names
    ).two_end_columns


def two_end_columns(
    edges, at, targets, labelled, widths, *, past_only, label_ticks=None, only_partners=False, n_threads=None
):
    options = {"past_only": past_only, "bipartite": edges.bipartite, "only_partners": only_partners}
    plan = two_end_plan(widths, n_targets=targets.shape[1], **options)
    return two_ends.two_end_columns(plan, evidence(edges, targets, labelled, label_ticks), at, n_threads)


def residuals(edges, targets, labelled, width, *, past_only, label_ticks=None):
    plan = two_end_plan((width, width), n_targets=targets.shape[1], past_only=past_only, bipartite=edges.bipartite)
    return two_ends.residuals(plan, evidence(edges, targets, labelled, label_ticks))


def evidence(edges, targets, labelled, label_ticks):
    no_features = np.empty((len(edges), 0))
    return Evidence(Network.of(edges), no_features, targets, labelled, no_features.astype(int), label_ticks)

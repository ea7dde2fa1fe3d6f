"""Files that are filled in one call, and the model that the tasks of a run read."""

from pathlib import Path

from tdlg import BurstDetector, PropagationClassifier, load_model, scan_edges

OF_RUN = ("memory", "engine", "folder", "positive", "classes", "callback")


def fill_file(path, output, *, model=None, **options):
    """`PropagationClassifier.fill`; options are those of it, and of `scan_edges`."""
    of_run = {name: options.pop(name) for name in OF_RUN if name in options}
    options = {"features": (), **options}
    return (model or PropagationClassifier()).fill(scan_edges(path, **options), output, **of_run)


def burst_file(path, output, *, fast=None, slow=None, **options):
    """`BurstDetector.fill`; options are those of it, and of `scan_edges`."""
    of_run = {name: options.pop(name) for name in OF_RUN if name in options}
    return BurstDetector(fast, slow).fill(scan_edges(path, **options), output, **of_run)


class Kept:
    """A callback that loads the model which the tasks of a run read; `folder` has the temporary files."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.model = None
        self.n_tasks = 0

    def __call__(self, done, total, text):
        if text == "making columns":
            self.n_tasks = max(self.n_tasks, total)
        if text == "writing" and self.model is None:
            (path,) = self.folder.rglob("model.tdlg")
            self.model = load_model(path)

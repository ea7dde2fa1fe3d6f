"""Public data sets by name: `load_dataset` reads the edges, `DATASETS` describes each data set. Synthetic edges.

A file is searched in the folder that the environment variable TDLG_DATA names and then in the user's cache. If it is in
neither, it is downloaded into the cache. In all cases its sha256 must be the known one. `make_payments` samples card
payments with frauds; `blocks` holds the paper's temporal stochastic block model.
"""

from tdlg.datasets.files import dataset_file, is_available
from tdlg.datasets.load import dataset_table, describe, load_dataset
from tdlg.datasets.payments import Payments, make_payments
from tdlg.datasets.registry import DATASETS, Dataset

__all__ = [
    "DATASETS",
    "Dataset",
    "Payments",
    "dataset_file",
    "dataset_table",
    "describe",
    "is_available",
    "load_dataset",
    "make_payments",
]

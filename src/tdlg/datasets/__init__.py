"""Public data sets by name: `load_dataset` for the edges, `DATASETS` for what is known of each; synthetic ones.

`make_payments` samples card payments with frauds, `blocks` holds the paper's temporal stochastic block model. A file of a
public data set is looked for in the folder that the environment variable TDLG_DATA names, then in the user's cache, and
is downloaded into the cache if it is in neither. Whatever its way, its sha256 must be the known one.
"""

from tdlg.datasets.files import dataset_file, is_available
from tdlg.datasets.load import load_dataset
from tdlg.datasets.payments import Payments, make_payments
from tdlg.datasets.registry import DATASETS, Dataset
from tdlg.datasets.table import dataset_table, describe

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

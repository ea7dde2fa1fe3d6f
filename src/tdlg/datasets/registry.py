"""Description of each data set: its file and sha256, where it is published, its columns, terms and figures."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from tdlg.exceptions import ParameterError

__all__ = ["DATASETS", "Dataset", "named"]

SIGNED = ("src", "dst", "rating", "time")
PLAIN = ("src", "dst", "time")
ROLES = {*SIGNED, "label"}

SNAP_TERMS = "none stated on its page; cite the paper"
JODIE_TERMS = "not known; ask at its page, and cite the paper"
SHARE_ALIKE = "Creative Commons Attribution-ShareAlike (https://networkrepository.com/policy.php)"

BITCOIN_PAPER = (
    "S. Kumar, F. Spezzano, V. S. Subrahmanian and C. Faloutsos. Edge weight prediction in weighted signed networks. "
    "ICDM 2016. S. Kumar, B. Hooi, D. Makhija, M. Kumar, C. Faloutsos and V. S. Subrahmanian. REV2: fraudulent user "
    "prediction in rating platforms. WSDM 2018."
)
SIGNED_PAPER = "J. Leskovec, D. Huttenlocher and J. Kleinberg. Signed networks in social media. CHI 2010."
JODIE_PAPER = (
    "S. Kumar, X. Zhang and J. Leskovec. Predicting dynamic embedding trajectory in temporal interaction networks. "
    "KDD 2019."
)
REPOSITORY_PAPER = (
    "R. A. Rossi and N. K. Ahmed. The network data repository with interactive graph analytics and visualization. "
    "AAAI 2015."
)


@dataclass(frozen=True)
class Dataset:
    """One public data set: a file with a known sha256, and what is in it.

    Parameters
    ----------
    name
        The name for `load_dataset`.
    files
        Names that the unpacked file may have; the first is its original name.
    sha256
        The sha256 of the unpacked file.
    columns
        The columns of the file in order: "src", "dst", "time", "rating" (a number whose sign is the label), "label" (the
        label itself) and the names of features. Further columns of the file are not read.
    page
        The web page that describes the data set.
    address
        The address to download: the file, an archive with it, or a table that it is made from. None if no direct address
        is known: get the file from the page by hand.
    licence, citation
        Terms of use, and what to cite.
    by_hand
        How to make the file by hand, if it is not offered for download as it is; empty if it is.
    n_nodes, n_edges
        Numbers of nodes and edges, as `load_dataset` counts them by default.
    days
        Days from the first edge to the last, rounded; None if the file has no times.
    positive
        Per cent of the labels that are 1, to two decimals; None without labels.
    label
        The meaning of a label of 1, if there are labels.
    bipartite
        Whether src and dst are nodes of two types by default.
    dated
        Whether times are seconds since 1970, so that their dates are known.
    note
        What to know before using it.
    """

    name: str
    files: tuple[str, ...]
    sha256: str
    columns: tuple[str, ...]
    page: str
    address: str | None
    licence: str
    citation: str
    n_nodes: int
    n_edges: int
    days: int | None
    positive: float | None = None
    label: str | None = None
    bipartite: bool = False
    dated: bool = True
    note: str = ""
    by_hand: str = ""

    @property
    def features(self) -> tuple[str, ...]:
        """The columns of the file that are features of the edges."""
        return tuple(column for column in self.columns if column not in ROLES)

    @property
    def packed_files(self) -> tuple[str, ...]:
        """Names that the packed file may have: as downloaded, or as .gz or .zip."""
        packed = [] if self.address is None else [PurePosixPath(self.address).name]
        for file in self.files:
            packed += [f"{file}.gz", f"{PurePosixPath(file).stem}.zip"]
        return tuple(dict.fromkeys(packed))


def named(name: Any) -> Dataset:
    """The data set of this name."""
    if isinstance(name, str) and name in DATASETS:
        return DATASETS[name]
    close = difflib.get_close_matches(str(name), DATASETS, 1, 0.5)
    hint = f"Did you mean {close[0]!r}? " if close else ""
    raise ParameterError(
        f"There is no data set {name!r}. {hint}The names are: {', '.join(DATASETS)}.", parameter="name"
    )


DATASETS: dict[str, Dataset] = {
    dataset.name: dataset
    for dataset in (
        Dataset(
            "bitcoinalpha",
            files=("soc-sign-bitcoinalpha.csv",),
            sha256="1b2a970f327d0ceba0c57bd5919670257cbe4cc0704e2ddac09abc4b08e2ca4d",
            columns=SIGNED,
            page="https://snap.stanford.edu/data/soc-sign-bitcoin-alpha.html",
            address="https://snap.stanford.edu/data/soc-sign-bitcoinalpha.csv.gz",
            licence=SNAP_TERMS,
            citation=BITCOIN_PAPER,
            n_nodes=3783,
            n_edges=24186,
            days=1901,
            positive=93.65,
            label="the rater trusts the rated trader: a rating above 0, of -10 to 10",
            note="Not sorted by time.",
        ),
        Dataset(
            "bitcoinotc",
            files=("soc-sign-bitcoinotc.csv",),
            sha256="76bd9d8f1d3ff9a1813d9fc8e6902a0ee4d0a2f8c1003842dbc9ec79149ab60c",
            columns=SIGNED,
            page="https://snap.stanford.edu/data/soc-sign-bitcoin-otc.html",
            address="https://snap.stanford.edu/data/soc-sign-bitcoinotc.csv.gz",
            licence=SNAP_TERMS,
            citation=BITCOIN_PAPER,
            n_nodes=5881,
            n_edges=35592,
            days=1903,
            positive=89.99,
            label="the rater trusts the rated trader: a rating above 0, of -10 to 10",
            note="Times have fractions of a second.",
        ),
        Dataset(
            "escorts",
            files=("escorts.edges", "ia-escorts-dynamic.edges"),
            sha256="ce1f6dc1e7f70ffce0241e0a9184c7b1d588a8b43a0f7cf175bfc52811cf38b8",
            columns=SIGNED,
            page="https://networkrepository.com/ia-escorts-dynamic.php",
            address="https://nrvis.com/download/data/ia/ia-escorts-dynamic.zip",
            licence=SHARE_ALIKE,
            citation="L. E. C. Rocha, F. Liljeros and P. Holme. Information dynamics shape the sexual networks of "
            f"Internet-mediated prostitution. PNAS 107(13), 2010. {REPOSITORY_PAPER}",
            n_nodes=10106,
            n_edges=50632,
            days=2232,
            positive=82.99,
            label="the buyer rated the meeting good: a rating of 1, of -1, 0 and 1",
            note="Buyers and escorts are numbered from 1 each, and the default view merges equal numbers into one "
            "node, as the published results do. With bipartite=True they are 10,106 buyers and 6,624 escorts.",
        ),
        Dataset(
            "wikielect",
            files=("soc-wiki-elec.edges",),
            sha256="228c4602ac711960b715c3b3c8e57de2acb1b2092faca67d06fdc1b938f8cde9",
            columns=SIGNED,
            page="https://networkrepository.com/soc-wiki-elec.php",
            address="https://nrvis.com/download/data/dynamic/soc-wiki-elec.zip",
            licence=SHARE_ALIKE,
            citation=f"{SIGNED_PAPER} {REPOSITORY_PAPER}",
            n_nodes=7118,
            n_edges=107071,
            days=1378,
            positive=78.41,
            label="the voter supports the candidate for administrator: a sign of 1, of -1 and 1",
            note="Not sorted by time. 58 votes are self-loops.",
        ),
        Dataset(
            "epinions",
            files=("soc-epinions-trust-dir.edges",),
            sha256="69396e0f6a46a4b8fde43836a3084864a938db63f68b597e395c2516859d2d01",
            columns=SIGNED,
            page="https://networkrepository.com/soc-epinions-trust-dir.php",
            address=None,
            licence=SHARE_ALIKE,
            citation="P. Massa and P. Avesani. Controversial users demand local trust metrics: an experimental study on "
            f"Epinions.com community. AAAI 2005. {SIGNED_PAPER} {REPOSITORY_PAPER}",
            n_nodes=131828,
            n_edges=841372,
            days=943,
            positive=85.30,
            label="the user trusts the other: a sign of 1, of -1 and 1",
            note="578,996 edges (68.8 %) carry one time, 979081200, the first: it stands for dates not recorded. The "
            "figures are the published ones.",
        ),
        Dataset(
            "collegemsg",
            files=("CollegeMsg.txt",),
            sha256="e00ba2415373dee52c00616065bcceaa4750e78de60d1855c76470600f10740f",
            columns=PLAIN,
            page="https://snap.stanford.edu/data/CollegeMsg.html",
            address="https://snap.stanford.edu/data/CollegeMsg.txt.gz",
            licence=SNAP_TERMS,
            citation="P. Panzarasa, T. Opsahl and K. M. Carley. Patterns and dynamics of users' behavior and "
            "interaction: network analysis of an online community. JASIST 60(5), 2009.",
            n_nodes=1899,
            n_edges=59835,
            days=194,
        ),
        Dataset(
            "fb-forum",
            files=("fb-forum.edges",),
            sha256="4aa6ba14f2440e582e1cec3357ef9a4ac8020fe72ec6b31a7ff746e291356088",
            columns=PLAIN,
            page="https://networkrepository.com/fb-forum.php",
            address="https://nrvis.com/download/data/dynamic/fb-forum.zip",
            licence=SHARE_ALIKE,
            citation="T. Opsahl. Triadic closure in two-mode networks: redefining the global and local clustering "
            f"coefficients. Social Networks 35(2), 2013. {REPOSITORY_PAPER}",
            n_nodes=1421,
            n_edges=33720,
            days=164,
            bipartite=True,
            note="899 users post to 522 topics, numbered from the same range. With bipartite=False equal numbers are "
            "one node, 899 in total, as in some published results.",
        ),
        Dataset(
            "wikipedia",
            files=("ml_wikipedia.txt",),
            sha256="53754d231cd9ecf7012b924ec9d6d85b1d1d9f1d93f2955aa8f58f67ca864b8f",
            columns=PLAIN,
            page="https://snap.stanford.edu/jodie/",
            address="https://snap.stanford.edu/jodie/wikipedia.csv",
            licence=JODIE_TERMS,
            citation=JODIE_PAPER,
            n_nodes=9227,
            n_edges=157474,
            days=31,
            bipartite=True,
            dated=False,
            note="8,227 users edit 1,000 pages; times are seconds from the first edit. The edges of JODIE's wikipedia and "
            "of TGB's tgbl-wiki. The download is a table of half a gigabyte, of which three columns are kept.",
        ),
        Dataset(
            "wikipedia-bans",
            files=("wikipedia-labels.csv",),
            sha256="b68d35966dd1c013bce7432184778eb6edb0766ad65cd66bb5ca7ed9876c81ab",
            columns=(*PLAIN, "label"),
            page="https://snap.stanford.edu/jodie/",
            address="https://snap.stanford.edu/jodie/wikipedia.csv",
            licence=JODIE_TERMS,
            citation=JODIE_PAPER,
            n_nodes=9227,
            n_edges=157474,
            days=31,
            positive=0.14,
            label="the user is banned right after this edit",
            bipartite=True,
            dated=False,
            note="The edges of 'wikipedia', with labels. Every edit with label 1 is the last edit of its user, so that "
            "anything that looks at later edits reveals the label: use only settings that look at the past.",
        ),
        Dataset(
            "handbook",
            files=("handbook.parquet",),
            sha256="03013bb4ce2c076d2599fecfa06811c65223c0f30314a1c11e5619c875b7db88",
            columns=(*PLAIN, "amount", "label"),
            page="https://github.com/Fraud-Detection-Handbook/simulated-data-raw",
            address=None,
            licence="none stated in its repository; cite the book",
            citation="Y.-A. Le Borgne, W. Siblini, B. Lebichot and G. Bontempi. Reproducible machine learning for credit "
            "card fraud detection: practical handbook. Université Libre de Bruxelles, 2022.",
            n_nodes=14990,
            n_edges=1754155,
            days=183,
            positive=0.84,
            label="the payment is a fraud",
            bipartite=True,
            note="Simulated card payments of 4,990 customers at 10,000 terminals, with the feature 'amount'. The file also "
            "says by which rule each fraud was simulated, which is not read: it would reveal the label.",
            by_hand="The repository holds one Python pickle per day. A pickle can run any code when it is read, so none is "
            "read here. Where you trust these files, read all of them with pandas, sort the rows by time, write the columns "
            "CUSTOMER_ID, TERMINAL_ID, TX_DATETIME, TX_AMOUNT and TX_FRAUD in this order as the file handbook.parquet, and "
            "load it with check=False, because its sha256 depends on who writes it.",
        ),
        Dataset(
            "darpa",
            files=("darpa_original.csv", "darpa.csv"),
            sha256="c5ac01c5c06695361880327bfa0332563e434dee593b1f3ef896f9d0208d34a1",
            columns=(*PLAIN, "label"),
            page="https://github.com/Stream-AD/MIDAS",
            address=None,
            licence="not known; ask at its page, and cite the papers",
            citation="R. Lippmann et al. Evaluating intrusion detection systems: the 1998 DARPA off-line intrusion "
            "detection evaluation. DISCEX 2000. S. Bhatia, B. Hooi, M. Yoon, K. Shin and C. Faloutsos. MIDAS: "
            "microcluster-based detector of anomalies in edge streams. AAAI 2020.",
            n_nodes=25525,
            n_edges=4554344,
            days=61,
            positive=60.10,
            label="the connection belongs to an attack, of any kind",
            note="Not fully sorted by time; times are whole minutes. Ten rows have the day 07/32/1998, which is read as "
            "08/01/1998.",
        ),
        Dataset(
            "epinions-topology",
            files=("soc-sign-epinions.txt",),
            sha256="8120d06a0bb4e65d4b821eba1072647ef3429e4e0a3c02e72bf0c534664f6fee",
            columns=("src", "dst", "rating"),
            page="https://snap.stanford.edu/data/soc-sign-epinions.html",
            address="https://snap.stanford.edu/data/soc-sign-epinions.txt.gz",
            licence=SNAP_TERMS,
            citation=SIGNED_PAPER,
            n_nodes=131828,
            n_edges=841372,
            days=None,
            positive=85.30,
            label="the user trusts the other: a sign of 1, of -1 and 1",
            dated=False,
            note="THE FILE HAS NO TIMES. load_dataset makes synthetic times, sampled uniformly over 943 days: use them to "
            "measure speed, never for a result about Epinions.",
        ),
    )
}

from datetime import timedelta

import numpy as np
import pytest

import oracle
from tdlg import Gaussian, Laplace, LineGraph, Mixture, NoDecay, TemporalEdges
from tdlg.exceptions import ParameterError
from tdlg.linegraph.decay import decay_values
from tdlg.linegraph.exponentials import exponential_sum, gaussian_exponentials

NUMBERS = TemporalEdges([0, 1, 2], [1, 2, 3], [0.0, 10.0, 40.0])
DAYS = TemporalEdges([0, 1, 2], [1, 2, 3], np.array(["2024-01-01", "2024-01-11", "2024-02-10"], "datetime64[D]"))


def test_default_is_the_papers():
    assert Gaussian() == Gaussian(relative=0.1)
    assert Gaussian().freeze(NUMBERS) == Gaussian(bandwidth=0.1 * np.std([0.0, 10.0, 40.0]))


@pytest.mark.parametrize("decay", [Gaussian(relative=0.5), Laplace(relative=0.5), Mixture([Gaussian(), NoDecay()])])
def test_a_frozen_decay_stays(decay):
    frozen = decay.freeze(DAYS)
    assert frozen == frozen.freeze(DAYS[:2])
    days = np.std([0, 10, 40])
    expected = 86400 * days * (0.1 if isinstance(decay, Mixture) else 0.5)
    assert frozen.parts("s")[0].bandwidth == pytest.approx(expected, rel=1e-14)
    assert frozen.parts("ns")[0].bandwidth == pytest.approx(expected * 1e9, rel=1e-14)


@pytest.mark.parametrize(
    ("bandwidth", "seconds"),
    [
        ("7d", 604800),
        ("12h", 43200),
        ("30min", 1800),
        ("90s", 90),
        ("250ms", 0.25),
        ("1.5 W", 907200),
        ("1e3us", 1e-3),
        (timedelta(hours=2), 7200),
        (np.timedelta64(3, "h"), 10800),
    ],
)
def test_durations(bandwidth, seconds):
    assert Laplace(bandwidth).parts("s")[0].bandwidth == pytest.approx(seconds, rel=1e-15)


def test_units_must_fit_the_times():
    with pytest.raises(ParameterError, match=r"without a unit.*'7d'"):
        Gaussian(5.0).parts("s")
    with pytest.raises(ParameterError, match=r"plain numbers.*as a number"):
        Gaussian("5d").parts(None)
    with pytest.raises(ParameterError, match=r"freeze\(edges\)"):
        Gaussian().parts(None)


@pytest.mark.parametrize("wrong", [-1.0, 0, np.nan, np.inf, "soon", "-3d", True, timedelta(0), np.timedelta64("NaT")])
@pytest.mark.parametrize("kind", [Gaussian, Laplace])
def test_wrong_bandwidths(kind, wrong):
    with pytest.raises(ParameterError, match=r"positive.*Got"):
        kind(wrong)


@pytest.mark.parametrize("extreme", ["1e300d", "1e-317s"])
def test_durations_out_of_range(extreme):
    with pytest.raises(ParameterError, match="positive and finite"):
        Gaussian(extreme).parts("ns")


def test_wrong_arguments():
    with pytest.raises(ParameterError, match="not both"):
        Gaussian(1.0, relative=0.1)
    with pytest.raises(ParameterError, match=r"'relative'.*Got -0.1"):
        Laplace(relative=-0.1)
    with pytest.raises(ParameterError, match=r"'decays' parameter.*Got 0.5"):
        Mixture([0.5])
    with pytest.raises(ParameterError, match="non-empty"):
        Mixture([])
    with pytest.raises(ParameterError, match=r"one number per decay, 2\. Got 1"):
        Mixture([NoDecay(), NoDecay()], [1.0])
    with pytest.raises(ParameterError, match="finite"):
        Mixture([NoDecay()], [np.nan])


MIXED = Mixture([Gaussian(1.0), Laplace(4.0), Mixture([Gaussian(20.0), NoDecay()], [0.5, 0.5])], [2.0, 1.0, 0.5])


@pytest.mark.parametrize("decay", [Gaussian(3.0), Laplace(2.0), NoDecay(), MIXED])
def test_formula_and_sum_of_exponentials(decay):
    distance = np.linspace(0, 60, 500)
    expected = [oracle.weight(decay, d) for d in distance]
    parts = decay.parts(None)
    np.testing.assert_allclose(decay_values(parts, distance), expected, rtol=1e-13)
    terms = exponential_sum(parts, 1e-9)
    approximate = (np.exp(-np.outer(distance, terms.rates)) @ terms.coefs).real
    np.testing.assert_allclose(approximate, expected, rtol=0, atol=1e-9)


@pytest.mark.filterwarnings("error")
def test_distances_beyond_all_bandwidths_count_nothing():
    edges = TemporalEdges([1, 1], [2, 2], [0.0, 1e300])
    for decay, far in ((Gaussian(1e-200), 0.0), (Laplace(1e-200), 0.0), (NoDecay(), 2.0)):
        H = LineGraph(edges, decay=decay)
        assert H.row(0).toarray().tolist() == H.to_csr().toarray()[:1].tolist() == [[2.0, far]]
        assert H.diagonal().tolist() == [2.0, 2.0]


def test_fewer_terms_for_less_accuracy():
    assert [gaussian_exponentials(tol).rates.size for tol in (1e-4, 1e-6, 1e-9, 1e-10)] == [3, 4, 6, 7]
    with pytest.raises(ParameterError, match="at least 1e-10"):
        gaussian_exponentials(1e-15)


def test_every_rate_fades():
    for tol in (1e-2, 1e-4, 1e-6, 1e-8, 1e-9, 1e-10):
        assert gaussian_exponentials(tol).rates.real.min() > 1

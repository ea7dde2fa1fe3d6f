"""Decays: the weight of two interactions at a shared node as a function of their distance in time.

A decay is a small immutable description: `Gaussian`, `Laplace`, `Mixture` or `NoDecay`. The line graph uses two methods
of it: `freeze` turns bandwidths such as "0.1 standard deviations" into numbers in the time unit of given edges, and `parts`
flattens the result into the integer codes and floats that the kernels need.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tdlg._kernels import CONSTANT, GAUSSIAN, LAPLACE
from tdlg.checks import is_number, refusal
from tdlg.clock import Duration, as_seconds, is_duration, seconds_per_tick
from tdlg.exceptions import ParameterError

if TYPE_CHECKING:
    from tdlg.edges import TemporalEdges

DEFAULT_RELATIVE = 0.1  # the paper's bandwidth: a tenth of the standard deviation of all times

Bandwidth = float | Duration


class DecayPart(NamedTuple):
    """One summand of a decay, weight * k(|d| / bandwidth), with the bandwidth in ticks."""

    code: int
    bandwidth: float
    weight: float


class Decay:
    """Base class of all decays; see `Gaussian`, `Laplace`, `Mixture` and `NoDecay`.

    A decay is symmetric in time. At distance 0 it is 1, or the sum of the weights for a mixture.
    """

    def freeze(self, edges: TemporalEdges) -> Decay:
        """Fix every relative bandwidth on the times of these edges, so that later edges get the same bandwidth."""
        return self

    def at_spread(self, deviation: float, time_unit: str | None) -> Decay:
        """`freeze` for edges whose times have this standard deviation, in ticks of this unit."""
        return self

    def parts(self, time_unit: str | None) -> tuple[DecayPart, ...]:
        """Flatten into summands with bandwidths in ticks of `time_unit`; the decay must be frozen."""
        raise TypeError(f"{type(self).__name__} does not say what its parts are")


@dataclass(frozen=True)
class NoDecay(Decay):
    """No decay, the plain line graph: the weight is 1 for any distance in time.

    Examples
    --------
    >>> from tdlg import LineGraph, NoDecay, TemporalEdges
    >>> edges = TemporalEdges(["a", "b"], ["b", "c"], [0, 1000])
    >>> LineGraph(edges, decay=NoDecay()).to_csr().toarray()
    array([[2., 1.],
           [1., 2.]])
    """

    def parts(self, time_unit: str | None) -> tuple[DecayPart, ...]:
        """One constant summand."""
        return (DecayPart(CONSTANT, 1.0, 1.0),)


@dataclass(frozen=True)
class _Bell(Decay):
    """A decay with one bandwidth, absolute or relative to the standard deviation of the times."""

    bandwidth: Bandwidth | None = None
    relative: float | None = None
    _code: ClassVar[int]  # of the kernels

    def __init__(self, bandwidth: Bandwidth | None = None, *, relative: float | None = None) -> None:
        name = type(self).__name__
        if bandwidth is not None and relative is not None:
            raise ParameterError(
                f"{name} takes 'bandwidth' or 'relative', not both. Got {bandwidth!r} and {relative!r}.",
                parameter="bandwidth",
            )
        if bandwidth is None and relative is None:
            relative = DEFAULT_RELATIVE
        if bandwidth is not None:
            as_seconds(bandwidth, "bandwidth") if is_duration(bandwidth) else _check_width(name, "bandwidth", bandwidth)
        if relative is not None:
            _check_width(name, "relative", relative)
        object.__setattr__(self, "bandwidth", bandwidth)
        object.__setattr__(self, "relative", relative)

    def __repr__(self) -> str:
        given = f"relative={self.relative!r}" if self.bandwidth is None else f"bandwidth={self.bandwidth!r}"
        return f"{type(self).__name__}({given})"

    def freeze(self, edges: TemporalEdges) -> Decay:
        """Turn `relative` into a bandwidth: a number in the unit of the times, or seconds if they are datetimes."""
        spread = time_spread(edges.ticks)
        if spread == 0.0 and self.relative is not None:
            raise self._no_width(f"all {edges.n_edges} edges")
        return self.at_spread(spread, edges.time_unit)

    def at_spread(self, deviation: float, time_unit: str | None) -> Decay:
        """`freeze` for edges whose times have this standard deviation, in ticks of this unit."""
        if self.relative is None:
            return self
        if deviation == 0.0:
            raise self._no_width("all edges")
        spread = deviation * self.relative
        if not math.isfinite(spread):
            raise ParameterError(
                f"{self!r} gives an infinite bandwidth: the times are too far apart.",
                "Give an absolute bandwidth=.",
                parameter="relative",
            )
        if time_unit is None:
            return type(self)(bandwidth=spread)  # a Python float: its repr can be pasted back
        return type(self)(bandwidth=f"{spread * seconds_per_tick(time_unit)!r}s")

    def _no_width(self, which: str) -> ParameterError:
        return ParameterError(
            f"The bandwidth of the decay is 0, because {which} have the same time.",
            "Use decay=NoDecay().",
            f"Or give an absolute bandwidth, `{type(self).__name__}(bandwidth=...)`.",
            parameter="relative",
        )

    def parts(self, time_unit: str | None) -> tuple[DecayPart, ...]:
        """One summand, with its bandwidth in ticks."""
        if self.bandwidth is None:
            raise ParameterError(
                f"{self!r} is relative to the times of edges.", "Call `freeze(edges)` first.", parameter="relative"
            )
        return (DecayPart(self._code, _width_in_ticks(self, time_unit), 1.0),)


class Gaussian(_Bell):
    """k(d) = exp(-d^2 / (2 bandwidth^2)): the paper's decay (its equation 1).

    Parameters
    ----------
    bandwidth
        The standard deviation of the Gaussian, a number in the unit of the times. If the times are datetimes, a string
        such as "7d", "12h" or "90s", or a timedelta.
    relative
        Instead of `bandwidth`: the bandwidth in standard deviations of the times of the (fitted) edges. By default 0.1,
        the paper's choice, if neither is set.

    Examples
    --------
    >>> Gaussian()
    Gaussian(relative=0.1)
    >>> Gaussian("7d")
    Gaussian(bandwidth='7d')
    """

    _code = GAUSSIAN


class Laplace(_Bell):
    """k(d) = exp(-|d| / bandwidth): a constant rate of decay. Its products are exact and the fastest.

    Parameters
    ----------
    bandwidth
        The time in which the weight falls to 1/e, a number in the unit of the times. If the times are datetimes, a string
        such as "7d", or a timedelta.
    relative
        Instead of `bandwidth`: the bandwidth in standard deviations of the times of the (fitted) edges. By default 0.1, if
        neither is set.

    Examples
    --------
    >>> Laplace(bandwidth=30)
    Laplace(bandwidth=30)
    """

    _code = LAPLACE


@dataclass(frozen=True)
class Mixture(Decay):
    """A weighted sum of decays, for example a short and a long memory.

    Parameters
    ----------
    decays
        The summands; mixtures may be nested.
    weights
        One number per decay. By default equal weights that sum to 1.

    Examples
    --------
    >>> Mixture([Laplace("1h"), Laplace("30d")], weights=[0.8, 0.2])
    Mixture(decays=(Laplace(bandwidth='1h'), Laplace(bandwidth='30d')), weights=(0.8, 0.2))
    """

    decays: tuple[Decay, ...]
    weights: tuple[float, ...]

    def __init__(self, decays: Sequence[Decay], weights: Sequence[float] | None = None) -> None:
        listed = isinstance(decays, (list, tuple)) and len(decays) > 0
        wrong = [decay for decay in decays if not isinstance(decay, Decay)] if listed else [decays]
        if wrong:
            raise refusal("Mixture", "decays", "a non-empty list of decays such as Laplace('1h')", wrong[0])
        decays = tuple(decays)
        try:
            weights = (1 / len(decays),) * len(decays) if weights is None else tuple(float(w) for w in weights)
        except (TypeError, ValueError) as error:
            raise refusal("Mixture", "weights", "a list of numbers", weights) from error
        if len(weights) != len(decays):
            raise refusal("Mixture", "weights", f"one number per decay, {len(decays)}", len(weights))
        if not all(math.isfinite(w) for w in weights):
            raise refusal("Mixture", "weights", "finite numbers", weights)
        object.__setattr__(self, "decays", decays)
        object.__setattr__(self, "weights", weights)

    def freeze(self, edges: TemporalEdges) -> Decay:
        """Freeze each summand."""
        return Mixture([decay.freeze(edges) for decay in self.decays], self.weights)

    def at_spread(self, deviation: float, time_unit: str | None) -> Decay:
        """`at_spread` of each summand."""
        return Mixture([decay.at_spread(deviation, time_unit) for decay in self.decays], self.weights)

    def parts(self, time_unit: str | None) -> tuple[DecayPart, ...]:
        """The summands' own parts, weighted."""
        return tuple(
            DecayPart(part.code, part.bandwidth, part.weight * weight)
            for decay, weight in zip(self.decays, self.weights, strict=True)
            for part in decay.parts(time_unit)
        )


def decay_values(parts: Sequence[DecayPart], distance: NDArray[np.number]) -> NDArray[np.float64]:
    """k(distance) from the formula, for distances in ticks."""
    total = np.zeros(distance.shape)
    with np.errstate(over="ignore"):  # an infinite distance gives 0, as it should
        for code, bandwidth, weight in parts:
            d = np.abs(distance.astype(np.float64)) / bandwidth
            total += weight * (np.ones_like(d) if code == CONSTANT else np.exp(-d if code == LAPLACE else -0.5 * d * d))
    return total


def _check_width(owner: str, name: str, value: object) -> None:
    """Refuse a width that is not a positive number, or so extreme that the ratio of a gap to it overflows."""
    if not is_number(value) or not 1e-280 < float(value) < 1e280:  # type: ignore[arg-type]
        wanted = "a positive and finite number" + (", or a duration such as '7d'" if name == "bandwidth" else "")
        raise refusal(owner, name, wanted, value, "For weights that do not fade use `NoDecay()`.")


def _width_in_ticks(decay: _Bell, time_unit: str | None) -> float:
    """A bandwidth in ticks of `time_unit`, or in the unit of the numbers if that is None."""
    bandwidth = decay.bandwidth
    if is_duration(bandwidth):
        if time_unit is None:
            raise ParameterError(
                f"{decay!r} has a bandwidth with a unit, but the times of these edges are plain numbers. Give the "
                "bandwidth as a number in the same unit.",
                "Or give the times as datetimes, with time_unit='s' of read_edges and from_frame.",
                parameter="bandwidth",
            )
        ticks = as_seconds(bandwidth) / seconds_per_tick(time_unit)
        _check_width(type(decay).__name__, "bandwidth", ticks)
        return ticks
    if time_unit is not None:
        raise ParameterError(
            f"{decay!r} has a bandwidth without a unit, but the times of these edges are datetimes. "
            "Give a duration such as '7d', '12h' or '90s'.",
            parameter="bandwidth",
        )
    return float(bandwidth)  # type: ignore[arg-type]


def time_spread(ticks: NDArray[Any]) -> float:
    """The standard deviation of times in ticks; 1 for none, since the bandwidth then has no effect."""
    if len(ticks) == 0:
        return 1.0
    with np.errstate(over="ignore", invalid="ignore"):
        # From the first time on, because nanoseconds since 1970 exceed float64.
        return float((ticks - ticks[0]).astype(np.float64).std())

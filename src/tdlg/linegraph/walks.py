"""Walks: passes over sorted events that compute decayed sums.

A decay becomes a list of walks whose sums are added: one `Fading` for all its Laplace and constant parts, and one `Wave`
per Gaussian part. `Plain` computes all parts in a plain loop, for processors on which the other two may be slow.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdlg._kernels import CONSTANT, GAUSSIAN
from tdlg.linegraph import exponentials
from tdlg.linegraph.decay import DecayPart
from tdlg.linegraph.events import Layout

__all__ = ["LANES", "Walk", "walks_of"]

LANES = 8  # columns per walk
USE_VECTORS = platform.machine().lower() in ("x86_64", "amd64", "aarch64", "arm64")

Floats = NDArray[Any]  # float64 or float32


@dataclass(frozen=True)
class Stretch:
    """A stretch of events to walk over, and what to do there."""

    layout: Layout
    x: Floats  # (n_cols,) for a single column, or (n_cols, LANES)
    first: int  # the events first, first + step, ... before stop
    stop: int
    step: int
    strict: bool  # events at the same time do not see each other
    emit: bool  # write sums, or only update the state
    own: float  # the weight of an event's own value
    fresh: bool  # overwrite the output, or add to it

    def part(self, low: int, high: int, step: int) -> Stretch:
        """The events low <= event < high of it, walked upwards (step 1) or downwards (step -1)."""
        first, stop = (low, high) if step > 0 else (high - 1, low - 1)
        return replace(self, first=first, stop=stop, step=step)


class Walk:
    """Base class of walks. Events further away than `reach`, in ticks, have no influence."""

    reach: float

    def no_state(self, lanes: int) -> NDArray[Any]:
        """The state before the first event."""
        raise TypeError(f"{type(self).__name__} does not say what its state is")

    def faded(self, state: NDArray[Any], distance: float) -> NDArray[Any]:
        """The state after `distance` ticks without events."""
        raise TypeError(f"{type(self).__name__} does not say how its state fades")

    def run(self, stretch: Stretch, state: NDArray[Any], out: Floats) -> None:
        """Walk, and leave the state at `stop` in `state` and the sums in `out`."""
        raise TypeError(f"{type(self).__name__} does not walk")

    def run_both(self, stretch: Stretch, before: NDArray[Any], behind: NDArray[Any], out: Floats) -> None:
        """Walk in both directions from the states at the two ends, which are overwritten."""
        self.run(stretch, before, out)
        self.run(replace(stretch.part(stretch.first, stretch.stop, -1), fresh=False), behind, out)


class _VectorWalk(Walk):
    """A walk with kernels for one column and for LANES columns, in one direction and in both."""

    def _kernels(self) -> tuple[Any, Any, Any, Any]:
        """For one column and for several, one way and both ways each; they are imported at first use."""
        raise TypeError(f"{type(self).__name__} does not name its kernels")

    @property
    def _numbers(self) -> tuple[Any, Any]:
        """What the kernels need to know about the decay."""
        raise TypeError(f"{type(self).__name__} does not describe its decay")

    def run(self, stretch: Stretch, state: NDArray[Any], out: Floats) -> None:
        walk, _, walk_columns, _ = self._kernels()
        s, events = stretch, (stretch.layout.gap, stretch.layout.source, stretch.x)
        way = s.first, s.stop, s.step, *self._numbers, s.strict, s.emit
        if out.ndim == 1:
            walk(*events, *way, s.own, s.fresh, state, out)
        else:
            walk_columns(*events, *way, (s.own,) * LANES, s.fresh, state, out)

    def run_both(self, stretch: Stretch, before: NDArray[Any], behind: NDArray[Any], out: Floats) -> None:
        _, walk_both, _, walk_columns_both = self._kernels()
        s, events = stretch, (stretch.layout.gap, stretch.layout.source, stretch.x)
        way = s.first, s.stop, *self._numbers
        if out.ndim == 1:
            walk_both(*events, *way, s.own, s.fresh, before, behind, out)
        else:
            walk_columns_both(*events, *way, (s.own,) * LANES, s.fresh, before, behind, out)


@dataclass(frozen=True, eq=False)
class Fading(_VectorWalk):
    """Exponentials with real rates: exact except for rounding."""

    rates: NDArray[np.float64]
    weights: NDArray[np.float64]

    @cached_property
    def reach(self) -> float:  # type: ignore[override]
        """The distance at which even the slowest rate has faded below the precision of float64."""
        return math.inf if (self.rates == 0).any() else float(37.0 / self.rates.min())

    def no_state(self, lanes: int) -> NDArray[np.float64]:
        return np.zeros(self.rates.size if lanes == 1 else (self.rates.size, lanes))

    def faded(self, state: NDArray[np.float64], distance: float) -> NDArray[np.float64]:
        return (state.T * np.exp(-self.rates * distance)).T

    @property
    def _numbers(self) -> tuple[Any, Any]:
        return self.rates, self.weights

    def _kernels(self) -> tuple[Any, Any, Any, Any]:
        from tdlg._kernels.fading import fade, fade_both, fade_columns, fade_columns_both

        return fade, fade_both, fade_columns, fade_columns_both


@dataclass(frozen=True, eq=False)
class Wave(_VectorWalk):
    """One Gaussian, as a sum of complex exponentials with one lane each."""

    bandwidth: float
    weight: float
    tol: float

    @property
    def reach(self) -> float:  # type: ignore[override]
        """The distance at which the Gaussian is a hundredth of the allowed error."""
        return self.bandwidth * math.sqrt(2 * math.log(100 / self.tol))

    @cached_property
    def _terms(self) -> exponentials.ExponentialSum:
        return exponentials.padded_exponentials(self.tol)  # for a bandwidth of 1

    @cached_property
    def _numbers(self) -> tuple[Any, Any]:
        coefs = self.weight * self._terms.coefs
        cells_each, table, poly = _aligned_table(self.tol)
        return (tuple(coefs.real.tolist()), tuple(coefs.imag.tolist())), (cells_each / self.bandwidth, table, poly)

    def _kernels(self) -> tuple[Any, Any, Any, Any]:
        from tdlg._kernels.waves import walk_both, walk_columns, walk_columns_both, walk_one

        return walk_one, walk_both, walk_columns, walk_columns_both

    def no_state(self, lanes: int) -> NDArray[np.float64]:
        if lanes == 1:
            return np.zeros((2, self._terms.rates.size))
        n_terms = exponentials.gaussian_exponentials(self.tol).rates.size  # lanes are columns: no spare terms
        return np.zeros((n_terms, 2, lanes))

    def faded(self, state: NDArray[np.float64], distance: float) -> NDArray[np.float64]:
        by_lane = state.ndim == 2
        re, im = state if by_lane else (state[:, 0], state[:, 1])
        factor = np.exp(-self._terms.rates[: re.shape[0]] * distance / self.bandwidth)
        whole = (re + 1j * im) * (factor if by_lane else factor[:, np.newaxis])
        return np.stack([whole.real, whole.imag], axis=0 if by_lane else 1)


@dataclass(frozen=True, eq=False)
class Plain(Walk):
    """All parts in one plain loop."""

    rates: NDArray[np.complex128]
    coefs: NDArray[np.complex128]
    reach: float

    def no_state(self, lanes: int) -> NDArray[np.complex128]:
        return np.zeros((self.rates.size, lanes), complex)

    def faded(self, state: NDArray[np.complex128], distance: float) -> NDArray[np.complex128]:
        return state * np.exp(-self.rates * distance)[:, np.newaxis]

    def run(self, stretch: Stretch, state: NDArray[np.complex128], out: Floats) -> None:
        from tdlg._kernels.recurrence import walk

        s, layout = stretch, stretch.layout
        x = s.x if s.x.ndim == 2 else s.x[:, np.newaxis]
        way = s.first, s.stop, s.step, self.rates, self.coefs, s.strict, s.emit, s.own, s.fresh
        walk(layout.gap, layout.source, x, *way, state, out if out.ndim == 2 else out[:, np.newaxis])


def walks_of(parts: Sequence[DecayPart], tol: float, use_vectors: bool | None = None) -> list[Walk]:
    """The walks whose sums add up to a decay."""
    gaussian = [part for part in parts if part.code == GAUSSIAN]
    real = [part for part in parts if part.code != GAUSSIAN]
    waves = [Wave(part.bandwidth, part.weight, tol / len(gaussian)) for part in gaussian]
    rates = np.array([0.0 if part.code == CONSTANT else 1.0 / part.bandwidth for part in real])
    fading = [Fading(rates, np.array([part.weight for part in real]))] if real else []
    walks: list[Walk] = [*fading, *waves]
    if USE_VECTORS if use_vectors is None else use_vectors:
        return walks
    return [Plain(*exponentials.exponential_sum(parts, tol), reach=max(walk.reach for walk in walks))]


@lru_cache
def _aligned_table(tol: float) -> tuple[int, NDArray[np.float64], NDArray[np.float64]]:
    """`exponential_table` with real and imaginary parts side by side, so that no vector crosses two cache lines."""
    cells_each, table, poly = exponentials.exponential_table(tol)
    return cells_each, _aligned(np.hstack([table.real, table.imag])), _aligned(np.hstack([poly.real, poly.imag]))


def _aligned(array: NDArray[np.float64]) -> NDArray[np.float64]:
    copy = empty_on_lines(array.shape, array.dtype)
    copy[:] = array
    return copy


def empty_on_lines(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """An array that starts at a cache line."""
    n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
    flat = np.empty(n_bytes + 64, np.uint8)
    skip = -flat.ctypes.data % 64
    return flat[skip : skip + n_bytes].view(dtype).reshape(shape)

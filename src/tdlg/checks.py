"""Checks of parameters, random states and sealed arrays: what every public function and estimator shares.

Each check raises a `ParameterError` with the same template: The 'x' parameter of Owner must be ... Got ... instead.
"""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdlg.exceptions import ParameterError


def is_number(value: Any) -> bool:
    """Whether a value is a real number; booleans do not count as numbers."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def refusal(owner: str, name: str, wanted: str, value: Any, *hints: str) -> ParameterError:
    """The error of a parameter that must be something else."""
    problem = f"The {name!r} parameter of {owner} must be {wanted}. Got {value!r} instead."
    return ParameterError(problem, *hints, parameter=name)


def check_count(owner: str, name: str, value: Any, least: int) -> None:
    """Refuse a parameter that is not a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise refusal(owner, name, f"a whole number, at least {least}", value)


def check_number(owner: str, name: str, value: Any, below: float = np.inf) -> None:
    """Refuse a parameter that is not a number above 0 and less than `below`, which is infinity by default."""
    if not is_number(value) or not 0 < value < below:
        raise refusal(owner, name, "a positive number" if below == np.inf else f"between 0 and {below:g}", value)


def check_choice(owner: str, name: str, value: Any, choices: Iterable[str | None]) -> None:
    """Refuse a parameter that is not one of the choices."""
    listed = list(choices)
    if not (value is None or isinstance(value, str)) or value not in listed:
        raise refusal(owner, name, f"one of {listed}", value)


# ---- random states


def as_generator(random_state: Any) -> np.random.Generator:
    """Return a generator for any `random_state`: None, a seed, a numpy Generator or a RandomState."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise ParameterError(
            f"The 'random_state' parameter must be None, a whole number at least 0, or a numpy Generator or RandomState. "
            f"Got {random_state!r} instead.",
            parameter="random_state",
        ) from None


def as_seed(random_state: Any) -> Any:
    """Return a random state that scikit-learn accepts: a numpy Generator gives a seed, everything else stays as it is."""
    return int(random_state.integers(2**31)) if isinstance(random_state, np.random.Generator) else random_state


def set_missing_seed(estimator: Any, seed: int) -> None:
    """Set the `random_state` of an estimator to a seed where the estimator has that parameter and it is None."""
    if estimator.get_params().get("random_state", seed) is None:
        estimator.set_params(random_state=seed)


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only view; the caller's own array stays writable."""
    return sealed(array.view())


def sealed(array: NDArray[Any]) -> NDArray[Any]:
    """Mark an array that was created here as read-only, so that `frozen` need not copy it."""
    array.flags.writeable = False
    return array

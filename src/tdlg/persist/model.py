"""Fitted models as files: no executable code, written completely or not at all, with bit-identical predictions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from tdlg import __version__
from tdlg.atomic import as_path
from tdlg.exceptions import ParameterError, ReadError
from tdlg.persist.archive import ArchiveReader, new_archive, open_archive
from tdlg.persist.codec import Decoder, Encoder, is_estimator

__all__ = ["load_model", "save_model"]

FORMAT = "tdlg model"
FORMAT_VERSION = 3  # increased when fitted models get other attributes or columns; files of other versions are refused


def save_model(model: Any, path: str | os.PathLike[str]) -> None:
    """Save a fitted model to a file that `load_model` reads; the `save` method of estimators calls it.

    The file is a zip of a manifest in json and arrays in npy; scikit-learn estimators inside the model are in the skops
    format. An existing file is replaced only when the new one is complete.

    Parameters
    ----------
    model
        A fitted estimator of this package.
    path
        The path of the file; its folder must exist.

    Raises
    ------
    ParameterError
        If the model contains something that cannot be saved, which the message names, or the path cannot be written to.
    NotFittedError
        If the model is not fitted.

    Notes
    -----
    A slice of edges is saved with its whole table, so that the loaded model recognises the edges that it was fitted to. To
    leave the other rows out, fit to new edges that are made from the columns of the slice.
    """
    if not is_estimator(type(model)):
        raise ParameterError(
            f"The 'model' must be an estimator of tdlg. Got {type(model).__module__}.{type(model).__qualname__} instead. "
            f"Save a scikit-learn model with skops.io.dump.",
            parameter="model",
            value=model,
        )
    try:
        check_is_fitted(model)
    except NotFittedError:
        raise NotFittedError(
            f"This {type(model).__name__} is not fitted, so there is nothing to save. Call fit first."
        ) from None
    with new_archive(path) as archive:
        encoder = Encoder(archive)
        root = encoder.encode(model, type(model).__name__)
        archive.write_manifest({**_origin(), "model": root, "shared": encoder.shared})


def load_model(path: str | os.PathLike[str]) -> Any:
    """Load a model that was written by its `save` method; its predictions are bit-identical.

    Nothing in the file is executed: it can only name public estimators of this package, and scikit-learn objects of a fixed
    list of types.

    Parameters
    ----------
    path
        The file.

    Returns
    -------
    estimator
        The fitted estimator, of the class that was saved.

    Raises
    ------
    ReadError
        If the file is missing, truncated, damaged, not a model, or of another version of the format.
    ParameterError
        If the path is not a path.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from tdlg import LineGraphClassifier, TemporalEdges, load_model
    >>> edges = TemporalEdges(["a", "b", "c", "a"], ["x", "y", "x", "y"], [1, 2, 3, 4], label=["good", "bad", "good", None])
    >>> model = LineGraphClassifier(bandwidth=5.0).fit(edges)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "ratings.tdlg"
    >>> model.save(path)
    >>> loaded = load_model(path)
    >>> loaded
    LineGraphClassifier(bandwidth=5.0)
    >>> (loaded.predict_proba(edges) == model.predict_proba(edges)).all()
    np.True_
    """
    path = as_path(path)
    with open_archive(path) as archive:
        manifest = _manifest(archive, path)
        try:
            archive.check_members()
            model = Decoder(archive, manifest["shared"]).decode(manifest["model"])
        except Exception as error:  # whatever a file with a right checksum makes the parsers raise
            raise _unreadable(path, manifest, error) from error
    if not is_estimator(type(model)):
        raise _unreadable(path, manifest, f"it holds a {type(model).__name__}, which is not a model")
    return model


def _origin() -> dict[str, Any]:
    versions = {"tdlg": __version__, "numpy": np.__version__, "scikit-learn": sklearn.__version__}
    return {"format": FORMAT, "format_version": FORMAT_VERSION, "made_with": versions}


def _manifest(archive: ArchiveReader, path: Path) -> dict[str, Any]:
    """The manifest, if its version is the one that is read here."""
    try:
        manifest = archive.manifest()
        version, made_with = manifest["format_version"], manifest["made_with"]["tdlg"]
        is_ours = manifest["format"] == FORMAT and type(version) is int and version >= 1
    except Exception as error:
        raise ReadError(f"{path}: this is not a tdlg model ({error}). Pass the path of a saved model.") from error
    if not is_ours:
        raise ReadError(f"{path}: this is not a tdlg model. Pass the path of a saved model.")
    if version != FORMAT_VERSION:
        raise _other_version(path, version, made_with)
    return manifest


def _other_version(path: Path, version: int, made_with: str) -> ReadError:
    if version > FORMAT_VERSION:
        hint = f"Install tdlg {made_with} or newer: update the clone of tdlg and run pip install . in it."
    else:
        hint = "Models of older versions lack what this one needs to score. Fit the model again and save it."
    return ReadError(
        f"{path}: the model has version {version} of the format, written by tdlg {made_with}; this is tdlg "
        f"{__version__}, which reads version {FORMAT_VERSION}. {hint}"
    )


def _unreadable(path: Path, manifest: dict[str, Any], error: object) -> ReadError:
    made_with = ", ".join(f"{name} {version}" for name, version in dict(manifest["made_with"]).items())
    return ReadError(
        f"{path}: the model cannot be rebuilt: {error}. It was written with {made_with}; this is tdlg "
        f"{__version__}. Load it with the versions it was written with, or fit and save it again."
    )

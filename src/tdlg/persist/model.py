"""Fitted models as files: no executable code, written completely or not at all, with bit-identical predictions.

A file is a zip of a manifest in json, arrays in npy, and scikit-learn estimators in the skops format. Members are stored
without compression, so their sizes cannot exceed the file and a small file cannot fill the memory. The comment of the zip,
at the end of the file, is the sha256 of every byte before it.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any, BinaryIO
from zipfile import ZipFile, is_zipfile

import numpy as np
import sklearn
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from tdlg import __version__
from tdlg.atomic import as_path, is_special, new_file, target_of
from tdlg.exceptions import ParameterError, ReadError
from tdlg.persist.codec import MEMBER, Decoder, Encoder, check_stored, is_estimator

FORMAT = "tdlg model"
FORMAT_VERSION = 7  # increased when fitted models get other attributes or columns; files of other versions are refused
MANIFEST = "manifest.json"
MARK = b"tdlg model, sha256 "
HEX_DIGITS = 64  # of a sha256 in hexadecimal
HASHED_AT_ONCE = 1 << 20  # bytes
OTHER_FILE = "this is not a tdlg model{}. Pass the path of a saved model."


def save_model(model: Any, path: str | os.PathLike[str]) -> None:
    """Save a fitted estimator of this package to a file that `load_model` reads; its `save` method calls this.

    An existing file is replaced only when the new one is complete. A slice of edges is saved with its whole table, so that
    the loaded model recognises the edges that it was fitted to.
    """
    class_ = type(model)
    if not is_estimator(class_):
        problem = f"The 'model' must be an estimator of tdlg. Got {class_.__module__}.{class_.__qualname__} instead."
        raise ParameterError(problem, "Save a scikit-learn model with skops.io.dump.", parameter="model")
    try:
        check_is_fitted(model)
    except NotFittedError:
        problem = f"This {class_.__name__} is not fitted, so there is nothing to save. Call fit first."
        raise NotFittedError(problem) from None
    if is_special(target := target_of(path)):
        problem = f"The 'path' of a model must be a file. {str(target)!r} is a device or pipe: pass the name of a file."
        raise ParameterError(problem, parameter="path")
    made_with = {"tdlg": __version__, "numpy": np.__version__, "scikit-learn": sklearn.__version__}
    manifest = {"format": FORMAT, "format_version": FORMAT_VERSION, "made_with": made_with}
    with new_file(target) as file:
        with ZipFile(file, "w") as zipped:
            zipped.comment = MARK + b"0" * HEX_DIGITS
            encoder = Encoder(zipped)
            root = encoder.encode(model, class_.__name__)
            encoder.write_json(MANIFEST, {**manifest, "model": root, "shared": encoder.shared})
        digest = _digest(file)
        file.seek(-HEX_DIGITS, os.SEEK_END)
        file.write(digest)


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
    if not path.is_file():
        what = "this is a folder or device, not a file" if path.exists() else "there is no such file"
        raise ReadError(f"{path}: {what}. Pass the path of a saved model.")
    with open(path, "rb") as file:
        if complaint := _complaint(file):
            raise ReadError(f"{path}: {complaint}")
        try:
            zipped = ZipFile(file)
            manifest = json.loads(zipped.read(MANIFEST))
            version, made_with = manifest["format_version"], manifest["made_with"]
            made_by = made_with["tdlg"]
            is_ours = manifest["format"] == FORMAT and type(version) is int and version >= 1
        except Exception as error:  # struct.error, NotImplementedError and others, not only BadZipFile
            raise ReadError(f"{path}: {OTHER_FILE.format(f' ({error})')}") from error
        if not is_ours:
            raise ReadError(f"{path}: {OTHER_FILE.format('')}")
        if version != FORMAT_VERSION:
            raise _other_version(path, version, made_by)
        try:
            _check_members(zipped, os.fstat(file.fileno()).st_size)
            model = Decoder(zipped, manifest["shared"]).decode(manifest["model"])
            if not is_estimator(type(model)):
                raise ValueError(f"it holds a {type(model).__name__}, which is not a model")
        except Exception as error:  # whatever a file with a right checksum makes the parsers raise
            versions = ", ".join(f"{name} {version}" for name, version in made_with.items())
            raise ReadError(
                f"{path}: the model cannot be rebuilt: {error}. It was written with {versions}; this is tdlg "
                f"{__version__}. Load it with the versions it was written with, or fit and save it again."
            ) from error
    return model


def _other_version(path: Path, version: int, made_with: str) -> ReadError:
    hint = "Models of older versions lack what this one needs to score. Fit the model again and save it."
    if version > FORMAT_VERSION:
        hint = f"Install tdlg {made_with} or newer: update the clone of tdlg and run pip install . in it."
    return ReadError(
        f"{path}: the model has version {version} of the format, written by tdlg {made_with}; this is tdlg "
        f"{__version__}, which reads version {FORMAT_VERSION}. {hint}"
    )


def _check_members(file: ZipFile, size: int) -> None:
    """Refuse names that `Encoder` does not use, and sizes that do not match uncompressed members."""
    names = file.namelist()
    unknown = [name for name in names if name != MANIFEST and not MEMBER.fullmatch(name)]
    if unknown or len(set(names)) < len(names):
        raise ValueError(f"it has members that no model has: {(unknown or names)[:3]}")
    check_stored(file, size)


def _complaint(file: BinaryIO) -> str | None:
    """What is wrong with the end of a file, where its checksum is, and what to do; None if the checksum is right."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - len(MARK) - HEX_DIGITS))
    end = file.read()
    if end.startswith(MARK) and len(end) == len(MARK) + HEX_DIGITS:
        if _digest(file) == end[-HEX_DIGITS:]:
            return None
        problem = "the file is damaged: its checksum does not match"
    elif not size:
        problem = "the file is empty"
    else:
        file.seek(0)
        if file.read(2) != b"PK" or is_zipfile(file):
            return OTHER_FILE.format("")
        problem = "the file is truncated or damaged: its end is missing"
    return f"{problem}. Copy or download it again, or save the model again."


def _digest(file: BinaryIO) -> bytes:
    """The sha256 of all bytes except the last ones, which contain it."""
    left = file.seek(0, os.SEEK_END) - HEX_DIGITS
    file.seek(0)
    digest = hashlib.sha256()
    while left > 0 and (chunk := file.read(min(HASHED_AT_ONCE, left))):
        digest.update(chunk)
        left -= len(chunk)
    return digest.hexdigest().encode()

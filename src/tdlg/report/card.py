"""The model card: what a classifier was fitted on, how it was judged, how good it is and on which parts, and its limits."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tdlg.atomic import new_file, target_of
from tdlg.checks import check_choice, check_count, check_number
from tdlg.exceptions import ParameterError
from tdlg.report.model import card_model
from tdlg.report.page import Page, render_card

__all__ = ["ModelCard"]


class ModelCard:
    """What a classifier is and how good it is, as data, as JSON and as one page; `model.card()` makes it.

    A part of the labels is hidden from a copy of the model, which is judged on them: so it takes about as long as `fit`.

    Parameters
    ----------
    model
        A fitted `PropagationClassifier` or `LineGraphClassifier`.
    positive
        The class that the card is about. By default the one that `explain` uses.
    label_name
        The name of the label, such as "fraud".
    alerts_per_day
        How many interactions per day somebody can look at; 20 by default, and at most a twentieth of all. Precision and
        recall are those of that many highest scores.
    evaluate
        "random" hides 30 % of the labels at random, "time" the last 30 %; by default what suits the model's setting.
    seed
        The seed for what is chosen at random.

    Attributes
    ----------
    content
        All that the card says, as plain values: "data", "protocol", "quality", "slices", "limits", "settings" and more.

    Examples
    --------
    >>> from tdlg import PropagationClassifier, make_payments
    >>> payments = make_payments(2000, random_state=0)
    >>> model = PropagationClassifier(random_state=0).fit(payments.edges, label_time=payments.label_time)
    >>> card = model.card(label_name="fraud")
    >>> sorted(card.content)[:4]
    ['data', 'is_dated', 'limits', 'positive']
    """

    def __init__(
        self,
        model: Any,
        *,
        positive: Any = None,
        label_name: str | None = None,
        alerts_per_day: float = 20.0,
        evaluate: Any = "auto",
        seed: int = 0,
    ) -> None:
        check_choice("card", "evaluate", evaluate, ("auto", "random", "time"))
        check_count("card", "seed", seed, 0)
        check_number("card", "alerts_per_day", alerts_per_day)
        self.content = card_model(model, positive, label_name, float(alerts_per_day), evaluate, int(seed))

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the card to a file: a page if its name ends in .html, JSON if it ends in .json."""
        suffix = Path(path).suffix.lower()
        if suffix not in (".html", ".json"):
            raise ParameterError(
                f"A card is written to a file whose name ends in .html or .json. Got {os.fspath(path)!r}.",
                parameter="path",
            )
        target = target_of(path)
        with new_file(target) as file:
            file.write((self.to_json() if suffix == ".json" else self.to_html()).encode())
        return target

    def to_json(self) -> str:
        """The card as JSON."""
        return json.dumps(self.content, allow_nan=False, indent=1) + "\n"

    def to_html(self) -> str:
        """The card as one page, without a script."""
        return render_card(self.content)

    def _repr_html_(self) -> str:
        return Page(self.to_html())._repr_html_()

    def __repr__(self) -> str:
        data = self.content["data"]
        return f"ModelCard({self.content['title']}, {data['n_edges']:,} interactions, {data['span']})"

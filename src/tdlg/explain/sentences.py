"""What an edge has around it, in words: from the evidence that a propagation model makes its columns of."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdlg._kernels import COMMON_NODES, UNUSUAL
from tdlg._kernels import RECENT as COMPARED
from tdlg.clock import duration_in_words, round_duration, time_in_words
from tdlg.edges import TemporalEdges
from tdlg.explain.positive import label_in_words
from tdlg.linegraph.match import MATCHES, SAME_ENDS
from tdlg.propagate.bursts import feature_of
from tdlg.propagate.features import Evidence, Network, PropagationFeatures
from tdlg.propagate.plan import CALENDAR, OwnColumn, levels, raw_values, scaled
from tdlg.propagate.two_ends import residuals

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]
Reason = tuple[str, list[int]]  # a sentence, and the positions of the edges behind it

RECENT = 10  # most neighbours that a sentence counts, the nearest in time
NAMED = 5  # the most neighbours given with a reason
MANY = 50  # most labelled neighbours that a sentence counts
LEAST_USUAL = 3  # neighbours that make up a shorter time in which something is usual
FEW = 20  # a node with at most so many neighbours is new, or not active, which a sentence says
RARE, USUAL = 0.25, 0.5  # shares of a category up to which it is unusual, and from which on it is usual
ANSWERS = {"yes", "no", "y", "n", "true", "false", "t", "f"}  # labels that do not name what they are about
ABOVE, FAR_ABOVE = 0.5, 2.0  # from which difference of two compressed amounts on one is above, or far above, the other
PARTNERS = 10  # number of edges around whose partners a sentence is about, the nearest in time
SEVERAL_TIMES = 2.0  # from which ratio of two positive amounts on it is shown

WHERE = {  # interactions that match, seen from the edge that is explained
    "src": "from {src}",
    "dst": "to {dst}",
    "src-dst": "to {src}",
    "dst-src": "from {dst}",
    "pair": "from {src} to {dst}",
    "reversed": "from {dst} back to {src}",
}
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
WHO = {"src": "{src} made", "dst": "{dst} received", "src-dst": "{src} received", "dst-src": "{dst} made"}
ALIKE = {
    "src": "to {{dst}} from sources that {} with {{src}} about other destinations",
    "dst": "from {{src}} to destinations that other sources label {} {{dst}}",
}
HOW = {"src": {1: "agree", -1: "disagree"}, "dst": {1: "like", -1: "unlike"}}  # by the sign of the similarity
COMMON = {
    "src": "of other sources of {dst} to destinations of {src}",
    "dst": "of other destinations of {src} from sources of {dst}",
}
OF_PARTNERS = {
    "dst": "from other sources of {dst} to other destinations",
    "src": "to other destinations of {src} from other sources",
    "src-dst": "from sources of {src} to other destinations",
    "dst-src": "to destinations of {dst} from other sources",
}


class Words:
    """Sentences about the edges to explain, and the neighbours that each sentence is about.

    evidence, at : what is known when they are scored, and their positions in it; label_name : the name of the label's
    column, such as "is_fraud", if it is known.
    """

    def __init__(
        self,
        features: PropagationFeatures,
        edges: TemporalEdges,
        evidence: Evidence,
        at: Positions,
        label_name: str | None = None,
    ) -> None:
        self._features, self._edges, self._evidence, self._at = features, edges, evidence, at
        self._label_name = label_name
        self._ticks, self._unit = evidence.edges.ticks, evidence.edges.time_unit
        self._known_at = evidence.known_at
        self._past_only = features.past_only
        self._last = "last" if self._past_only else "nearest"
        self._other = "earlier" if self._past_only else "other"
        self._side = "before" if self._past_only else "before or after"
        self._widths = features.plan_.widths(self._unit)
        self._n_fitted = len(features.edges_)
        self._new = np.flatnonzero(at >= self._n_fitted)
        self._own = {column.name: column for column in features.plan_.own}
        self._sorted: dict[str, tuple[Positions, Positions, Positions]] = {}
        self._values: dict[str, NDArray[Any]] = {}
        self._own_values: dict[str, NDArray[Any]] = {}
        self._counts: dict[str, Counter[Any]] = {}

    # ---- sentences
    #
    # An effect compares the columns with typical ones, so it may be contrary to the first thing that can be said about
    # them. A sentence that compares always agrees with the direction of the effect; where no comparison does, the sentence
    # states the facts without one.

    def labels(self, i: int, match: str, code: int, raises: bool, shift: float = 0.0) -> Reason:
        """How many of the labelled neighbours are of a class, or what they have on average.

        The `shift` is how much higher the rate is than a typical one, as the model sees it.
        """
        where = self._with_nodes(WHERE[match], i)
        known = self._labelled(i, self._around(i, match))
        if not len(known):
            return f"no labelled interaction {where}" + " yet" * self._past_only, []
        nearest = self._nearest(i, known, MANY)
        above = self._above_usual(nearest, code)
        for n in (RECENT, MANY, *range(RECENT - 1, 0, -1)):
            if _agrees(above[:n].mean(), raises):
                sentence = self._of_labels(where, nearest[:n], code, self._many(nearest[:n], known))
                return f"{sentence}, {self._latest(i, nearest[:n])}", self._telling(i, nearest[:n], above[:n])
        recent = nearest[:RECENT]
        behind = self._telling(i, recent, above[:RECENT])
        if _agrees(shift, raises):
            shares = self._shares(recent, code, self._many(recent, known))
            little = (
                f"the labels of interactions {where} say little {'against' if raises else 'for'} {self._name(code)}"
            )
            return f"{little}: {shares}, {self._latest(i, recent)}", behind
        return f"{_capped(len(known), 'labelled interaction')} {where}, {self._latest(i, recent)}", behind

    def known(self, i: int, match: str, more: bool) -> Reason:
        """How many labels are known, and how old they are: more, or fewer than usual."""
        where = self._with_nodes(WHERE[match], i)
        known = self._labelled(i, self._around(i, match))
        if not len(known):
            return f"no labelled interaction {where}" + " yet" * self._past_only, []
        nearest = self._nearest(i, known, MANY)
        labels = f"{_capped(len(known), 'label')}, {self._latest(i, nearest)}"
        sentence = f"{'more' if more else 'less'} is known than is typical about interactions {where}: {labels}"
        return sentence, self._behind(nearest)

    def _above_usual(self, places: Positions, code: int) -> Floats:
        """The labels of edges minus the average label: above 0 for the class, below 0 for other classes."""
        two_classes_first = self._features.classes_ is not None and len(self._features.prior_) == 1 and code == 0
        return self._evidence.targets[places, self._column(code)] * (-1.0 if two_classes_first else 1.0)

    def _column(self, code: int) -> int:
        return 0 if self._evidence.targets.shape[1] == 1 else code

    def _telling(self, i: int, places: Positions, above: Floats) -> list[int]:
        """The most telling edges: near in time, with a rare label."""
        return self._behind(places[np.argsort(-self._nearness(i, places) * np.abs(above), kind="stable")])

    def _of_labels(self, where: str, places: Positions, code: int, many: str) -> str:
        """What the labels of these edges are, next to those of all edges unless they are all of one kind."""
        above, classes = self._above_usual(places, code), self._features.classes_
        several = len(places) > 1
        subject = f"{many} labelled interaction{'s' * several} {where}"
        if classes is None:
            had, usual = self._numbers(above)
            return f"{subject} had {had}{' on average' * several} (all: {usual})"
        is_class = above > 0
        if not several:
            return f"{subject} {self._were(code, 1) if is_class[0] else self._were(code, 1, negated=True)}"
        sentence = f"{is_class.sum() or 'none'} of {subject} {self._were(code, 2)}"
        return (
            sentence if is_class.all() or not is_class.any() else f"{sentence} ({_percent(self._prior(code))} of all)"
        )

    def _shares(self, places: Positions, code: int, many: str) -> str:
        """The labels of edges in short."""
        above = self._above_usual(places, code)
        if self._features.classes_ is None:
            had, usual = self._numbers(above)
            return f"{had} on average (all: {usual})"
        n_class = int((above > 0).sum())
        if len(places) == 1:
            return f"{many} one {self._were(code, 1, negated=not n_class)}"
        return f"{n_class or 'none'} of {many}"

    def _numbers(self, above: Floats) -> tuple[str, str]:
        """The mean of numeric labels, and the mean of all."""
        prior = self._features.prior_[0]
        return _number(float(above.mean()) * self._features.plan_.target_spread + prior), _number(prior)

    def _prior(self, code: int) -> float:
        prior = self._features.prior_
        return float(prior[code]) if len(prior) > 1 else float(prior[0] if code == 1 else 1.0 - prior[0])

    def _name(self, code: int) -> str:
        """The class in words: "fraud", "is_fraud = 1" or "label 1"."""
        if self._features.classes_ is None:
            return "a high number"
        label = self._features.classes_[code]
        name = label_in_words(label)
        if isinstance(label, str) and name.lower() not in ANSWERS:
            return name
        if self._label_name is None:
            return f"label {name}"
        is_condition = self._label_name.startswith("(") and name == "1"  # such as "(stars > 3)"
        return self._label_name[1:-1] if is_condition else f"{self._label_name} = {name}"

    def _were(self, code: int, n: int, negated: bool = False) -> str:
        """The verb of n edges and the class: "were fraud", "was not fraud", "had label 1"."""
        name = self._name(code)
        if name == label_in_words(self._features.classes_[code]):  # type: ignore[index]
            return f"{'was' if n == 1 else 'were'} {'not ' * negated}{name}"
        return f"{'did not have' if negated else 'had'} {name}"

    def count(self, i: int, match: str, scale: int) -> Reason:
        """How many neighbours there are: of a node within the width of a decay, of a pair ever; how new a node is."""
        around = self._around(i, match)
        if not len(around):
            return self._first(i, match), []
        if match not in WHO:
            many = f"{_several(len(around), f'{self._other} interaction')} {self._with_nodes(WHERE[match], i)}"
            nearest = self._nearest(i, around, NAMED)
            return f"{many}, {self._latest(i, nearest)}", self._behind(nearest)
        longest, within = self._window(float(self._widths[scale]))
        inside = around[self._distance(i, around) <= longest]
        many = _several(len(inside), "interaction" if self._past_only else "other interaction")
        sentence = f"{self._with_nodes(WHO[match], i)} {many} {within}{self._side}"
        if self._past_only and len(around) <= FEW:
            sentence += f" ({len(around)} in all, the first {self._when(i, around[0])})"
        return sentence, self._behind(self._nearest(i, inside, NAMED))

    def _first(self, i: int, match: str) -> str:
        first = "first" if self._past_only else "the only"
        return f"{first if match in SAME_ENDS else f'no {self._other}'} interaction {self._with_nodes(WHERE[match], i)}"

    def gaps(self, i: int, match: str) -> Reason:
        """How far away in time the nearest neighbours are."""
        around, where, mine = self._around(i, match), self._with_nodes(WHERE[match], i), self._ticks[self._at[i]]
        if not len(around):
            return self._first(i, match), []
        nearest = self._nearest(i, around, 1)
        if self._past_only:
            return f"the last interaction {where} was {self._when(i, nearest[0])}", self._behind(nearest)
        if self._ticks[nearest[0]] == mine:
            return f"another interaction {where} is at the same time", self._behind(nearest)
        sides = around[self._ticks[around] < mine], around[self._ticks[around] > mine]
        if not (len(sides[0]) and len(sides[1])):
            none = "none is before" if len(sides[1]) else "none is after"
            sentence = f"the nearest interaction {where} is {self._when(i, nearest[0])}, {none}"
            return sentence, self._behind(nearest)
        before, after = (self._nearest(i, side, 1) for side in sides)
        when = f"{self._when(i, before[0])} and {self._when(i, after[0])}"
        both = self._nearest(i, np.concatenate([before, after]), 2)
        return f"the interactions {where} nearest in time are {when}", self._behind(both)

    def feature(self, i: int, match: str, name: str, raises: bool) -> Reason:
        """A feature of the edge beside that of its neighbours."""
        where, values, mine = self._with_nodes(WHERE[match], i), self._values_of(name), self._given(name)[i]
        around = self._with_feature(i, match, name)
        if not len(around):
            return self._without_feature(i, match, name), []
        recent = self._nearest(i, around, RECENT)
        if not _present(self._given(name)[i : i + 1])[0]:
            return f"{name} is missing, unlike {where}", self._behind(recent)
        if self._own[name].categories:
            return self._category(where, name, mine, values[recent], self._many(recent, around), raises), self._behind(
                recent
            )
        distance = self._distance(i, around)
        for some in (recent, *(around[distance <= width] for width in self._widths)):
            if some is recent or len(some) >= LEAST_USUAL:
                usual = float(np.median(values[some]))
                how, above = _compared(mine, usual, self._own[name])
                if _agrees(above, raises):
                    against = f"({_value(mine)} against about {_number(usual)})"
                    return f"{name} is {how} what is usual {where}{self._span(i, some)} {against}", self._behind(some)
        usual = float(np.median(values[recent]))
        beside = f"where about {_number(usual)} is usual {where}{self._span(i, recent)}"
        return f"{name} is {_value(mine)}, {beside}", self._behind(recent)

    def usual(self, i: int, match: str, name: str) -> Reason:
        """A feature of the neighbours, beside that of all edges."""
        around = self._with_feature(i, match, name)
        if not len(around):
            return self._without_feature(i, match, name), []
        recent = self._nearest(i, around, RECENT)
        usual, where = float(np.median(self._values_of(name)[recent])), self._with_nodes(WHERE[match], i)
        beside = f"(the median of all is {_number(self._own[name].centre)})"
        return f"about {_number(usual)} is the usual {name} {where}{self._span(i, recent)} {beside}", self._behind(
            recent
        )

    def lately(self, i: int, match: str, name: str) -> Reason:
        """How many of the neighbours had a number far above what was usual for them at that time."""
        around = self._with_feature(i, match, name)
        if not len(around):
            return self._without_feature(i, match, name), []
        plan, where = self._features.plan_, self._with_nodes(WHERE[match], i)
        around = around[np.argsort(self._ticks[around], kind="stable")]
        ticks = self._ticks[around]
        level = levels(self._evidence.own[around], plan.own)[:, plan.numbers.index(name)]
        n_before = np.searchsorted(ticks, ticks)
        usual = np.append(0.0, np.cumsum(level))[n_before] / (n_before + plan.smoothing)
        unusual = around[level > usual + UNUSUAL]
        recent = self._nearest(i, around, RECENT)
        found = recent[np.isin(recent, unusual)]
        far = f"of more than {np.exp(UNUSUAL):.1f} times" if "ratio" in self._own[name].beside else "far above"
        many = (
            f"{len(found) or 'none'} of {self._many(recent, around)} interactions"
            if len(recent) > 1
            else (f"{self._many(recent, around)} interaction")
        )
        had = "had" if len(recent) > 1 or len(found) else "did not have"
        return f"{many} {where} {had} {_article(name)} {name} {far} what was usual then", self._behind(
            found if len(found) else recent
        )

    def since(self, i: int, match: str) -> Reason:
        """How long ago the last neighbour was that is known to be of the rarest class, and how many came after it."""
        around, where, plan = self._around(i, match), self._with_nodes(WHERE[match], i), self._features.plan_
        if not len(around):
            return self._first(i, match), []
        known, code = self._labelled(i, around), plan.rarest or 0
        rare = known[plan.is_rare(self._evidence.targets[known])]
        if not len(rare):
            return f"so far no labelled interaction {where} {self._were(code, 1)}", []
        last = rare[np.argmax(self._ticks[rare])]
        n_after = int((self._ticks[around] >= self._ticks[last]).sum()) - 1
        one = f"the last labelled interaction {where} that {self._were(code, 1)}"
        return f"{one} was {self._when(i, last)}, and {_several(n_after, 'interaction')} came after it", [
            *self._behind(np.array([last]))
        ]

    def _with_feature(self, i: int, match: str, name: str) -> Positions:
        around = self._around(i, match)
        return around[_present(self._values_of(name)[around])]

    def _without_feature(self, i: int, match: str, name: str) -> str:
        n = len(self._around(i, match))
        if not n:
            return self._first(i, match)
        return f"{name} is missing in {self._many_of(n)} {self._with_nodes(WHERE[match], i)}"

    def _many_of(self, n: int) -> str:
        return f"the {n:,} {self._other} interactions" if n > 1 else f"the only {self._other} interaction"

    def _category(self, where: str, name: str, mine: Any, others: NDArray[Any], many: str, raises: bool) -> str:
        """How common a category is: unusual if that raises, usual if that lowers the score, else beside all; or ""."""
        n, alike = len(others), int((others == mine).sum())
        share = f"{alike or 'none'} of {many}" if n > 1 else f"{'not ' * (not alike)}that of {many}"
        if raises and alike <= RARE * n:
            return f"{name} {_value(mine)} is unusual among interactions {where}: {share}"
        if not raises and alike >= USUAL * n:
            return f"{name} {_value(mine)} is usual among interactions {where}: {share}"
        usual = self._share_of_all(name, mine)
        if not usual:
            return f"{name} {_value(mine)} is new: no interaction that the model learnt from has it"
        if n == 1:
            alone = f"{'as' if alike else 'unlike'} in {many} interaction {where}"
            return f"{name} is {_value(mine)}, {alone} ({_percent(usual)} of all)"
        more = alike - usual * n
        if abs(more) < 0.5:
            return ""  # it is as common as among all, which is no reason
        beside = f"among interactions {where} than among all: {share} against {_percent(usual)}"
        return f"{name} {_value(mine)} is {'more' if more > 0 else 'less'} common {beside}"

    def _share_of_all(self, name: str, category: Any) -> float:
        """How many of the fitted edges with this feature have a category."""
        if name not in self._counts:
            values = self._values_of(name)[: self._n_fitted]
            self._counts[name] = Counter(values[_present(values)].tolist())
        return self._counts[name][category] / max(self._counts[name].total(), 1)

    def own(self, i: int, name: str) -> Reason:
        """A feature of the edge itself."""
        given, column = self._given(name)[i : i + 1], self._own[name]
        if not _present(given)[0]:
            return f"{name} is missing", []
        if name in CALENDAR:
            return f"it happened {_in_calendar(name, float(given[0]))}", []
        typical = f" (the median is {_number(column.centre)})" if column.beside and not column.categories else ""
        return f"{name} is {_value(given[0])}{typical}", []

    def category(self, i: int, name: str) -> Any:
        """The category that the edge has; None of a number."""
        return self._given(name)[i] if self._own[name].categories else None

    # ---- both ends together

    def agreement(self, i: int, match: str, code: int, raises: bool) -> Reason:
        """Which labels the nodes most similar to one end have with the other end.

        With the match "src" these are sources that agree with the source about other destinations; with "dst", destinations
        that other sources label like the destination. If none does, the sentence counts those that disagree.
        """
        others, similarity, _ = self._similar(i, match, code)
        sign = 1 if (similarity > 0).any() or not (similarity < 0).any() else -1
        chosen = np.flatnonzero(similarity * sign > 0)
        places = others[chosen[np.argsort(-np.abs(similarity[chosen]), kind="stable")]]
        where = self._with_nodes(ALIKE[match].format(HOW[match][sign]), i)
        if sign > 0 and len(places) and _agrees(self._above_usual(places, code).mean(), raises):
            many = f"the {len(places)}" if len(places) > 1 else "the only"
            return self._of_labels(where, places, code, many), self._behind(places)
        none_yet = " yet" * (self._past_only and not len(places))
        return f"{_capped(len(places), 'labelled interaction')} {where}{none_yet}", self._behind(places)

    def common(self, i: int, match: str, code: int) -> Reason:
        """How many nodes of one end are known to others of the other end."""
        others, _, common = self._similar(i, match, code)
        many = _capped(int(common.sum()), "labelled interaction")
        return f"{many} {self._with_nodes(COMMON[match], i)}", self._behind(others[common > 0])

    def partners(self, i: int, match: str, code: int, raises: bool) -> Reason:
        """Which labels the partners of an end have elsewhere."""
        where = self._with_nodes(OF_PARTNERS[match], i)
        known = self._of_partners(i, match)
        if not len(known):
            return f"no labelled interaction {where}" + " yet" * self._past_only, []
        recent = self._nearest(i, known, MANY)
        above = self._above_usual(recent, code)
        behind = self._telling(i, recent, above)
        if _agrees(above.mean(), raises):
            return self._of_labels(where, recent, code, self._many(recent, known)), behind
        return f"{_capped(len(known), 'labelled interaction')} {where}", behind

    # ---- neighbours, as places in the evidence

    def _around(self, i: int, match: str) -> Positions:
        """All that the edge sees in this match, by time."""
        order, keys, wanted = self._by_match(match)
        mine = self._at[i]
        found = order[slice(*np.searchsorted(keys, [wanted[mine], wanted[mine] + 1]))]
        if self._past_only:
            return found[: np.searchsorted(self._ticks[found], self._ticks[mine])]
        rows = self._evidence.edges.place  # a copy of the edge is not a neighbour
        return found[rows[found] != rows[mine]]

    def _by_match(self, match: str) -> tuple[Positions, Positions, Positions]:
        if match not in self._sorted:
            self._sorted[match] = _by_key(self._evidence.edges, match)
        return self._sorted[match]

    def _labelled(self, i: int, around: Positions) -> Positions:
        """Those whose label is known when the edge is judged."""
        known = around[self._evidence.labelled[around]]
        if self._evidence.label_ticks is None:
            return known
        return known[self._known_at[known] < self._ticks[self._at[i]]]

    def _nearest(self, i: int, others: Positions, n: int) -> Positions:
        """The n nearest in time, those as near in their own order."""
        distance = self._distance(i, others)
        if len(others) > n:
            near = distance <= np.partition(distance, n - 1)[n - 1]
            others, distance = others[near], distance[near]
        return others[np.lexsort((others, distance))][:n]

    def _distance(self, i: int, others: Positions) -> NDArray[Any]:
        return np.abs(self._ticks[others] - self._ticks[self._at[i]])

    def _nearness(self, i: int, others: Positions) -> Floats:
        """How much each counts, over all decays."""
        return np.exp(-self._distance(i, others)[:, np.newaxis] / self._widths).sum(axis=1)

    def _behind(self, places: Positions) -> list[int]:
        """The first of these places as positions among the fitted edges, followed by the edges to explain."""
        n = self._n_fitted
        return [place if place < n else n + int(self._new[place - n]) for place in places[:NAMED].tolist()]

    # ---- parts of sentences

    def _with_nodes(self, words: str, i: int) -> str:
        return words.format(src=node_in_words(self._edges.src[i]), dst=node_in_words(self._edges.dst[i]))

    def _many(self, named: Positions, known: Positions) -> str:
        if len(named) == len(known):
            return f"the {len(named)}" if len(named) > 1 else "the only"
        return f"the {self._last} {len(named)}" if len(named) > 1 else f"the {self._last}"

    def _latest(self, i: int, nearest: Positions) -> str:
        when = self._when(i, nearest[0])
        return when if len(nearest) == 1 else f"the {self._last} {when}"

    def _when(self, i: int, other: Any) -> str:
        return time_in_words((self._ticks[other] - self._ticks[self._at[i]]).item(), self._unit)

    def _window(self, width: float) -> tuple[float, str]:
        """A round time near the width of a decay: in ticks, and in words."""
        if np.isinf(width):
            return np.inf, ""
        longest, words = round_duration(width, self._unit)
        return longest, f"in the {words} " if self._past_only else f"within {words} "

    def _span(self, i: int, others: Positions) -> str:
        """How far back these edges go; empty if they are all at the same time."""
        longest = float(self._distance(i, others).max())
        words = duration_in_words(longest, self._unit)
        return (f" in the last {words}" if self._past_only else f" within {words}") if longest else ""

    def _values_of(self, name: str) -> NDArray[Any]:
        """A feature of all edges of the evidence, as the caller gave it."""
        if name not in self._values:
            both = self._features.edges_, self._edges[self._new]
            self._values[name] = np.concatenate([_as_given(edges, self._own[name]) for edges in both])
        return self._values[name]

    def _given(self, name: str) -> NDArray[Any]:
        """A feature of the edges to score, as the caller gave it; it may differ from that of the same edge in `fit`."""
        if name not in self._own_values:
            self._own_values[name] = _as_given(self._edges, self._own[name])
        return self._own_values[name]

    # ---- neighbours of neighbours

    def _similar(self, i: int, match: str, code: int) -> tuple[Positions, Floats, Positions]:
        """The labelled edges of other nodes at the far end, how similar these are to the near end, how much they share."""
        far = "dst" if match == "src" else "src"
        near_codes, far_codes = self._codes[match], self._codes[far]
        u, v, left = near_codes[self._at[i]], far_codes[self._at[i]], self._left[match][:, self._column(code)]
        marks: dict[int, list[float]] = {}
        for other in self._compared(i, match, u):
            if far_codes[other] != v:
                marks.setdefault(int(far_codes[other]), []).append(left[other])
        means = {node: float(np.mean(values)) for node, values in marks.items()}
        others = [other for other in self._compared(i, far, v) if near_codes[other] != u]
        similarity, common = [], []
        for other in others:
            listed = self._compared(i, match, near_codes[other])
            both = [edge for edge in listed if int(far_codes[edge]) in means]
            agreed = sum(left[edge] * means[int(far_codes[edge])] for edge in both)
            similarity.append(agreed / (len(both) + COMMON_NODES))
            common.append(len(both))
        return np.array(others, np.int64), np.array(similarity), np.array(common, np.int64)

    def _compared(self, i: int, match: str, node: int) -> Positions:
        """The labelled edges of a node nearest to the edge in time, or the last ones known before it."""
        known = self._known_of(i, match, node)
        if not self._past_only:
            return self._nearest(i, known, COMPARED)
        return known[np.lexsort((known, self._ticks[known], self._known_at[known]))][-COMPARED:]

    def _known_of(self, i: int, match: str, node: int) -> Positions:
        """All labelled edges of a node, each once, without self-loops, that the edge may know."""
        order, keys, _ = self._by_match(match)
        found = order[slice(*np.searchsorted(keys, [node, node + 1]))]
        found = found[self._evidence.labelled[found] & (self._codes["src"][found] != self._codes["dst"][found])]
        if self._past_only:
            found = found[self._known_at[found] < self._ticks[self._at[i]]]
        rows = self._evidence.edges.place[found]
        first = np.sort(np.unique(rows, return_index=True)[1])
        return found[first][rows[first] != self._evidence.edges.place[self._at[i]]]

    def _of_partners(self, i: int, match: str) -> Positions:
        """The labelled edges of the partners with other nodes; the partners are those of the edges nearest in time."""
        mine, theirs = MATCHES[match].row, MATCHES[match].col
        far = "src" if theirs == "dst" else "dst"  # where the partners are
        here = self._codes[mine][self._at[i]]
        opposite = self._codes["src" if mine == "dst" else "dst"][self._at[i]]
        around = self._around(i, match)
        around = around[(self._codes[far][around] != opposite) & (self._codes[far][around] != here)]
        partners = np.unique(self._codes[far][self._nearest(i, around, PARTNERS)])
        found = [self._known_of(i, far, partner) for partner in partners]
        known = np.concatenate([np.empty(0, np.int64), *found])
        return known[self._codes[theirs][known] != here]

    @cached_property
    def _codes(self) -> dict[str, NDArray[np.int32]]:
        return {"src": self._evidence.edges.src, "dst": self._evidence.edges.dst}

    @cached_property
    def _left(self) -> dict[str, Floats]:
        """Labels minus what the other end has otherwise, for the edges of a source and of a destination."""
        src, dst = residuals(self._features.plan_, self._evidence)
        return {"src": dst, "dst": src}


def _by_key(edges: Network, match: str) -> tuple[Positions, Positions, Positions]:
    """The edges by what they are found by, then by time; their keys in that order; and the key each of them looks for."""
    src, dst = edges.src.astype(np.int64), edges.dst.astype(np.int64)
    keys = {"src": src, "dst": dst, "pair": src * edges.n_nodes + dst, "reversed pair": dst * edges.n_nodes + src}
    wanted, found_by = keys[MATCHES[match].row], keys[MATCHES[match].col]
    order = np.lexsort((edges.ticks, found_by))
    return order, found_by[order], wanted


def _as_given(edges: TemporalEdges, column: OwnColumn) -> NDArray[Any]:
    """A feature or the weight: numbers, NaN where missing, or categories, None where missing."""
    numbers = raw_values(edges, column.name)
    if not column.categories:
        return numbers
    categories = edges.feature_categories.get(column.name)
    values = np.full(len(numbers), None, object)
    for row in np.flatnonzero(np.isfinite(numbers)):
        values[row] = float(numbers[row]) if categories is None else categories[int(numbers[row])]
    return values


def _present(values: NDArray[Any]) -> NDArray[np.bool_]:
    return np.array([value is not None for value in values], bool) if values.dtype == object else np.isfinite(values)


def _compared(mine: float, usual: float, column: OwnColumn) -> tuple[str, float]:
    """How an amount is beside another, both scaled as the model sees them; above 0 if it is higher, 0 if they are close."""
    compressed = np.arcsinh(scaled(np.array([mine, usual]), column))
    more = float(compressed[0] - compressed[1])
    if "ratio" in column.beside and min(mine, usual) > 0 and max(mine / usual, usual / mine) >= SEVERAL_TIMES:
        ratio = mine / usual
        return f"{_number(float(f'{ratio:.2g}'))} times" if ratio > 1 else f"only {_percent(ratio)} of", ratio - 1.0
    if abs(more) < ABOVE:
        return "", 0.0
    return "far " * bool(abs(more) >= FAR_ABOVE) + ("above" if more > 0 else "below"), more


def _article(name: str) -> str:
    return "an" if name[:1].lower() in "aeiou" else "a"


def _agrees(above: float, raises: bool) -> bool:
    """Whether being above or below the usual is what raises or lowers a score, at first sight."""
    return above > 0 if raises else above < 0


# ---- other models


def near_interaction(model: Any, is_known: bool, edges: TemporalEdges, i: int, at: int, is_itself: bool = False) -> str:
    """A fitted interaction as the reason that the line-graph classifier gives for the i-th edge."""
    fitted = model.edges_
    of = f"labelled {label_in_words(model.labels_[at])}" if is_known else "of unknown label"
    if is_itself:
        return f"this interaction itself, which the model was fitted on, {of}"
    gap = fitted.time[at] - edges.time[i]
    unit = None if fitted.time_unit is None else np.datetime_data(gap.dtype)[0]
    when = time_in_words(gap.item() if unit is None else int(gap.astype(np.int64)), unit)
    return f"near the interaction from {node_in_words(fitted.src[at])} to {node_in_words(fitted.dst[at])}, {when}, {of}"


def burst(edges: TemporalEdges, i: int, key: str, n: int, usual: float, window: str) -> str:
    """How many interactions of a key or a group there were within a window, and how many are usual."""
    if key in WHERE:
        where = WHERE[key].format(src=node_in_words(edges.src[i]), dst=node_in_words(edges.dst[i]))
    else:
        where = f"with {category_in_words(edges, i, feature_of(key))}"
    many = f"{n:,} interactions" if n > 1 else "1 interaction"
    if not usual > 0:
        return f"{many} {where} within {window}, the first ever"
    shown = f"{usual:,.0f}" if usual >= 10 else f"{usual:.2g}"
    return f"{many} {where} within {window}, where {shown} {'is' if shown == '1' else 'are'} usual"


# ---- single words


def category_in_words(edges: TemporalEdges, i: int, name: str) -> str:
    """A category of an edge."""
    code = raw_values(edges[[i]], name)[0]
    return f"{name} {str(edges.feature_categories[name][int(code)])!r}" if np.isfinite(code) else f"no {name}"


def node_in_words(node: Any) -> str:
    """An id as it stands in a sentence."""
    value = node.item() if isinstance(node, np.generic) else node
    return f"node {value}" if isinstance(value, int | float) else repr(value)


def _value(value: Any) -> str:
    return _number(float(value)) if isinstance(value, float) else repr(value)


def _number(x: float) -> str:
    return f"{x:,.0f}" if 1000 <= abs(x) < 1e15 else f"{x:.4g}"


def _in_calendar(name: str, value: float) -> str:
    """An hour of the day, or a day of the week."""
    return f"at {int(value):02d}:{int(value % 1 * 60):02d} UTC" if name == CALENDAR[0] else f"on a {DAYS[int(value)]}"


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.01 else f"{share:.1%}" if share >= 0.001 else "a tiny part"


def _capped(n: int, noun: str) -> str:
    return _several(n, noun) if n <= MANY else f"more than {MANY} {noun}s"


def _several(n: int, noun: str) -> str:
    return f"{n:,} {noun}s" if n > 1 else f"{'1' if n else 'no'} {noun}"

// A node: its interactions in time, as a chart and as a table.

import { Refused, ask, byId, cellsOf, classed, counted, draw, linkToNode, make, named, query, scored, valued, when } from "./dom.js";

const NOT_FEATURES = new Set(["id", "src", "dst", "time", "score", "label", "label_time", "late", "fitted", "row", "is_positive"]);
const MOST_FEATURES = 3;

export async function showNode(about, id) {
  byId("node-title").textContent = named(id);
  byId("to-node").textContent = named(id).slice(0, 24);
  byId("node-positive").textContent = about.positive === null ? "confirmed" : classed(about.positive);
  let found = { events: [], n_live: 0, n_fitted: 0 };
  try {
    found = await ask(`nodes?${query({ id, limit: 100 })}`);
  } catch (error) {
    if (!(error instanceof Refused)) { throw error; }
  }
  const isKnown = found.events.length > 0;
  byId("node-line").textContent = isKnown ? summary(found) : "No interaction of this node is known. Ids must be written as in the events.";
  byId("node-figure").hidden = !isKnown;
  byId("history").hidden = !isKnown;
  if (isKnown) {
    byId("history").replaceChildren(...eventTable(about, [...found.events].reverse()).children);
    await draw(byId("node-figure").querySelector("[data-chart]"), "node", { id });
  }
}

function summary({ n_live: live, n_fitted: fitted, labelled, positive, events }) {
  const labels = labelled ? ` Of the latest ${valued(events.length)}, ${valued(labelled)} have a label, ${valued(positive)} the positive one.` : "";
  return `${counted(live, "recent interaction")}, and ${valued(fitted)} that the model was fitted on.${labels}`;
}

export function eventTable(about, events) {
  const features = [...new Set(events.flatMap((event) => Object.keys(event)))].filter((name) => !NOT_FEATURES.has(name)).slice(0, MOST_FEATURES);
  const heads = [["Time", ""], ["From", ""], ["To", ""], ...features.map((name) => [named(name), "figure"]), ["Score", "figure"], ["Label", ""]];
  const row = (event) => make("tr", {}, ...cellsOf(heads.map(([text]) => text), [
    ["time", when(event.time)],
    ["id", linkToNode(event.src)],
    ["id", linkToNode(event.dst)],
    ...features.map((name) => ["figure", valued(event[name])]),
    ["figure", scored(event.score, about.is_probability)],
    ["", labelOf(event)],
  ]));
  return make("table", { css: "rows" },
    make("thead", {}, make("tr", {}, ...heads.map(([text, css]) => make("th", { scope: "col", css, text })))),
    make("tbody", {}, ...events.map(row)));
}

function labelOf({ label, is_positive: isPositive }) {
  if (label === null || label === undefined) { return make("span", { css: "muted", text: "–" }); }
  return make("span", { css: `mark ${isPositive ? "confirmed" : "dismissed"}`, text: named(label) });
}

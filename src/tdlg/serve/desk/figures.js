// Figures: how many of the reviewed alerts were confirmed, by whom, and what changed.

import { ask, byId, cellsOf, counted, draw, make, percent, valued } from "./dom.js";

export async function showFigures() {
  const found = await ask("statistics");
  const { precision, recall, random, alerts } = found;
  const confirmed = alerts.confirmed - random.confirmed;
  const reviewed = confirmed + alerts.dismissed - (random.reviewed - random.confirmed);
  const within = ({ low, high }) => `${percent(low)} to ${percent(high)} (90 % interval)`;
  const tiles = [
    ["Precision", precision ? percent(precision.value) : "–", precision ? `${within(precision)}; ${valued(confirmed)} of ${counted(reviewed, "alert")} confirmed` : "no alert reviewed yet"],
    ...(random.drawn ? [["Recall", recall ? (random.confirmed ? percent(recall.value) : `≥ ${percent(recall.low)}`) : "–", `${recall ? `${within(recall)}; ` : ""}${valued(random.reviewed)} of ${counted(random.drawn, "random event")} reviewed, ${valued(random.confirmed)} confirmed`]] : []),
    ["Open alerts", valued(alerts.open), `from a score of ${found.threshold.toPrecision(3)}`],
    ["Events per second", valued(Number(found.events_per_second.toPrecision(3))), "in the last minute"],
    ["Events", valued(found.events), `${counted(found.labels, "label")} learnt`],
  ];
  showTiles("tiles", tiles);
  showWeeks(found.weeks);
  const team = [
    ...found.by_reviewer.map(({ reviewer, reviewed, confirmed: n }) => [reviewer || "programs", `${valued(n)} of ${counted(reviewed, "alert")} confirmed`]),
    ...found.by_reason.map(({ reason, dismissed: n }) => [`dismissed: ${reason}`, counted(n, "alert")]),
  ];
  byId("by-team").hidden = !team.length;
  byId("by-team").tBodies[0].replaceChildren(...team.map(([name, text]) => make("tr", {},
    make("th", { scope: "row", text: name }), make("td", { text }))));
  const section = byId("figures");
  await Promise.all([...section.querySelectorAll("[data-chart]")].map((place) => draw(place, place.dataset.chart)));
}

function showWeeks({ this: now, last: before }) {
  const share = (week) => (week.reviewed ? week.confirmed / week.reviewed : NaN);
  const rows = [
    ["Events", now.events, before.events],
    ["Alerts", now.alerts, before.alerts],
    ["Reviewed", now.reviewed, before.reviewed],
    ["Confirmed", now.confirmed, before.confirmed],
  ].map(([name, a, b]) => [name, valued(a), valued(b), b ? changed(percent(a / b - 1)) : "–"]);
  const points = Math.round(100 * (share(now) - share(before)));
  rows.push(["Precision", percent(share(now)), percent(share(before)), Number.isFinite(points) ? changed(`${points} points`) : "–"]);
  byId("weeks").tBodies[0].replaceChildren(...rows.map(([name, ...cells]) => make("tr", {},
    make("th", { scope: "row", text: name }), ...cells.map((cell) => make("td", { css: "figure", text: cell })))));
}

function changed(text) { return /^[-0]/.test(text) ? text.replace("-", "−") : `+${text}`; }

function showTiles(place, tiles) {
  byId(place).replaceChildren(...tiles.map(([name, value, note]) => make("div", {},
    make("dt", { text: name }), make("dd", { text: value }, make("small", { text: note })))));
}

// how far the last week is from the fit
export async function showDrift() {
  const { refit, quantities, expected_precision: expected, alerts } = await ask("drift");
  const drifting = quantities.filter(({ drifts }) => drifts).map(({ of }) => of);
  byId("drift-line").textContent = refit ? `Refit: ${drifting.join(", ")} changed.` : "No drift.";
  showTiles("drift-tiles", [["Expected precision", percent(expected ?? NaN), `of ${counted(alerts, "alert")} of the last week, by their scores`]]);
  const table = byId("drifts");
  const heads = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
  const figure = (value) => (value === null ? "–" : value.toFixed(3));
  table.tBodies[0].replaceChildren(...quantities.map(({ of, value, threshold, drifts, words }) => make("tr", {}, ...cellsOf(heads, [
    ["", of], ["figure", figure(value)], ["figure", figure(threshold)], ["", drifts ? make("span", { css: "mark confirmed", text: "drift" }) : value === null ? "–" : "no"], ["id", words],
  ]))));
}

// Figures: how many of the reviewed alerts were confirmed, by whom, and what changed.

import { ask, byId, counted, draw, make, percent, valued } from "./dom.js";

export async function showFigures() {
  const found = await ask("statistics");
  const { precision, recall, random, alerts } = found;
  const confirmed = alerts.confirmed - random.confirmed;
  const reviewed = confirmed + alerts.dismissed - (random.reviewed - random.confirmed);
  const within = ({ low, high }) => `${percent(low)} to ${percent(high)} (90 % interval)`;
  const tiles = [
    ["Precision", precision ? percent(precision.value) : "–", precision ? `${within(precision)}; ${valued(confirmed)} of ${counted(reviewed, "alert")} confirmed` : "no alert reviewed yet"],
    ...(random.drawn ? [["Recall", recall ? percent(recall.value) : "–", `${recall ? `${within(recall)}; ` : ""}${valued(random.reviewed)} of ${counted(random.drawn, "random event")} reviewed, ${valued(random.confirmed)} confirmed`]] : []),
    ["Open alerts", valued(alerts.open), `from a score of ${found.threshold.toPrecision(3)}`],
    ["Events per second", valued(Number(found.events_per_second.toPrecision(3))), "in the last minute"],
    ["Events", valued(found.events), `${counted(found.labels, "label")} learnt`],
  ];
  byId("tiles").replaceChildren(...tiles.map(([name, value, note]) => make("div", {},
    make("dt", { text: name }), make("dd", { text: value }, make("small", { text: note })))));
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

// Figures: how many of the reviewed alerts were confirmed, and what changed; and what was decided.

import { ask, byId, cellsOf, counted, draw, linkToNode, make, percent, scored, valued, when } from "./dom.js";

export async function showFigures() {
  const found = await ask("statistics");
  const { confirmed, dismissed, open } = found.alerts;
  const reviewed = confirmed + dismissed;
  const tiles = [
    ["Precision", reviewed ? percent(confirmed / reviewed) : "–", reviewed ? `${valued(confirmed)} of ${counted(reviewed, "alert")} confirmed` : "no alert reviewed yet"],
    ["Open alerts", valued(open), `from a score of ${found.threshold.toPrecision(3)}`],
    ["Events per second", valued(Number(found.events_per_second.toPrecision(3))), "in the last minute"],
    ["Events", valued(found.events), `${counted(found.labels, "label")} learnt`],
  ];
  byId("tiles").replaceChildren(...tiles.map(([name, value, note]) => make("div", {},
    make("dt", { text: name }), make("dd", { text: value }, make("small", { text: note })))));
  showWeeks(found.weeks);
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

// ---- what was decided

export async function showDecisions(about, reopen) {
  const found = await Promise.all(["confirmed", "dismissed"].map((status) => ask(`alerts?status=${status}&limit=100`)));
  const decided = found.flatMap(({ alerts }) => alerts).sort(byDecision);
  byId("no-decisions").hidden = decided.length > 0;
  const table = byId("decisions");
  table.hidden = !decided.length;
  const heads = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
  table.tBodies[0].replaceChildren(...decided.slice(0, 100).map((alert) => make("tr", {}, ...cellsOf(heads, [
    ["time", when(alert.decided_at)],
    ["id", linkToNode(alert.src)],
    ["id", linkToNode(alert.dst)],
    ["figure", scored(alert.score, about.is_probability)],
    ["", make("span", { css: `mark ${alert.status}`, text: alert.status })],
    ["figure", make("button", { type: "button", css: "plain", text: "Open again", on: { click: () => reopen(alert) } })],
  ]))));
}

function byDecision(a, b) {
  return a.decided_at < b.decided_at ? 1 : a.decided_at > b.decided_at ? -1 : b.sequence - a.sequence;
}

// What was decided, what is snoozed, and who did what.

import { suggest, untilOf } from "./case.js";
import { ask, byId, cellsOf, linkToNode, make, named, options, query, scored, tell, valued, when } from "./dom.js";

const MOST = 200;
const percent1 = (part) => `${(100 * part).toPrecision(2)} %`;

const headsOf = (table) => [...table.tHead.rows[0].cells].map((cell) => cell.textContent);

function fill(table, rows) {
  const heads = headsOf(table);
  table.hidden = !rows.length;
  table.tBodies[0].replaceChildren(...rows.map((cells) => make("tr", {}, ...cellsOf(heads, cells))));
}

// ---- decided

export async function showDecided(about, team, reopen) {
  const form = byId("of-decided");
  const { reasons } = team;
  if (form.elements.dismissal.options.length !== reasons.length + 1) {
    options(form.elements.dismissal, [["", "any"], ...reasons.map((reason) => [reason, reason])], form.elements.dismissal.value);
  }
  const asked = Object.fromEntries([...new FormData(form)].filter(([, value]) => value.trim() !== ""));
  byId("export-decided").href = `alerts.csv?${query({ ...asked, order: "latest" })}`;
  const { alerts } = await ask(`alerts?${query({ ...asked, order: "latest", limit: MOST })}`);
  byId("no-decisions").hidden = alerts.length > 0;
  fill(byId("decisions"), alerts.map((alert) => [
    ["time", when(alert.decided_at)],
    ["id", linkToNode(alert.src)],
    ["id", linkToNode(alert.dst)],
    ["figure", scored(alert.score, about.is_probability)],
    ["", make("span", { css: `mark ${alert.status}`, text: alert.status })],
    ["", [alert.by, alert.dismissal].filter(Boolean).join(": ") || "–"],
    ["figure", make("button", { type: "button", css: "plain", text: "Open again", "aria-label": `Open again ${named(alert.src)} → ${named(alert.dst)}`, on: { click: () => reopen(alert) } })],
  ]));
}

// ---- snoozed

export async function showSnoozed(desk) {
  const { snoozed } = await ask("team");
  byId("none-snoozed").hidden = snoozed.length > 0;
  const end = async (nodes) => {
    try { await tell("actions", { do: "wake", nodes }); } catch (error) { desk.report(error.message); }
    await showSnoozed(desk);
  };
  fill(byId("snoozes"), snoozed.map(({ nodes, until, by, at, note }) => [
    ["id", make("span", {}, ...nodes.flatMap((node, k) => [k ? " → " : "", linkToNode(node)]))],
    ["time", until === null ? "it is ended" : when(until)],
    ["", by || "–"],
    ["time", when(at)],
    ["id", note || "–"],
    ["figure", make("button", { type: "button", css: "plain", text: "End", "aria-label": `End the snooze of ${nodes.map(named).join(" → ")}`, on: { click: () => end(nodes) } })],
  ]));
  const until = byId("to-snooze").elements.until;
  if (!until.value) { await suggest(until); }
}

// the forms on these pages
export function listenToForms(desk) {
  byId("to-reasons").addEventListener("submit", async (event) => {
    event.preventDefault();
    const reasons = event.target.elements.reasons.value.split("\n").map((line) => line.trim()).filter(Boolean);
    try {
      await tell("actions", { do: "reasons", reasons });
      desk.report("The reasons to dismiss are saved");
      desk.onChange();
    } catch (error) { desk.report(error.message); }
  });
  byId("to-snooze").addEventListener("submit", async (event) => {
    event.preventDefault();
    const { node, to, until, note } = event.target.elements;
    const nodes = [node.value.trim(), to.value.trim()].filter(Boolean);
    try {
      await desk.snooze(nodes, untilOf(until), note.value.trim());
      node.value = to.value = note.value = "";
    } catch (error) { desk.report(error.message); }
  });
}

// ---- who did what

const WORDS = {
  label: ({ label, reason }) => (label === null ? "opened again" : `label ${named(label)}${reason ? `, ${reason}` : ""}`),
  change: ({ assignee }) => (assignee === undefined ? "" : `assigned to ${assignee ?? "nobody"}`),
  person: ({ name, role }) => `reviewer ${name}, ${role}`,
  reasons: ({ reasons }) => `reasons: ${reasons.join(", ")}`,
  snooze: ({ until }) => `snoozed until ${until === null ? "it is ended" : when(until)}`,
  wake: () => "ended the snooze",
  rules: ({ file }) => `rules${file ? ` of ${file}` : ""}`,
  promote: ({ generation }) => `promoted ${generation}`,
  drop: ({ generation }) => `dropped ${generation}`,
};

export async function showAudit() {
  const { reasons } = await ask("team");
  const field = byId("to-reasons").elements.reasons;
  if (document.activeElement !== field) { field.value = reasons.join("\n"); }
  const { actions } = await ask(`audit?limit=${MOST}`);
  byId("no-audit").hidden = actions.length > 0;
  fill(byId("actions"), actions.map((one) => [
    ["time", when(one.at)],
    ["", one.by || "program"],
    ["id", [WORDS[one.do]?.(one) ?? one.do, one.note ? `“${one.note}”` : "", one.chance === undefined ? "" : `(a random event, drawn with a chance of ${percent1(one.chance)})`].filter(Boolean).join(" ")],
    ["id", one.nodes ? one.nodes.map(named).join(" → ") : valued(one.id ?? "–")],
    ["", one.model || "–"],
  ]));
}

// The model in place, its challenger, and the rules beside it.

import { ask, byId, cellsOf, counted, make, named, percent, tell, valued, when } from "./dom.js";

const digits = (x) => (x === null ? "–" : x.toFixed(3));
const signed = (x, unit) => `${x < 0 ? "−" : "+"}${unit(Math.abs(x))}`;
const between = (gain, unit) => (gain ? `${signed(gain.value, unit)} (${signed(gain.low, unit)} to ${signed(gain.high, unit)})` : "–");

export async function showModel(desk) {
  const [found, rules] = [await ask("challenger"), await ask("rules")];
  byId("in-place").textContent = `${found.generation} is in place.`;
  showChallenger(found, desk);
  showRules(rules, desk);
}

function showChallenger({ challenger: one, failure }, desk) {
  const isLead = desk.team.role !== "analyst";
  byId("challenger-failure").hidden = !failure;
  byId("challenger-failure").textContent = failure ?? "";
  byId("no-challenger").hidden = one !== null;
  byId("rivals").hidden = byId("challenger-line").hidden = one === null;
  byId("promote").hidden = byId("drop").hidden = one === null || !isLead;
  if (one === null) { return; }
  const { old, new: rival } = one;
  const quality = one.n_positive === null ? "Error" : "Average precision";
  const rows = [
    ["Alerts", valued(old.alerts), valued(rival.alerts), "–"],
    ["of these reviewed", valued(old.reviewed), valued(rival.reviewed), "–"],
    ["confirmed", valued(old.confirmed), valued(rival.confirmed), "–"],
    ["Precision, in %", percent(old.precision ?? NaN), percent(rival.precision ?? NaN), between(one.precision_gain, (x) => `${Math.round(100 * x)}`)],
    [quality, digits(old.quality), digits(rival.quality), between(one.gain, (x) => x.toFixed(3))],
  ];
  byId("rivals").tBodies[0].replaceChildren(...rows.map(([name, ...cells]) => make("tr", {},
    make("th", { scope: "row", text: name }), ...cells.map((cell) => make("td", { css: "figure", text: cell })))));
  const positive = one.n_positive === null ? "" : `, ${valued(one.n_positive)} of them positive`;
  byId("challenger-line").textContent = `${one.generation} scores beside it since ${when(one.since)}: ${counted(one.n_events, "event")}, ${valued(one.n_labelled)} of what both scored have a label${positive}; ${valued(one.n_of_alerts)} of these were alerts of the model in place. Verdict: ${one.verdict}, since ${one.reason}.`;
  for (const name of ["promote", "drop"]) {
    byId(name).onclick = () => act(desk, { do: name, generation: one.generation }, name === "promote" ? `${one.generation} answers from now on` : `${one.generation} is dropped`);
  }
}

function showRules({ text, rules, incomplete_since: since }, desk) {
  const isLead = desk.team.role !== "analyst";
  byId("no-rules").hidden = rules.length > 0;
  byId("rules").hidden = !rules.length;
  const heads = ["An event is an alert if", "Alerts", "Reviewed", "Confirmed"];
  byId("rules").tBodies[0].replaceChildren(...rules.map((rule) => make("tr", {},
    make("th", { scope: "row", text: named(rule.name) }),
    ...cellsOf(heads, [
      ["id", rule.conditions.join(" and ")],
      ["figure", valued(rule.alerts)],
      ["figure", valued(rule.reviewed)],
      ["figure", rule.reviewed ? percent(rule.confirmed / rule.reviewed) : "–"],
    ]))));
  byId("rules-since").hidden = since === null;
  byId("rules-since").textContent = since === null ? "" : `Events are counted since ${when(since)}, which is less than the longest window.`;
  const form = byId("to-rules");
  form.hidden = !isLead;
  if (document.activeElement !== form.elements.text) { form.elements.text.value = text; }
  form.onsubmit = (event) => {
    event.preventDefault();
    act(desk, { do: "rules", text: form.elements.text.value }, "The rules are in use");
  };
}

async function act(desk, action, said) {
  try {
    await tell("actions", action);
    desk.report(said);
    document.activeElement.blur();
  } catch (error) { desk.report(error.message); return; }
  await showModel(desk);
}

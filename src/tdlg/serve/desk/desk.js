// The desk: what is shown, what keys do, and what the service tells.

import { Cases } from "./cases.js";
import { ask, byId, counted, tell, valued } from "./dom.js";
import { showDrift, showFigures } from "./figures.js";
import { listenToForms, showAudit, showDecided, showSnoozed } from "./lists.js";
import { showModel } from "./model.js";
import { showNode } from "./node.js";

const about = await ask("about");
const desk = new Cases(about, { onChange: () => { if (!isList(place()[0])) { update(); } } });
const RETRY = 3000; // milliseconds until a stream that was refused is asked for again
const views = [...document.querySelectorAll("[data-view]")];

// ---- views

const isList = (name) => name === "alerts" || name === "mine";
const shownBy = {
  alerts: () => desk.refresh(false),
  mine: () => desk.refresh(true),
  snoozed: () => showSnoozed(desk),
  decided: () => showDecided(about, desk.team, (alert) => desk.decide([alert], null)),
  audit: () => showAudit(),
  figures: () => showFigures(),
  model: () => showModel(desk),
  drift: () => showDrift(),
  node: (id) => showNode(about, id),
};

function place() {
  const [name, id = ""] = location.hash.slice(1).split("=");
  try {
    return name in shownBy && (name !== "node" || id) ? [name, decodeURIComponent(id)] : ["alerts", ""];
  } catch {  // not a code of a character
    return ["alerts", ""];
  }
}

async function show() {
  const [name, id] = place();
  for (const view of views) { view.hidden = view.id !== (name === "mine" ? "alerts" : name); }
  for (const link of document.querySelectorAll("nav a")) {
    const isHere = link.hash.slice(1).split("=")[0] === name;
    if (name === "node" && link.id === "to-node") { link.hidden = false; link.hash = location.hash; }
    link.toggleAttribute("aria-current", isHere);
    if (isHere) { link.setAttribute("aria-current", "page"); }
  }
  await refreshed(() => shownBy[name](id));
}

async function refreshed(work) {
  try { await work(); } catch (error) { say("trouble", error.message); }
}

function update() { refreshed(() => shownBy[place()[0]](place()[1])); }

// ---- what the service tells

function say(state, text) {
  const line = byId("state");
  if (line.className !== state && (state === "trouble" || line.className)) { byId("news").textContent = text; }
  line.className = state;
  line.lastElementChild.textContent = text;
}

function take(figures) {
  if (!figures.alerts) { return; }
  const rate = `${valued(Number(figures.events_per_second.toPrecision(2)))} events per second`;
  say(figures.ok ? "live" : "trouble", figures.ok ? rate : figures.reason ?? "The log cannot be written.");
  const open = figures.alerts.open;
  byId("n-open").textContent = open ? valued(open) : "";
  document.title = open ? `(${open}) tdlg desk` : "tdlg desk";
  byId("meanwhile").textContent = figures.events ? `${counted(figures.events, "event")} scored so far.` : "";
}

function listen() {
  const source = new EventSource("changes");
  source.addEventListener("pulse", (event) => take(JSON.parse(event.data)));
  source.addEventListener("changes", update);
  source.addEventListener("open", update);
  source.addEventListener("error", () => {
    say("trouble", "connecting again");
    if (source.readyState === EventSource.CLOSED) { setTimeout(() => { listen(); update(); }, RETRY); }
  });
}

// ---- keys and forms

const keys = {
  j: () => desk.step(1),
  k: () => desk.step(-1),
  y: () => desk.decideSelected(about.confirm),
  n: () => { if (about.dismiss !== null) { desk.decideSelected(about.dismiss); } },
  u: () => desk.undo(),
  x: () => desk.markSelected(),
  a: () => desk.assignToMe(),
  m: () => desk.part.focusNote(),
  s: () => desk.part.openSnooze(),
  "?": () => { const help = byId("help"); if (help.open) { help.close(); } else { help.showModal(); } },
  "/": () => byId("find").elements.id.focus(),
};

document.addEventListener("keydown", (event) => {
  const isTyping = event.target.matches?.("input:not([type=radio]):not([type=checkbox]), textarea, select");
  if (event.key === "Escape" && isTyping) { event.target.blur(); }
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey || !(event.key in keys)) { return; }
  if ("jkynxams".includes(event.key) && (!isList(place()[0]) || byId("help").open)) { return; }
  event.preventDefault();
  keys[event.key]();
});

byId("find").addEventListener("submit", (event) => {
  event.preventDefault();
  const field = event.target.elements.id;
  const id = field.value.trim();
  if (id) { location.hash = `node=${encodeURIComponent(id)}`; field.value = ""; field.blur(); }
});

byId("of-decided").addEventListener("input", update);
byId("of-decided").addEventListener("submit", (event) => event.preventDefault());
byId("undo").addEventListener("click", () => desk.undo());
byId("leave").addEventListener("click", async () => { await tell("logout", {}); location.reload(); });

byId("about").textContent = `${about.model}, tdlg ${about.version}. An alert has a score of at least ${about.threshold.toPrecision(3)}.`;
byId("leave").hidden = !about.signed_in;
desk.takeTeam(await ask("team"));
desk.fitFeature();
listenToForms(desk);
addEventListener("hashchange", show);
await show();
listen();

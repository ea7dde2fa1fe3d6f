// The open alerts: a list, the selected one in full, and decisions, which can be undone.

import { ask, byId, classed, counted, linkToNode, make, named, query, scored, tell, valued, when } from "./dom.js";
import { eventTable } from "./node.js";

const PAGE = 50;
const SHOWN = 12_000; // milliseconds for which the last decision is shown
const narrow = matchMedia("(max-width: 60rem)");

export class Alerts {
  constructor(about, { onChange }) {
    this.about = about;
    this.onChange = onChange;
    this.alerts = new Map();
    this.rows = new Map();
    this.seen = null;
    this.selected = null;
    this.decisions = [];
    this.limit = PAGE;
    this.turn = 0;
    this.order = "newest";
    this.detail = byId("detail");
    for (const input of document.querySelectorAll("input[name=order]")) {
      input.addEventListener("change", () => { this.order = input.value; this.layOut(); });
    }
    byId("more").addEventListener("click", () => { this.limit += PAGE; this.refresh(); });
    narrow.addEventListener("change", () => this.placeDetail());
  }

  // ---- the list

  async refresh() {
    const turn = ++this.turn;
    const { alerts, more } = await ask(`alerts?${query({ limit: this.limit })}`);
    if (turn !== this.turn) { return; } // a later answer is on its way
    const open = new Map(alerts.map((alert) => [alert.id, alert]));
    const next = open.has(this.selected) ? this.selected : this.neighbour(1, open) ?? this.neighbour(-1, open);
    this.alerts = open;
    byId("more").hidden = !more;
    this.layOut();
    this.announce();
    this.select(next ?? this.ordered()[0] ?? null);
    this.fillKnown();
  }

  ordered() {
    const ids = [...this.alerts.keys()];
    return this.order === "newest" ? ids : ids.sort((a, b) => this.alerts.get(b).score - this.alerts.get(a).score);
  }

  neighbour(step, among = this.alerts) {
    const ids = [...byId("list").children].map((row) => row.alertId);
    const at = ids.indexOf(this.selected);
    if (at < 0) { return null; }
    for (let k = at + step; k >= 0 && k < ids.length; k += step) { if (among.has(ids[k])) { return ids[k]; } }
    return null;
  }

  layOut() {
    const list = byId("list");
    const ids = this.ordered();
    byId("work").hidden = !ids.length;
    byId("empty").hidden = Boolean(ids.length);
    for (const id of this.rows.keys()) {
      if (!this.alerts.has(id)) { this.rows.get(id).remove(); this.rows.delete(id); }
    }
    ids.forEach((id, at) => {
      if (!this.rows.has(id)) { this.rows.set(id, this.makeRow(this.alerts.get(id))); }
      const row = this.rows.get(id);
      if (list.children[at] !== row) { list.insertBefore(row, list.children[at] ?? null); }
    });
  }

  makeRow(alert) {
    const facts = [when(alert.time), ...Object.entries(alert.features ?? {}).slice(0, 2).map(([name, value]) => `${named(name)}\u00a0${valued(value)}`)];
    const row = make("li", { css: this.seen && !this.seen.has(alert.id) ? "new" : "" },
      make("button", { type: "button", css: "alert", on: { click: () => this.select(alert.id, true) } },
        make("span", { css: "score" },
          make("span", { text: scored(alert.score, this.about.is_probability) }),
          this.meter(alert.score)),
        make("span", { css: "ends", text: `${named(alert.src)} → ${named(alert.dst)}` }),
        make("span", { css: "why", text: alert.reason ?? "" }),
        make("span", { css: "facts-line", text: facts.join(" · ") })));
    row.alertId = alert.id;
    return row;
  }

  meter(score) {
    const { is_probability: isProbability, threshold } = this.about;
    const part = isProbability ? score : Math.min(1, score / (2 * Math.abs(threshold) || 1));
    return make("meter", { min: 0, max: 1, value: Math.max(0, part), "aria-hidden": "true" });
  }

  announce() {
    const fresh = [...this.alerts.values()].filter(({ id }) => this.seen && !this.seen.has(id));
    this.seen = new Set([...(this.seen ?? []), ...this.alerts.keys()]);
    byId("list").setAttribute("aria-label", counted(this.alerts.size, "open alert"));
    if (!fresh.length) { return; }
    const [{ src, dst, score }] = fresh;
    const newest = `${named(src)} to ${named(dst)}, score ${scored(score, this.about.is_probability)}`;
    byId("news").textContent = `${counted(fresh.length, "new alert")}: ${newest}`;
  }

  fillKnown() {
    const ids = [...new Set([...this.alerts.values()].flatMap((alert) => [alert.src, alert.dst]))];
    byId("known").replaceChildren(...ids.slice(0, 200).map((id) => make("option", { value: String(id) })));
  }

  // ---- the selected alert

  step(by) {
    const next = this.selected === null ? this.ordered()[0] : this.neighbour(by);
    if (next !== null && next !== undefined) { this.select(next, true); }
  }

  select(id, toFocus = false) {
    const isOther = id !== this.selected;
    this.selected = id;
    for (const [key, row] of this.rows) {
      const button = row.firstElementChild;
      if (key === id) { button.setAttribute("aria-current", "true"); row.classList.remove("new"); } else { button.removeAttribute("aria-current"); }
    }
    if (isOther) { this.showDetail(); }
    this.placeDetail();
    const row = this.rows.get(id);
    if (row && toFocus) { row.firstElementChild.focus({ preventScroll: true }); row.scrollIntoView({ block: "nearest" }); }
  }

  placeDetail() {
    const row = this.rows.get(this.selected);
    const home = narrow.matches && row ? row : byId("work");
    if (this.detail.parentElement !== home) { home.append(this.detail); }
  }

  async showDetail() {
    const alert = this.alerts.get(this.selected);
    if (!alert) { this.detail.replaceChildren(); return; }
    const reasons = make("div", { css: "reasons", "aria-live": "off" }, make("p", { css: "muted", text: alert.reason ?? "" }));
    this.detail.replaceChildren(this.headOf(alert), this.buttonsFor(alert), this.factsOf(alert), reasons);
    try {
      const found = await ask(`explain?${query({ id: alert.id, top: 5 })}`);
      if (this.selected === alert.id) { reasons.replaceChildren(...this.explanation(found)); }
    } catch (error) {
      reasons.append(make("p", { css: "note", text: error.message }));
    }
  }

  headOf(alert) {
    const { is_probability: isProbability, positive } = this.about;
    const meaning = isProbability ? `probability of ${classed(positive)}` : "score";
    return make("header", {},
      make("p", { css: "big" }, make("b", { text: scored(alert.score, isProbability) }), make("small", { text: meaning })),
      make("h3", {}, linkToNode(alert.src), make("span", { css: "arrow", text: " → " }), linkToNode(alert.dst)),
      make("p", { css: "muted", text: when(alert.time) }));
  }

  buttonsFor(alert) {
    const { confirm, dismiss, classes, positive } = this.about;
    const others = dismiss === null ? classes.filter((label) => label !== positive) : [dismiss];
    const button = (css, word, label, key) => make("button", { type: "button", css: `act ${css}`, on: { click: () => this.decide(alert, label) } },
      make("span", { text: word }), make("small", { text: `label ${named(label)}` }), key ? make("kbd", { text: key }) : null);
    return make("div", { css: "acts" },
      button("confirm", "Confirm", confirm, "y"),
      ...others.map((label) => button("dismiss", "Dismiss", label, dismiss === null ? "" : "n")));
  }

  factsOf(alert) {
    const fact = (name, value, css) => make("div", { css }, make("dt", { text: named(name) }), make("dd", {}, value));
    return make("dl", { css: "facts" },
      fact("From", linkToNode(alert.src), "of-row"),
      fact("To", linkToNode(alert.dst), "of-row"),
      fact("Event", named(alert.id)),
      ...Object.entries(alert.features ?? {}).map(([name, value]) => fact(name, valued(value))));
  }

  explanation({ reasons }) {
    const items = reasons.map(({ effect, reason }) => {
      const [css, sign, words] = effect >= 0 ? ["up", "↑", "raises the score: "] : ["down", "↓", "lowers the score: "];
      return make("li", {}, make("span", { css, "aria-hidden": "true", text: sign }), make("span", { css: "aside", text: words }), reason);
    });
    const behind = new Map(reasons.flatMap(({ events }) => events ?? []).map((event) => [event.id ?? JSON.stringify(event), event]));
    return [
      make("h4", { text: "Why" }),
      make("ul", { css: "why-list" }, ...items),
      ...(behind.size ? [make("h4", { text: "Interactions behind it" }), make("div", { css: "scroll" }, eventTable(this.about, [...behind.values()]))] : []),
    ];
  }

  // ---- decisions

  decideSelected(label) {
    const alert = this.alerts.get(this.selected);
    if (alert) { this.decide(alert, label); }
  }

  async decide(alert, label) {
    const row = this.rows.get(alert.id);
    const hadFocus = row?.contains(document.activeElement) || this.detail.contains(document.activeElement);
    try {
      await tell("labels", { id: alert.id, label });
    } catch (error) {
      this.report(error.message, false);
      return;
    }
    if (label !== null) { this.decisions.push(alert); }
    const what = label === null ? "Open again" : label === this.about.confirm ? "Confirmed" : "Dismissed";
    this.report(`${what}: ${named(alert.src)} → ${named(alert.dst)}`, label !== null);
    if (label === null) { this.selected = alert.id; this.decisions = this.decisions.filter(({ id }) => id !== alert.id); }
    await this.refresh();
    if (hadFocus && label !== null) { this.select(this.selected, true); }
    if (label === null) { this.showDetail(); }
    this.onChange();
  }

  undo() {
    const last = this.decisions.at(-1);
    if (last) { this.decide(last, null); }
  }

  report(text, canUndo) {
    const bar = byId("done");
    bar.hidden = false;
    bar.firstElementChild.textContent = text;
    byId("undo").hidden = !canUndo;
    clearTimeout(this.hiding);
    this.hiding = setTimeout(() => { bar.hidden = !bar.contains(document.activeElement); }, SHOWN);
  }
}

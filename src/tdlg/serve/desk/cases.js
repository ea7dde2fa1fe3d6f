// The open alerts as cases: the list, what is marked, and decisions, which can be undone.

import { CasePart, titleOf } from "./case.js";
import { ask, byId, counted, make, named, options, query, scored, tell, valued, when } from "./dom.js";

const PAGE = 50;
const SHOWN = 12_000; // milliseconds for which the last decision is shown
const narrow = matchMedia("(max-width: 60rem)");

const versionOf = ({ alerts }) => alerts.map(({ id, version }) => `${version} ${id}`).join("\n");

export class Cases {
  constructor(about, { onChange }) {
    this.about = about;
    this.onChange = onChange;
    this.cases = new Map();
    this.rows = new Map();
    this.seen = null;
    this.selected = null;
    this.undoable = [];
    this.limit = PAGE;
    this.turn = 0;
    this.isMine = false;
    this.reopened = null; // the id of an alert
    this.marked = new Set();
    this.team = { me: "", people: [], reasons: [], snoozed: [] };
    this.part = new CasePart(byId("detail"), about, this);
    this.form = byId("filter");
    this.form.addEventListener("input", ({ target }) => {
      clearTimeout(this.typing);
      if (target.name === "feature") { this.fitFeature(); }
      if (target.name === "order") { this.selected = null; this.refresh(); return; } // before an answer in the old order
      this.typing = setTimeout(() => this.refresh(), ["search", "number", "text"].includes(target.type) ? 200 : 0);
    });
    this.form.addEventListener("submit", (event) => event.preventDefault());
    byId("clear").addEventListener("click", () => { this.form.reset(); this.fitFeature(); this.refresh(); });
    for (const button of document.querySelectorAll("#bulk [data-label]")) {
      button.hidden = about[button.dataset.label] === null;
      button.addEventListener("click", () => this.decideSelected(about[button.dataset.label]));
    }
    byId("unmark").addEventListener("click", () => { this.marked.clear(); this.showMarked(); });
    byId("more").addEventListener("click", () => { this.limit += PAGE; this.refresh(); });
    narrow.addEventListener("change", () => this.placeDetail());
  }

  // ---- the list

  async refresh(isMine = this.isMine) {
    const turn = ++this.turn;
    this.isMine = isMine;
    const asked = this.asked();
    const [{ cases, more }, team] = await Promise.all([ask(`cases?${query({ ...asked, limit: this.limit })}`), ask("team")]);
    if (turn !== this.turn) { return; } // a later answer is on its way
    this.takeTeam(team);
    byId("export").href = `alerts.csv?${query(asked)}`;
    const isFiltered = Object.keys(asked).length > 1 + Number(isMine);
    byId("calm").textContent = isFiltered ? "No open alert is like this." : isMine ? "Nothing is assigned to you." : "Nothing to decide.";
    byId("clear").hidden = !isFiltered;
    byId("alerts-title").textContent = isMine ? "Open cases that are assigned to me" : "Open cases";
    const open = new Map(cases.map((one) => [one.id, one]));
    const next = this.same(open) ?? this.neighbour(1, open) ?? this.neighbour(-1, open);
    this.cases = open;
    byId("list").dataset.order = asked.order;
    this.marked = new Set([...this.marked].filter((id) => open.has(id)));
    byId("more").hidden = !more;
    this.layOut();
    this.announce();
    this.select(next ?? this.ordered()[0] ?? null);
    this.fillKnown();
  }

  // what the list is asked for: the order and the filters that are set
  asked() {
    const given = Object.fromEntries([...new FormData(this.form)].map(([name, value]) => [name, value.trim()]).filter(([, value]) => value !== ""));
    if (this.isMine) { given.assignee = this.team.me; }
    return given;
  }

  // the case of the alert that was opened again, else the selected one, whose node may be another one by now
  same(open) {
    const home = new Map([...open.values()].flatMap(({ id, alerts }) => alerts.map((alert) => [alert.id, id])));
    if (home.has(this.reopened)) {
      const id = home.get(this.reopened);
      this.reopened = null;
      return id;
    }
    if (open.has(this.selected)) { return this.selected; }
    return this.cases.get(this.selected)?.alerts.map(({ id }) => home.get(id)).find(Boolean) ?? null;
  }

  takeTeam(team) {
    const known = ({ me, people, reasons }) => JSON.stringify([me, people, reasons]);
    const isSame = known(this.team) === known(team);
    this.team = team;
    if (isSame) { return; }
    const chosen = this.form.elements.assignee.value;
    const names = [...new Set([...team.people.map(({ name }) => name), team.me])].filter(Boolean);
    options(this.form.elements.assignee, [["", "anyone"], ["-", "nobody"], ...names.map((name) => [name, name === team.me ? `${name} (me)` : name])], chosen);
    byId("me").textContent = team.me ? `${team.me}, ${team.role}` : "";
    byId("to-mine").hidden = !team.me;
    byId("to-audit").hidden = team.role === "analyst";
    byId("enter").hidden = Boolean(team.me) || this.about.signed_in || !team.people.length;
    if (this.selected !== null) { this.showDetail(); }
  }

  ordered() { return [...this.cases.keys()]; }

  neighbour(step, among = this.cases) {
    const ids = [...byId("list").children].map((row) => row.caseId);
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
    const focused = [...this.rows].find(([, row]) => row.querySelector(".alert") === document.activeElement)?.[0];
    for (const [id, row] of this.rows) {
      const one = this.cases.get(id);
      if (!one || versionOf(one) !== row.version) {
        if (row.contains(this.part.place)) { byId("work").append(this.part.place); }
        row.remove();
        this.rows.delete(id);
      }
    }
    ids.forEach((id, at) => {
      if (!this.rows.has(id)) { this.rows.set(id, this.makeRow(this.cases.get(id))); }
      const row = this.rows.get(id);
      if (list.children[at] !== row) { list.insertBefore(row, list.children[at] ?? null); }
    });
    if (focused !== undefined) { this.rows.get(focused)?.querySelector(".alert").focus({ preventScroll: true }); }
    this.showMarked();
  }

  makeRow(one) {
    const [first] = one.alerts;
    const assignees = [...new Set(one.alerts.map(({ assignee }) => assignee).filter(Boolean))];
    const facts = [when(first.time), ...Object.entries(first.features ?? {}).slice(0, 2).map(([name, value]) => `${named(name)}\u00a0${valued(value)}`), ...assignees.map((name) => `for ${name}`)];
    const mark = make("input", { type: "checkbox", "aria-label": `mark ${titleOf(one)}`, on: { change: () => this.mark(one.id) } });
    const isNew = this.seen && one.alerts.some(({ id }) => !this.seen.has(id));
    const row = make("li", { css: isNew ? "new" : "" }, mark,
      make("button", { type: "button", css: "alert", on: { click: () => this.select(one.id, true) } },
        make("span", { css: "score" },
          make("span", { text: scored(one.score, this.about.is_probability) }),
          this.meter(one.score)),
        make("span", { css: "ends" }, titleOf(one), one.alerts.length > 1 ? make("b", { css: "n", text: counted(one.alerts.length, "alert") }) : null),
        make("span", { css: "why", text: first.reason ?? "" }),
        make("span", { css: "facts-line", text: facts.join(" · ") })));
    row.caseId = one.id;
    row.version = versionOf(one);
    return row;
  }

  meter(score) {
    const { is_probability: isProbability, threshold } = this.about;
    const part = isProbability ? score : Math.min(1, score / (2 * Math.abs(threshold) || 1));
    return make("meter", { min: 0, max: 1, value: Math.max(0, part), "aria-hidden": "true" });
  }

  announce() {
    const alerts = [...this.cases.values()].flatMap((one) => one.alerts);
    const fresh = alerts.filter(({ id }) => this.seen && !this.seen.has(id));
    this.seen = new Set([...(this.seen ?? []), ...alerts.map(({ id }) => id)]);
    byId("list").setAttribute("aria-label", `${counted(this.cases.size, "case")} of ${counted(alerts.length, "open alert")}`);
    if (!fresh.length) { return; }
    const [{ src, dst, score }] = fresh;
    const newest = `${named(src)} to ${named(dst)}, score ${scored(score, this.about.is_probability)}`;
    byId("news").textContent = `${counted(fresh.length, "new alert")}: ${newest}`;
  }

  fillKnown() {
    const alerts = [...this.cases.values()].flatMap((one) => one.alerts);
    const ids = [...new Set(alerts.flatMap((alert) => [alert.src, alert.dst]))];
    byId("known").replaceChildren(...ids.slice(0, 200).map((id) => make("option", { value: String(id) })));
    this.features = { ...this.features, ...Object.fromEntries(alerts.slice(0, 50).flatMap(({ features }) => Object.entries(features))) };
    const select = this.form.elements.feature;
    const names = Object.keys(this.features);
    if (names.length + 1 !== select.options.length) { options(select, [["", "any"], ...names.map((name) => [name, named(name)])], select.value); }
    if (alerts.length) { this.form.elements.since.type = typeof alerts[0].time === "string" ? "date" : "number"; }
  }

  // numbers have a range, words a value
  fitFeature() {
    const { feature, low, high, value } = this.form.elements;
    const isNumber = typeof this.features?.[feature.value] === "number";
    for (const [field, isShown] of [[low, isNumber], [high, isNumber], [value, feature.value !== "" && !isNumber]]) {
      field.disabled = !isShown;
      field.closest("label").hidden = !isShown;
    }
  }

  // ---- marked cases, which are decided together

  mark(id) {
    if (!this.marked.delete(id)) { this.marked.add(id); }
    this.showMarked();
  }

  markSelected() { if (this.cases.has(this.selected)) { this.mark(this.selected); } }

  alertsOf(ids) { return [...ids].flatMap((id) => this.cases.get(id)?.alerts ?? []); }

  showMarked() {
    byId("bulk").hidden = !this.marked.size;
    byId("n-marked").textContent = `${counted(this.alertsOf(this.marked).length, "alert")} marked`;
    for (const [id, row] of this.rows) { row.firstElementChild.checked = this.marked.has(id); }
  }

  // ---- the selected case

  step(by) {
    const next = this.selected === null ? this.ordered()[0] : this.neighbour(by);
    if (next !== null && next !== undefined) { this.select(next, true); }
  }

  select(id, toFocus = false) {
    this.selected = id;
    for (const [key, row] of this.rows) {
      const button = row.querySelector("button");
      if (key === id) { button.setAttribute("aria-current", "true"); row.classList.remove("new"); } else { button.removeAttribute("aria-current"); }
    }
    this.placeDetail();
    const one = this.cases.get(id);
    if (this.shown !== (one && `${id}\n${versionOf(one)}`)) { this.showDetail(); }
    const row = this.rows.get(id);
    if (row && toFocus) { row.querySelector("button").focus({ preventScroll: true }); row.scrollIntoView({ block: "nearest" }); }
  }

  placeDetail() {
    const row = this.rows.get(this.selected);
    const home = narrow.matches && row ? row : byId("work");
    if (this.part.place.parentElement !== home) { home.append(this.part.place); }
  }

  showDetail() {
    const one = this.cases.get(this.selected);
    this.shown = one && `${this.selected}\n${versionOf(one)}`;
    this.part.show(one, this.team);
  }

  // ---- decisions

  decideSelected(label) {
    const some = this.alertsOf(this.marked.size ? this.marked : [this.selected]);
    if (some.length) { this.decide(some, label); }
  }

  async decide(some, label) {
    const reason = label !== null && label !== this.about.confirm ? this.part.reason() : null;
    const what = label === null ? "Open again" : label === this.about.confirm ? "Confirmed" : "Dismissed";
    await this.change(some, reason ? { label, reason } : { label }, what, label !== null);
  }

  assignToMe() {
    const { me } = this.team;
    const some = this.alertsOf(this.marked.size ? this.marked : [this.selected]);
    if (me && some.length) { this.change(some, { assignee: me }, `Assigned to ${me}`); }
  }

  // changes alerts unless somebody else has changed them since they were read
  async change(some, more, what, isDecision = false) {
    const hadFocus = this.rows.get(this.selected)?.contains(document.activeElement) || this.part.place.contains(document.activeElement);
    let answers;
    try {
      answers = await tell("decisions", some.map(({ id, version }) => ({ id, version, ...more })));
    } catch (error) {
      this.report(error.message);
      await this.refresh();
      return;
    }
    const done = answers.filter(({ error }) => !error);
    const refused = answers.find(({ error }) => error);
    if (isDecision && done.length) { this.marked.clear(); this.undoable.push(() => this.decide(done, null)); }
    const whom = done.length === 1 ? `${named(done[0].src)} → ${named(done[0].dst)}` : counted(done.length, "alert");
    this.report(refused ? refused.error.message : `${what}: ${whom}`, isDecision && done.length > 0);
    if (more.label === null) { this.reopened = some[0].id; }
    await this.refresh();
    if (hadFocus && isDecision) { this.select(this.selected, true); }
    this.onChange();
  }

  async snooze(nodes, until, note) {
    await tell("actions", { do: "snooze", nodes, until, ...(note ? { note } : {}) });
    this.undoable.push(async () => {
      await tell("actions", { do: "wake", nodes });
      this.report(`Alerts of ${nodes.map(named).join(" → ")} are raised again`);
      this.onChange();
    });
    this.report(`No new alerts of ${nodes.map(named).join(" → ")} until ${until === null ? "it is ended" : when(until)}`, true);
    this.onChange();
  }

  async undo() {
    try { await this.undoable.pop()?.(); } catch (error) { this.report(error.message); }
  }

  report(text, canUndo = false) {
    const bar = byId("done");
    bar.hidden = false;
    bar.firstElementChild.textContent = text;
    byId("undo").hidden = !canUndo;
    clearTimeout(this.hiding);
    this.hiding = setTimeout(() => { bar.hidden = !bar.contains(document.activeElement); }, SHOWN);
  }
}

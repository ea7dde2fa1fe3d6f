// One case in full: its alerts, what the team does with it, the reasons, and two pictures.

import { ask, classed, clockOf, counted, draw, field, linkToNode, make, named, options, query, scored, valued, when } from "./dom.js";
import { eventTable } from "./node.js";

const WEEK = 7 * 86_400_000; // milliseconds

export class CasePart {
  constructor(place, about, desk) {
    this.place = place;
    this.about = about;
    this.desk = desk;
    this.one = null;
  }

  async show(one, team) {
    const kept = this.one?.id === one?.id ? this.written() : {};
    this.one = one ?? null;
    if (!one) { this.place.replaceChildren(); return; }
    const isSingle = one.alerts.length === 1;
    const why = make("div", { css: "reasons" }, make("p", { css: "muted", text: one.alerts[0].reason ?? "" }));
    const pictures = make("div", { css: "pictures" });
    const behind = make("div", {});
    this.place.replaceChildren(
      this.headOf(one), this.buttonsFor(one.alerts, isSingle ? "" : ` all ${one.alerts.length}`), this.teamPartOf(one, team),
      isSingle ? this.factsOf(one.alerts[0]) : make("h4", { text: "Alerts of the case" }), why, pictures, behind, this.footOf(one));
    for (const input of this.place.querySelectorAll("[data-kept]")) { input.value = kept[input.dataset.kept] ?? input.value; }
    try {
      const { explanations } = await ask(`case?${query({ id: one.alerts[0].id })}`);
      if (this.one !== one) { return; }
      const reasonsOf = new Map(explanations.map((found) => [found.id, found.reasons]));
      if (isSingle) {
        const reasons = reasonsOf.get(one.alerts[0].id) ?? [];
        why.replaceChildren(make("h4", { text: "Why" }), ...rulesOf(one.alerts[0]), this.whyList(reasons));
        behind.replaceChildren(...this.eventsBehind(reasons, true));
      } else {
        why.replaceChildren(this.alertsOf(one, reasonsOf));
      }
      await this.showPictures(pictures, one);
    } catch (error) {
      why.append(make("p", { css: "note", text: error.message }));
    }
  }

  // what was written and not sent yet
  written() {
    return Object.fromEntries([...this.place.querySelectorAll("[data-kept]")].map((input) => [input.dataset.kept, input.value]));
  }

  reason() { return this.place.querySelector("[data-kept=reason]")?.value || null; }

  focusNote() { this.place.querySelector("[data-kept=note]")?.focus(); }

  openSnooze() {
    const part = this.place.querySelector(".snooze");
    if (part) { part.open = true; part.querySelector("select").focus(); }
  }

  // ---- head and buttons

  headOf(one) {
    const { is_probability: isProbability, positive } = this.about;
    const meaning = isProbability ? `probability of ${classed(positive)}` : "score";
    const n = one.alerts.length;
    const ordered = byTime(one.alerts);
    const times = [...new Set([ordered[0], ordered.at(-1)].map(({ time }) => when(time)))];
    return make("header", {},
      make("p", { css: "big" }, make("b", { text: scored(one.score, isProbability) }), make("small", { text: n > 1 ? `highest ${meaning}` : meaning })),
      make("h3", {}, ...titleLinks(one)),
      make("p", { css: "muted", text: `${n > 1 ? `${counted(n, "open alert")}, ` : ""}${times.join(" to ")}` }));
  }

  buttonsFor(alerts, all = "") {
    const { confirm, dismiss, classes, positive } = this.about;
    const others = dismiss === null ? classes.filter((label) => label !== positive) : [dismiss];
    const button = (css, word, label, key) => make("button", { type: "button", css: `act ${css}`, on: { click: () => this.desk.decide(alerts, label) } },
      make("span", { text: word }), make("small", { text: `label ${named(label)}` }), key ? make("kbd", { text: key }) : null);
    return make("div", { css: "acts" },
      button("confirm", `Confirm${all}`, confirm, "y"),
      ...others.map((label) => button("dismiss", `Dismiss${all}`, label, dismiss === null ? "" : "n")));
  }

  // ---- what the team does

  teamPartOf(one, { people, reasons, me }) {
    const change = (more, said) => this.desk.change(one.alerts, more, said);
    const reason = make("select", { data: { kept: "reason" } });
    options(reason, [["", "no reason"], ...reasons.map((text) => [text, text])], "");
    const assignee = make("select", { on: { change: () => change({ assignee: assignee.value || null }, assignee.value ? `Assigned to ${assignee.value}` : "Assigned to nobody") } });
    const [known] = [...new Set(one.alerts.map((alert) => alert.assignee))];
    const names = [...new Set([...people.map(({ name }) => name), me, known])].filter(Boolean);  // a proxy may have named others
    options(assignee, [["", "nobody"], ...names.map((name) => [name, name === me ? `${name} (me)` : name])], known ?? "");
    const note = make("input", { type: "text", maxlength: 2000, autocomplete: "off", data: { kept: "note" } });
    const send = (event) => {
      event.preventDefault();
      const text = note.value.trim();
      note.value = "";
      if (text) { change({ note: text }, "Noted"); }
    };
    const form = make("form", { css: "note-form", on: { submit: send } }, field("Note", note), make("button", { type: "submit", css: "plain", text: "Add" }));
    const notes = [...new Map(one.alerts.flatMap((alert) => alert.notes).map((found) => [JSON.stringify(found), found])).values()];
    return make("div", { css: "team-part" },
      field("Reason to dismiss", reason),
      ...(names.length ? [field("Assigned to", assignee)] : []),
      form,
      ...(notes.length ? [make("ul", { css: "notes" }, ...notes.map(({ by, at, note: text }) => make("li", {}, make("span", { css: "muted", text: `${when(at)} ${by || "–"}: ` }), text)))] : []),
      this.snoozePart(one));
  }

  snoozePart(one) {
    const [first] = one.alerts;
    const whom = [...new Map([[one.node, [one.node]], [first.src, [first.src]], [first.dst, [first.dst]]]).values(), [first.src, first.dst]];
    const select = make("select", {});
    options(select, whom.map((nodes, at) => [String(at), nodes.map(named).join(" → ")]), "0");
    const until = make("input", { type: "date", data: { kept: "until" } });
    const note = make("input", { type: "text", maxlength: 2000, autocomplete: "off", data: { kept: "why" } });
    const send = async (event) => {
      event.preventDefault();
      try { await this.desk.snooze(whom[Number(select.value)], untilOf(until), note.value.trim()); part.open = false; } catch (error) { this.desk.report(error.message); }
    };
    const part = make("details", { css: "snooze", on: { toggle: () => { if (part.open && !until.value) { suggest(until); } } } },
      make("summary", { text: "Snooze" }),
      make("form", { on: { submit: send } },
        field("No new alerts of", select), field("until (empty: until it is ended)", until), field("because", note),
        make("button", { type: "submit", css: "plain", text: "Snooze" })));
    return part;
  }

  // ---- the alerts, and why

  alertsOf(one, reasonsOf) {
    const { is_probability: isProbability, confirm, dismiss } = this.about;
    const small = (word, alert, label) => make("button", { type: "button", css: "plain", text: word, "aria-label": `${word} ${named(alert.src)} → ${named(alert.dst)}, ${when(alert.time)}`, on: { click: () => this.desk.decide([alert], label) } });
    return make("ul", { css: "of-case" }, ...one.alerts.map((alert, at) => {
      const reasons = reasonsOf.get(alert.id);
      const facts = [when(alert.time), ...Object.entries(alert.features ?? {}).map(([name, value]) => `${named(name)}\u00a0${valued(value)}`)];
      return make("li", {},
        make("p", { css: "line-of" },
          make("b", { text: scored(alert.score, isProbability) }), " ", linkToNode(alert.src), " → ", linkToNode(alert.dst), " ",
          make("span", { css: "choices" }, small("Confirm", alert, confirm), ...(dismiss === null ? [] : [" ", small("Dismiss", alert, dismiss)]))),
        make("p", { css: "facts-line", text: facts.join(" · ") }),
        ...rulesOf(alert),
        reasons ? make("details", at ? {} : { open: "" }, make("summary", { text: "Why" }), this.whyList(reasons), ...this.eventsBehind(reasons, false)) : null);
    }));
  }

  factsOf(alert) {
    const fact = (name, value, css) => make("div", { css }, make("dt", { text: named(name) }), make("dd", {}, value));
    return make("dl", { css: "facts" },
      fact("From", linkToNode(alert.src), "of-row"),
      fact("To", linkToNode(alert.dst), "of-row"),
      fact("Event", named(alert.id)),
      ...Object.entries(alert.features ?? {}).map(([name, value]) => fact(name, valued(value))));
  }

  whyList(reasons) {
    return make("ul", { css: "why-list" }, ...reasons.map(({ effect, reason }) => {
      const [css, sign, words] = effect >= 0 ? ["up", "↑", "raises the score: "] : ["down", "↓", "lowers the score: "];
      return make("li", {}, make("span", { css, "aria-hidden": "true", text: sign }), make("span", { css: "aside", text: words }), reason);
    }));
  }

  eventsBehind(reasons, isOpen) {
    const behind = new Map(reasons.flatMap(({ events }) => events ?? []).map((event) => [event.id ?? JSON.stringify(event), event]));
    if (!behind.size) { return []; }
    const title = "Interactions behind it";
    const table = make("div", { css: "scroll", tabindex: 0, role: "region", "aria-label": title }, eventTable(this.about, [...behind.values()]));
    return isOpen ? [make("h4", { text: title }), table] : [make("details", {}, make("summary", { text: title }), table)];
  }

  // ---- pictures

  async showPictures(place, one) {
    const figure = (title) => {
      const drawing = make("div", {});
      place.append(make("figure", {}, make("figcaption", {}, make("h4", { text: title })), drawing));
      return drawing;
    };
    place.replaceChildren();
    const [line, ends] = [figure(`Interactions of ${named(one.node)} in time`), figure("The two ends and their neighbours")];
    const charts = [[line, "node", one.node], [ends, "ends", one.alerts[0].id]];
    await Promise.all(charts.map(([drawing, name, id]) => draw(drawing, name, { id })));
  }

  footOf(one) {
    const address = query({ id: one.alerts[0].id });
    const models = [...new Set(one.alerts.map(({ model }) => model).filter(Boolean))].join(", ");
    return make("p", { css: "note" }, "Save the case: ",
      make("a", { href: `case.html?${address}`, download: "case.html", text: "page" }), ", ",
      make("a", { href: `case?${address}`, download: "case.json", text: "JSON" }), models ? `. Scored by ${models}.` : ".");
  }
}

// the rules that held for an alert
const rulesOf = ({ rules = [] }) => rules.map(({ name, why }) => make("p", { css: "rule" }, make("b", { text: `Rule ${named(name)}` }), `: ${why}`));

const byTime = (alerts) => [...alerts].sort((a, b) => (a.time < b.time ? -1 : a.time > b.time ? 1 : 0));

// what a field for the end of a snooze says: a date or a number on the clock of the events, or nothing
export function untilOf(input) {
  const value = input.value.trim();
  return value === "" ? null : input.type === "number" ? Number(value) : value;
}

// a week from now, on the clock of the events
export async function suggest(input) {
  const clock = await clockOf();
  input.type = typeof clock === "number" ? "number" : "date";
  if (typeof clock === "string") { input.value = new Date(Date.parse(`${clock.slice(0, 19)}Z`) + WEEK).toISOString().slice(0, 10); }
}

// in words: the two ends of one alert, or the node of several
export const titleOf = ({ node, role, alerts: [first, ...others] }) => {
  if (!others.length) { return `${named(first.src)} → ${named(first.dst)}`; }
  return role === "source" ? `${named(node)} → …` : `… → ${named(node)}`;
};

const titleLinks = ({ node, role, alerts: [first, ...others] }) => {
  const arrow = () => make("span", { css: "arrow", text: " → " });
  if (!others.length) { return [linkToNode(first.src), arrow(), linkToNode(first.dst)]; }
  return role === "source" ? [linkToNode(node), arrow(), "…"] : ["…", arrow(), linkToNode(node)];
};

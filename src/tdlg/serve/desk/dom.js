// Elements, values as text, and requests. All that users' data can hold becomes text nodes, never HTML.

export const byId = (id) => document.getElementById(id);

export function make(name, options = {}, ...children) {
  const { css, text, data, on, ...attributes } = options;
  const element = document.createElement(name);
  if (css) { element.className = css; }
  if (text !== undefined) { element.textContent = text; }
  for (const [key, value] of Object.entries(data ?? {})) { element.dataset[key] = value; }
  for (const [key, value] of Object.entries(on ?? {})) { element.addEventListener(key, value); }
  for (const [key, value] of Object.entries(attributes)) { if (value !== null) { element.setAttribute(key, value); } }
  element.append(...children.filter((child) => child !== null));
  return element;
}

// ---- values as text

const LONGEST = 80;

export function named(value) {
  const text = String(value);
  return text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text;
}

export const classed = (label) => (typeof label === "string" ? named(label) : `class ${label}`);

export function when(time) {
  return typeof time === "string" ? time.replace("T", " ").replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "") : named(time ?? "");
}

export function valued(value) {
  return typeof value === "number" ? value.toLocaleString("en-GB", { maximumFractionDigits: 4 }) : named(value ?? "–");
}

export function counted(n, noun) { return `${valued(n)} ${noun}${n === 1 ? "" : "s"}`; }

export function scored(score, isProbability) {
  if (score === null || score === undefined) { return "–"; }
  if (!isProbability) { return score.toPrecision(3); }
  if (score < 0.001) { return score > 0 ? "< 0.001" : "0"; }
  if (score > 0.999) { return score < 1 ? "> 0.999" : "1"; }
  return score.toFixed(3);
}

export function percent(part) { return Number.isFinite(part) ? `${Math.round(100 * part)} %` : "–"; }

export const field = (words, input) => make("label", { css: "field" }, make("span", { text: words }), input);

export function options(select, values, chosen) {
  select.replaceChildren(...values.map(([value, text]) => make("option", { value, text })));
  select.value = values.some(([value]) => value === chosen) ? chosen : values[0][0];
}

// ---- requests

export class Refused extends Error {}

export async function ask(address, options) {
  const answer = await fetch(address, options);
  if (answer.status === 401) { location.reload(); }
  const isJson = (answer.headers.get("content-type") ?? "").startsWith("application/json");
  const content = isJson ? await answer.json() : await answer.text();
  if (!answer.ok && !Array.isArray(content)) { throw new Refused(content.error?.message ?? `The service answered ${answer.status}.`); }
  return content;
}

export const tell = (address, value) => ask(address, {
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify(value),
});

// the time of the latest event
export const clockOf = async () => (await ask("health")).clock;

export const query = (values) => new URLSearchParams(values).toString();

// ---- charts that the service draws

export async function draw(place, name, values = {}) {
  const width = Math.min(1600, Math.max(300, Math.round(place.clientWidth)));
  const address = `charts/${name}.svg${Object.keys(values).length ? `?${query({ ...values, width })}` : ""}`;
  const parsed = new DOMParser().parseFromString(await ask(address), "image/svg+xml");
  const chart = document.importNode(parsed.documentElement, true);
  charts.hideTip();
  place.replaceChildren(chart);
  charts.makeChart(chart);
}

// cells that repeat their heading, for narrow screens
export const cellsOf = (heads, cells) => cells.map(([css, content], at) => make("td", { css, data: { head: heads[at] } }, content));

export const linkToNode = (id) => make("a", { css: "end", href: `#node=${encodeURIComponent(id)}`, text: named(id) });

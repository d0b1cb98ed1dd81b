// Elements, from text alone: nothing here takes markup, so what a model wrote stays text.

const SVG = "http://www.w3.org/2000/svg";
const FOLD = 3000; // characters of a text that are shown unasked
// control characters but newline and tab, marks of direction, and what has no width
const ODD = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/;
const EACH_ODD = new RegExp(`(${ODD.source})`);

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, value);
  }
  node.append(...children.flat(Infinity).filter((child) => child != null && child !== ""));
  return node;
}

export const el = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
export const svg = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);

/** A text as it is: odd characters by their number, a long one folded. */
export function shown(text) {
  const whole = String(text);
  const node = el("span", { class: "text" });
  const put = (piece) => {
    for (const part of piece.split(EACH_ODD)) {
      if (!part) continue;
      if (part.length === 1 && ODD.test(part)) {
        const code = part.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
        node.append(el("span", { class: "odd", title: "a character that steers how text is shown" }, `U+${code}`));
      } else node.append(part);
    }
  };
  put(whole.slice(0, FOLD));
  if (whole.length > FOLD) {
    const more = el("button", {
      onclick: () => {
        more.remove();
        put(whole.slice(FOLD));
      },
    }, `… ${(whole.length - FOLD).toLocaleString("en")} more characters`);
    node.append(more);
  }
  return node;
}

/** A number for people; a dash where there is none. */
export function num(value, digits = 0) {
  if (value == null || Number.isNaN(value)) return "–";
  return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** A mean with its 95 % interval, where there is one; `sign` is "+" for differences. */
export const estimated = (found, sign = "") =>
  found ? (found.mean >= 0 ? sign : "") + num(found.mean, 3) + (found.interval ? ` [${num(found.interval[0], 3)}, ${num(found.interval[1], 3)}]` : "") : null;

/** A figure with its unit; where it comes from shows on hover. */
export function figure(name, value, unit, source) {
  return el("div", { class: "figure", title: source, "data-name": name },
    el("span", {}, name.replaceAll("_", " ")), el("b", {}, String(value)), el("span", {}, unit));
}

/** A table from rows of cells; a cell is text, a node, or a number, which stands right. */
export function table(heads, rows) {
  const columns = heads.map((_, place) => rows.map((row) => row[place]).filter((value) => typeof value === "number"));
  const right = (place) => (columns[place].length ? "number" : null);
  const digits = columns.map((values) => (values.every(Number.isInteger) ? 0 : 3));
  const cell = (value, place) => el("td", { class: right(place), "data-head": heads[place] }, typeof value === "number" ? num(value, digits[place]) : value ?? "–");
  // on a phone, each row of a wide one stands as a paragraph (style.css)
  return el("div", { class: "scroll" }, el("table", { class: heads.length > 5 ? "wide" : null },
    el("thead", {}, el("tr", {}, heads.map((head, place) => el("th", { class: right(place) }, head)))),
    el("tbody", {}, rows.map((row) => el("tr", {}, row.map(cell))))));
}

/** When an event was, to the second. */
export const moment = (timestamp) => el("span", { class: "moment" }, shown(String(timestamp).replace("T", " ").replace(/\.\d+Z$/, "")));

/** A zone with its colour. */
export const zoned = (name) => (name ? el("span", { class: "zone" }, dot(name), name.replaceAll("_", " ")) : null);

/** A table under a title; nothing where it has no rows. */
export const listing = (title, source, heads, rows) =>
  rows.length ? el("section", {}, el("h2", {}, title), el("div", { title: source }, table(heads, rows))) : null;

/** A link to a view of a run. */
export const link = (run, view, rest, text) => el("a", { href: address(run, view, rest) }, text);
export const address = (run, view, rest = []) => "#/" + [run, view, ...rest].map(encodeURIComponent).join("/");

export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
export const ZONES = ["too_hard", "boundary", "mastered", "truncated"];
function dot(name) {
  const node = el("i", { class: "dot" });
  if (name === "ring") node.className += " ring";
  else node.style.background = `var(--${name})`;
  return node;
}
export const legend = (names) => el("div", { class: "legend" }, names.map(([name, text]) => el("span", {}, dot(name), text ?? name.replaceAll("_", " "))));

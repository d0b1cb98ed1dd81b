// The keyboard: views, rows and steps without a pointer; `?` says which keys there are.

import { el } from "dom";

const ROWS = "#view :is(a[href], summary, button)"; // what j and k go through
const KEYS = [
  ["1 … 8", "a view, in the order of the menu"], ["[ and ]", "the view before, the view behind"],
  ["j and k", "the next row or link, the one before"], ["Enter", "opens it"], [", and .", "a step back, a step on, where a view shows one step"],
  ["r", "the next run"], ["/", "the text to search for, in the logs"], ["?", "this list"], ["Esc", "closes it"],
];
const dialog = el("dialog", { "aria-label": "keys" }, el("h2", {}, "Keys"),
  el("dl", {}, KEYS.map(([key, does]) => [el("dt", {}, el("kbd", {}, key)), el("dd", {}, does)])),
  el("form", { method: "dialog" }, el("button", {}, "close")));

/** Listens. `go(place)` shows the view at a place of the menu, `beside(by)` one beside the view shown, `move(by)` another
 * step, `next()` another run. */
export function listen({ go, beside, move, next }) {
  document.body.append(dialog);
  document.getElementById("keys").addEventListener("click", () => dialog.showModal());
  const does = { "[": () => beside(-1), "]": () => beside(1), j: () => row(1), k: () => row(-1), ",": () => move(-1), ".": () => move(1), r: next,
    "/": () => document.querySelector("#view input[type=search]")?.focus(), "?": () => dialog.showModal() };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || dialog.open || event.target.closest("input:not([type=range], [type=checkbox]), select, textarea")) return;
    if (/^[1-9]$/.test(event.key)) return go(Number(event.key) - 1);
    if (!(event.key in does)) return;
    event.preventDefault();
    does[event.key]();
  });
}

/** Gives the focus to the row that lies `by` behind the one that has it. */
function row(by) {
  const rows = [...document.querySelectorAll(ROWS)].filter((one) => one.checkVisibility());
  const at = rows.indexOf(document.activeElement);
  const found = rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : at + by];
  found?.focus();
  found?.scrollIntoView({ block: "nearest" });
}

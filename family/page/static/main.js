// The shell: which run, which view, and what has moved, which the view is told.

import * as boundary from "boundary";
import * as compare from "compare";
import { address, el } from "dom";
import * as funnel from "funnel";
import { listen } from "keys";
import * as logs from "logs";
import * as models from "models";
import * as pool from "pool";
import * as report from "report";
import * as run from "run";
import { ask, exported, follow } from "source";
import * as task from "task";

const VIEWS = { run, boundary, pool, funnel, task, models, compare, logs, report };
const SHOWN = ["run", "boundary", "pool", "funnel", "models", "compare", "logs", "report"]; // in the menu; tasks are reached by links
const BEAT = 5000; // milliseconds after which a view is updated though nothing has moved: a process may have died
const first = exported ? "report" : "run";
const root = document.getElementById("view");
const pulse = document.getElementById("pulse");
const choice = document.getElementById("runs");
let stop = () => {};
let now = null; // the view shown

const parts = () => location.hash.slice(2).split("/").filter(Boolean).map(decodeURIComponent);

async function show() {
  stop();
  now?.stop?.();
  const names = (await ask("/api/runs")).runs;
  const [name = "latest", view = first, ...rest] = parts();
  const chosen = names.some((one) => one.name === name) ? name : names[0]?.name;
  choice.replaceChildren(...names.map((one) => el("option", { value: one.name, title: one.folder, selected: one.name === chosen }, one.name)));
  document.getElementById("views").replaceChildren(...SHOWN.map((each, place) =>
    el("a", { href: address(chosen ?? "latest", each), title: `key ${place + 1}`, "aria-current": each === view ? "page" : null }, each)));
  root.replaceChildren();
  if (!chosen) return root.append(el("p", { class: "note" }, "There is no run yet → `rods up` or `make demo` makes one; then load this page again."));
  document.title = `${chosen} · RODS`;
  const place = el("div");
  const trouble = el("div");
  root.append(trouble, place);
  const mine = (now = (VIEWS[view] ?? run).view(place, { run: chosen, rest, names: names.map((one) => one.name) }));
  let last = {}, updated = 0;
  pulse.textContent = "reading the logs …";
  async function hear(positions) {
    const moved = new Set(Object.keys({ ...last, ...positions }).filter((key) => positions[key] !== last[key]));
    if (!moved.size && Date.now() - updated < BEAT) return;
    updated = Date.now();
    try {
      if (positions.error) throw new Error(positions.error);
      await mine.update(moved, positions);
      last = positions;
      trouble.replaceChildren();
      pulse.textContent = exported ? "an export" : `attempt ${positions.attempt}, record ${positions.observations}`;
      pulse.title = "the run's attempt and the last record of observations.jsonl that was read";
    } catch (error) {
      trouble.replaceChildren(el("p", { class: "note", role: "alert" }, error.message));
      pulse.textContent = "";
    }
  }
  stop = follow(chosen, async (positions) => now === mine && (await hear(positions)));
}

choice.addEventListener("change", () => (location.hash = address(choice.value, parts()[1] in VIEWS && parts()[1] !== "task" ? parts()[1] : "run")));
addEventListener("hashchange", () => show());
const go = (place) => SHOWN[place] && (location.hash = address(choice.value, SHOWN[place]));
listen({
  go,
  beside: (by) => go((SHOWN.indexOf(parts()[1] ?? first) + by + SHOWN.length) % SHOWN.length),
  move: (by) => now?.move?.(by),
  next: () => {
    choice.selectedIndex = (choice.selectedIndex + 1) % choice.length;
    choice.dispatchEvent(new Event("change"));
  },
});
addEventListener("unhandledrejection", (event) => {
  event.preventDefault(); // of what a button asked: the view's own questions are answered above
  root.prepend(el("p", { class: "note", role: "alert" }, event.reason.message));
});
show().catch((error) => root.replaceChildren(el("p", { class: "note", role: "alert" }, error.message)));

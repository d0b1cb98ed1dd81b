// The pool: each variant's life, from the pick of its seed to what a merge decided last.

import { el, link, num, table, zoned } from "dom";
import { ask, path } from "source";

const PAGE = 200;

export function view(root, { run }) {
  const states = el("div", { class: "controls" });
  const list = el("div", { title: "expanded_epoch_*.jsonl: accepted variants; pool.jsonl: decisions; observations.jsonl: means" });
  const more = el("div", { class: "controls" });
  root.append(states, list, more);
  let state = "", from = 0;

  async function load() {
    const got = await ask(path(run, "pool", { state, from: from || "" }));
    const all = Object.values(got.counts).reduce((sum, count) => sum + count, 0);
    const choices = [["", "all", all], ...Object.entries(got.counts).map(([name, count]) => [name, name, count])];
    states.replaceChildren(...choices.map(([value, name, count]) =>
      el("button", { "aria-pressed": String(value === state), onclick: () => seek(value, 0) }, `${name} ${num(count)}`)));
    list.replaceChildren(table(
      ["variant", "seed", "generation", "picked at step", "now", "mean of its latest group", "zone", "life"],
      got.variants.map((one) => [
        link(run, "task", [one.task], one.task.slice(0, 8)),
        link(run, "task", [one.seed], one.seed.slice(0, 8)),
        one.generation, one.picked, one.state,
        one.mean, zoned(one.zone),
        one.events.map((event) => `${event.event} after step ${event.step}${event.rule ? ` (${event.rule})` : ""}`).join(", ") || "waits for a merge",
      ])));
    const page = (text, begin) => el("button", { onclick: () => seek(state, begin) }, text);
    more.replaceChildren(`${num(Math.min(from + 1, got.total))}–${num(Math.min(from + PAGE, got.total))} of ${num(got.total)} variants, the latest first`);
    if (from > 0) more.append(page("later", Math.max(0, from - PAGE)));
    if (from + PAGE < got.total) more.append(page("earlier", from + PAGE));
  }

  function seek(value, begin) {
    [state, from] = [value, begin];
    return load();
  }

  return {
    async update(moved) {
      if (["attempt", "pool", "expanded", "observations"].some((name) => moved.has(name))) await load();
    },
  };
}

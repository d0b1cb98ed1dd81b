// Runs beside each other: reward over steps, held-out scores with their intervals, and what extensions compare.

import { chart } from "chart";
import { el, estimated as text, link, listing, shown, table } from "dom";
import { ask, path } from "source";

const COLOURS = ["boundary", "too_hard", "mastered", "second", "truncated"];

/** The tables of extensions: those of the same title as one, rows of the same name beside each other; last their notes. */
function more(runs, tables) {
  const every = tables.flatMap((some, index) => some.map((one) => ({ ...one, run: runs[index] })));
  const notes = every.flatMap((one) => one.notes.map((note) => el("p", {}, link(one.run, "run", [], one.run), ": ", shown(note))));
  return [[...new Set(every.map((one) => one.title))].map((title) => {
    const alike = every.filter((one) => one.title === title);
    const names = [...new Set(alike.flatMap((one) => one.rows.map((row) => row.name)))];
    const rows = names.flatMap((name) => alike.flatMap((one) => one.rows.filter((row) => row.name === name).map((row) =>
      [shown(name), link(one.run, "run", [], one.run), row.difference.tasks, text(row.start), text(row.end), text(row.difference, "+")])));
    const heads = ["", "run", "items", "at the start", "at the end", "paired difference"];
    return listing(`${title}, mean [95 % interval]`, alike[0].source, heads, rows);
  }), notes];
}

export function view(root, { run, rest, names }) {
  const chosen = new Set(rest.length ? rest.filter((name) => names.includes(name)) : [run, ...names.filter((name) => name !== run)].slice(0, 3));
  chosen.add(run);
  const picks = el("div", { class: "controls" }, names.map((name) => {
    const box = el("input", { type: "checkbox", checked: chosen.has(name), onchange: () => {
      if (box.checked) chosen.add(name);
      else chosen.delete(name);
      load();
    } });
    return el("label", {}, box, ` ${name}`);
  }));
  const place = el("div");
  root.append(picks, place);

  async function load() {
    const runs = [...chosen].slice(0, COLOURS.length);
    const [curves, scores] = await Promise.all(["steps", "compare"].map((what) => Promise.all(runs.map((name) => ask(path(name, what))))));
    const every = [...new Set(curves.flatMap((one) => one.columns.step))].sort((a, b) => a - b);
    const drawn = chart({ title: "Reward", unit: "mean progress of a step's tasks, 0 to 1", range: [0, 1], source: "observations.jsonl of each run",
      series: runs.map((name, index) => ({ label: name, colour: COLOURS[index] })) });
    const rows = runs.map((name, index) => {
      const held = scores[index].heldout;
      return [link(name, "run", [], name), curves[index].columns.step.at(-1) ?? 0, text(held?.start?.progress), text(held?.end?.progress), text(held?.difference?.progress, "+")];
    });
    place.replaceChildren(drawn.node, el("h2", {}, "Held-out progress, mean [95 % interval]"),
      el("div", { title: "eval/heldout_step_*.jsonl; `rods trainer score` makes them" }, table(["run", "last step", "at the start", "at the end", "paired difference"], rows)),
      el("div", {}, more(runs, scores.map((one) => one.tables))));
    if (every.length)
      drawn.draw(every, curves.map((one) => {
        const at = new Map(one.columns.step.map((step, row) => [step, one.columns.reward[row]]));
        return every.map((step) => at.get(step) ?? null);
      }));
  }

  return {
    async update(moved) {
      if (moved.has("attempt") || moved.has("observations")) await load();
    },
  };
}

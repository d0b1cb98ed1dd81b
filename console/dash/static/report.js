// The report: what the run shows up to now, in sentences and plots, and what must not be concluded from it.

import { axes, HEIGHT, WIDTH, x, y } from "boundary";
import { chart } from "chart";
import { conversation } from "conversation";
import { el, estimated, figure, legend, link, listing, num, shown, svg, ZONES } from "dom";
import { curves } from "run";
import { ask, exported, path } from "source";

const SOURCES = {
  steps: ["rollout batches", "observations.jsonl: step records"], epochs: ["of the pool", "pool.jsonl: epoch records"], picks: ["seeds", "seeds.jsonl: picked"],
  accepted: ["variants", "expanded_epoch_*.jsonl"], rejected: ["attempts that failed", "rejected.jsonl"], injected: ["variants", "pool.jsonl: injected"],
  refused: ["variants", "pool.jsonl: refused"], revived: ["variants", "pool.jsonl: revived"], attempts: ["of the trainer", "observations.jsonl: start records"],
};
const MEASURES = { progress: "progress reward", binary: "all turns resolved", official: "the benchmark's own verdict" };
const LARGEST = 160; // area of a dot, in units of the picture, that stands for the commonest place

export function view(root, { run }) {
  const place = el("div");
  root.append(place);
  let asked = false;

  async function load() {
    asked = true;
    place.replaceChildren(el("p", { class: "faint" }, "All of the run's logs are being read …"));
    const got = await ask(path(run, "report")), charts = curves(run);
    const tasks = await Promise.all(got.examples.map((task) => ask(path(run, "task", { task })).catch(() => null))); // damage may have taken one
    const retired = Object.values(got.numbers.retired).reduce((sum, count) => sum + count, 0);
    place.replaceChildren(
      el("h1", {}, shown(got.name)), el("p", { class: "faint" }, shown(got.subtitle)),
      exported ? "" : el("div", { class: "controls" }, el("button", { onclick: load }, "read again"), el("span", { class: "faint" }, `up to step ${num(got.numbers.steps)}; it does not move by itself`)),
      got.simulated ? el("p", { class: "note" }, "Simulated policy: a study of the loop, never evidence for the method.") : "",
      el("div", { class: "figures" }, Object.entries(SOURCES).map(([name, [unit, source]]) => figure(name, num(got.numbers[name]), unit, source)),
        figure("retired", num(retired), "variants", "pool.jsonl: retired")),
      el("h2", {}, "What it says"), el("ul", {}, got.findings.map((line) => el("li", {}, shown(line)))),
      el("h2", {}, "What it does not claim"), el("ul", {}, got.limits.map((line) => el("li", {}, line.split("`").map((part, place) => (place % 2 ? el("code", {}, part) : shown(part)))))),
      got.numbers.heldout ? heldout(got.numbers.heldout) : "",
      charts.node,
      el("div", { class: "charts" }, got.plots.map((plot) => el("section", { "data-name": plot.name }, el("div", { class: "plot" }), el("p", { class: "faint" }, shown(plot.caption))))),
      got.numbers.steps ? "" : el("p", { class: "faint" }, "No step is recorded yet, so there is nothing to draw."),
      ...tasks.filter((one) => one?.line.length > 1).map((one) => example(run, one)));
    place.querySelectorAll(".plot").forEach((there, index) => drawn(there, got.plots[index])); // once it has a width
    await charts.update();
  }

  return {
    async update(moved) {
      if (!asked || moved.has("attempt")) await load();
    },
  };
}

function drawn(there, plot) {
  if (plot.kind === "cloud") return there.replaceWith(cloud(plot));
  const curve = chart({ title: plot.title, unit: plot.unit, source: plot.source, x: plot.x, stacked: true,
    marks: Object.entries(plot.marks ?? {}), series: plot.series });
  there.replaceWith(curve.node);
  curve.draw(plot.at, plot.series.map((one) => one.values));
}

/** Groups by mean and variance; a dot's area says how many share the place. */
function cloud(plot) {
  const most = Math.max(...plot.dots.map(([, , count]) => count));
  return el("section", { class: "chart", title: plot.source }, el("h2", {}, plot.title),
    svg("svg", { class: "boundary", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": "mean reward of groups against their variance" }, ...axes(),
      ...plot.dots.map(([mean, variance, count, zone]) => svg("circle", { cx: x(mean), cy: y(variance), r: 2 + Math.sqrt((LARGEST * count) / most), fill: `var(--${zone})`, opacity: 0.7 },
        svg("title", {}, `mean ${num(mean, 3)}, variance ${num(variance, 3)}: ${num(count)} groups, ${zone.replace("_", " ")}`)))),
    legend(ZONES.filter((name) => plot.dots.some((dot) => dot[3] === name)).map((name) => [name])));
}

function heldout({ start, end, difference, left_out: left }) {
  const rows = Object.entries(difference).map(([name, change]) => [MEASURES[name] ?? name, start[name], end[name], change]);
  for (const [type, before] of Object.entries(start.progress_by_type))
    if (end.progress_by_type[type]) rows.push([`progress, ${type}`, before, end.progress_by_type[type], null]);
  return el("section", {},
    listing("Held-out tasks", "eval/heldout_step_*.jsonl; `rods trainer score` makes them", ["mean over tasks [95 % interval]", `step ${start.step}`, `step ${end.step}`, "paired difference", "tasks"],
      rows.map(([name, before, after, change]) => [name, estimated(before), estimated(after), estimated(change, "+"), after.tasks])),
    el("p", { class: "faint" }, shown(`${start.rollouts_per_task} sampled ${start.rollouts_per_task === 1 ? "rollout" : "rollouts"} a task, the same tasks and random seeds at both ends, the plain interface. Environments: ${end.versions.join(", ")}.`
      + (left ? ` ${left} tasks could not be scored at both ends and are left out.` : ""))));
}

function example(run, { line, history }) {
  const [variant, seed] = line.toReversed(), injected = history.find((one) => one.event === "injected");
  const when = `${injected ? `injected after step ${num(injected.step)}, ` : ""}generation ${line.length - 1}`;
  return el("section", {}, el("h2", {}, `Seed and variant, ${variant.type}: ${when}; `, link(run, "lineage", [variant.id], "all of its lineage")),
    el("div", { class: "two" }, conversation(seed, variant, "the seed"), conversation(variant, seed, "the variant")));
}

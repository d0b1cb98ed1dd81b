// The report: what the run shows up to now, in sentences, and what must not be concluded from it.

import { chart } from "chart";
import { conversation } from "conversation";
import { el, estimated, figure, link, listing, num, shown } from "dom";
import { curves } from "run";
import { ask, exported, path } from "source";

const SOURCES = {
  steps: ["rollout batches", "observations.jsonl: step records"], epochs: ["of the pool", "pool.jsonl: epoch records"], picks: ["seeds", "seeds.jsonl: picked"],
  accepted: ["variants", "expanded_epoch_*.jsonl"], rejected: ["attempts that failed", "rejected.jsonl"], injected: ["variants", "pool.jsonl: injected"],
  refused: ["variants", "pool.jsonl: refused"], revived: ["variants", "pool.jsonl: revived"], attempts: ["of the trainer", "observations.jsonl: start records"],
};
const MEASURES = { progress: "progress reward", binary: "all turns resolved", official: "the benchmark's own verdict" };

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
      got.numbers.first_reward.variants ? el("section", {}, el("div", { class: "plot" }), el("p", { class: "faint" }, `Mean reward of a variant's first group after its injection. A variant between the dotted lines, in the boundary zone (${got.landing.bounds.join(" to ")}), is about as hard as its seed was.`)) : "",
      got.numbers.steps ? "" : el("p", { class: "faint" }, "No step is recorded yet, so there is nothing to draw."),
      ...tasks.filter((one) => one?.line.length > 1).map((one) => example(run, one)));
    place.querySelectorAll(".plot").forEach((there) => drawn(there, got.landing)); // once it has a width
    await charts.update();
  }

  return {
    async update(moved) {
      if (!asked || moved.has("attempt")) await load();
    },
  };
}

function drawn(there, landing) {
  const curve = chart({ title: "Where variants land", unit: "variants", source: "observations.jsonl: first group of each variant; pool.jsonl: injected", x: "mean reward of the first group, 0 to 1", stacked: true,
    marks: [["mean", [landing.mean]], ["bounds of the boundary zone", landing.bounds]], series: [{ label: "variants", colour: "second" }] });
  there.replaceWith(curve.node);
  curve.draw(landing.at, [landing.variants]);
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
  return el("section", {}, el("h2", {}, `Seed and variant, ${variant.type}: ${when}; `, link(run, "task", [variant.id], variant.id.slice(0, 8))),
    el("div", { class: "two" }, conversation(seed, variant, "the seed"), conversation(variant, seed, "the variant")));
}

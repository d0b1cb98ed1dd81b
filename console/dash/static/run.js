// The run at a glance: alive or not, what it earns, where its tasks stand, what it costs, what went wrong.

import { chart } from "chart";
import { el, figure, legend, num, shown, table, ZONES } from "dom";
import { ask, path } from "source";

const OBSERVATIONS = "observations.jsonl";

export function view(root, { run }) {
  const top = el("div");
  const reward = chart({ title: "Reward", unit: "mean progress of a step's tasks, 0 to 1",
    source: `${OBSERVATIONS}: resolved turns over expected turns`, range: [0, 1], series: [{ label: "reward", colour: "boundary" }] });
  const zones = chart({ title: "Zones", unit: "share of a step's tasks", range: [0, 1],
    source: `${OBSERVATIONS}: the zone of each group`, series: ZONES.map((name) => ({ label: name.replace("_", " "), colour: name })) });
  const pool = chart({ title: "Pool", unit: "tasks after each merge", source: "pool.jsonl: counts of epoch records",
    series: [{ label: "originals", colour: "truncated" }, { label: "variants", colour: "boundary" }] });
  const norm = chart({ title: "Gradient norm", unit: "before clipping; only steps that a kept checkpoint names",
    source: "checkpoints/*/manifest.json: curriculum.norms", series: [{ label: "norm", colour: "second", points: true }] });
  root.append(top, el("div", { class: "charts" }, reward.node, zones.node, pool.node, norm.node));
  const known = { cursor: "", step: [], reward: [], ...Object.fromEntries(ZONES.map((name) => [name, []])) };

  async function curves() {
    const got = await ask(path(run, "steps", { after: known.cursor }));
    for (const name of ["step", "reward", ...ZONES]) {
      if (got.reset) known[name] = [];
      known[name].push(...got.columns[name]);
    }
    known.cursor = got.cursor;
    if (known.step.length) {
      reward.draw(known.step, [known.reward]);
      const totals = known.step.map((_, row) => ZONES.reduce((sum, name) => sum + known[name][row], 0));
      zones.draw(known.step, ZONES.map((name) => known[name].map((count, row) => (totals[row] ? count / totals[row] : null))));
    }
    if (got.epochs.step.length) pool.draw(got.epochs.step, [got.epochs.originals, got.epochs.generated]);
    norm.node.hidden = !got.norms.length;
    if (got.norms.length) norm.draw(got.norms.map(([step]) => step), [got.norms.map(([, value]) => value)]);
  }

  async function figures() {
    top.replaceChildren(...told(await ask(path(run, "status"))));
  }

  return {
    async update(moved) {
      const waiting = [figures()];
      if (moved.has("attempt") || moved.has("observations") || moved.has("pool")) waiting.push(curves());
      await Promise.all(waiting);
    },
  };
}

function told(now) {
  const lives = Object.entries(now.processes).map(([name, facts]) =>
    figure(name, facts.life, facts.alive ? `pid ${facts.pid} on ${facts.host}, ${facts.state}` : facts.state || "no process",
      `heartbeat.${name}.json and locks/`));
  const count = (name, unit, source) => figure(name, num(now[name]), unit, source);
  const parts = [
    el("div", { class: "figures" },
      figure("condition", now.condition, now.pace, "heartbeats, locks, and the step against training.steps"),
      ...lives,
      figure("step", num(now.step), `of ${num(now.steps)} steps; epoch ${now.epoch}, stage ${now.stage}, start ${now.attempt}`, `${OBSERVATIONS}: step records`),
      figure("reward", num(now.reward, 3), `last step; ${num(now.recent, 3)} over the last ten`, `${OBSERVATIONS}: mean progress of the step's groups`),
      ...ZONES.map((zone) => figure(zone, num(now.zones[zone] ?? 0), "active tasks", `${OBSERVATIONS}: zone of each active task's latest group`)),
      count("originals", "tasks in the pool", "pool.jsonl"),
      count("generated", "variants in the pool", "pool.jsonl"),
      count("staged", "variants that wait for a merge", "expanded_epoch_*.jsonl without what pool.jsonl has decided"),
      count("injected", "variants", "pool.jsonl: injected"),
      count("retired", "variants", "pool.jsonl: retired"),
      count("revived", "variants", "pool.jsonl: revived"),
      count("refused", "variants", "pool.jsonl: refused"),
      count("picked", `seeds, up to step ${now.considered}`, "seeds.jsonl: picked"),
      count("accepted", "variants written", "seeds.jsonl: finished"),
      count("rejected", "attempts that failed", "rejected.jsonl")),
    legend(ZONES.map((name) => [name])),
  ];
  if (now.simulated) now.notes.unshift("Simulated policy: this run shows how the loop works and is no evidence that the method helps.");
  parts.push(...now.notes.map((note) => el("p", { class: "note" }, shown(note))));
  if (now.spent.length)
    parts.push(el("h2", {}, "Calls of language models"), el("div", { title: "usage.daemon.jsonl" },
      table(["endpoint", "stage", "calls", "failed", "tokens in", "tokens out", "seconds, summed"],
        now.spent.map((one) => [shown(one.endpoint), shown(one.stage), one.calls, one.failed, one.tokens_in, one.tokens_out, Math.round(one.seconds)]))));
  if (now.errors.length)
    parts.push(el("h2", {}, "Last warnings and errors"), el("div", { title: "logs/trainer.jsonl, logs/daemon.jsonl" },
      table(["time", "process", "level", "event"], now.errors.map((event) => [event.timestamp, event.process, event.level, shown(event.event)]))));
  return parts;
}

// The run at a glance: alive or not, what it earns, where its tasks stand, what it costs, what went wrong.

import { chart } from "chart";
import { el, figure, listing, moment, num, shown, ZONES } from "dom";
import { ask, path } from "source";

const OBSERVATIONS = "observations.jsonl";
const LABELS = 5; // the commonest, which are drawn
const columns = (...names) => Object.fromEntries(names.map((name) => [name, []]));

/** What the run's steps and merges have come to, as charts, which the report shows too: {node, update}. */
export function curves(run) {
  const reward = chart({ title: "Reward", unit: "mean progress of a step's tasks, 0 to 1",
    source: `${OBSERVATIONS}: resolved turns over expected turns`, range: [0, 1], series: [{ label: "reward", colour: "boundary" }] });
  const zones = chart({ title: "Zones", unit: "share of a step's tasks", range: [0, 1], stacked: true,
    source: `${OBSERVATIONS}: the zone of each group`, series: ZONES.map((name) => ({ label: name.replace("_", " "), colour: name })) });
  const pool = chart({ title: "Pool", unit: "tasks after each merge", source: "pool.jsonl: counts of epoch records",
    series: [{ label: "originals", colour: "truncated" }, { label: "variants", colour: "boundary" }] });
  const decided = chart({ title: "Variants so far", unit: "by what merges decided", source: "pool.jsonl: injected, retired, revived",
    series: [{ label: "injected", colour: "boundary" }, { label: "retired", colour: "too_hard" }, { label: "revived", colour: "second" }] });
  const ofSteps = [ // a value a step, where it is known
    ["norm", chart({ title: "Gradient norm", unit: "before clipping", source: `${OBSERVATIONS}: update records`, series: [{ label: "norm", colour: "second" }] })],
    ["entropy", chart({ title: "Entropy", unit: "nats a token of the policy that made the rollouts", source: `${OBSERVATIONS}: update records`, series: [{ label: "entropy", colour: "too_hard" }] })],
    ["calling", chart({ title: "Turns with a call", unit: "share of turns, 0 to 1", range: [0, 1], source: `${OBSERVATIONS}: calling`, series: [{ label: "turns with a call", colour: "boundary" }] })],
    ["replies", chart({ title: "Replies", unit: "per turn", source: `${OBSERVATIONS}: replies`, series: [{ label: "replies", colour: "second" }] })],
    ["difficulty", chart({ title: "Difficulty of drawn tasks", unit: "1 to 100", range: [0, 100], source: `${OBSERVATIONS}: folded from the groups of drawn tasks`, series: [{ label: "difficulty", colour: "boundary" }] })],
    ["earned", chart({ title: "Reward of drawn tasks", unit: "mean, −1 to 1", range: [-1, 1], source: `${OBSERVATIONS}: groups of drawn tasks`, series: [{ label: "reward", colour: "second" }] })],
  ];
  const labels = el("div");
  const node = el("div", { class: "charts" }, reward.node, zones.node, pool.node, labels, decided.node, ofSteps.map(([, curve]) => curve.node));
  const steps = columns("step", "reward", "difficulty", "earned", "turns", "calling", "replies", ...ZONES);
  const epochs = columns("step", "originals", "generated", "injected", "retired", "revived");
  const updates = new Map(), turns = new Map(); // by step
  let cursor = "", merged = 0, drawnLabels = "", became = null;

  async function update() {
    const got = await ask(path(run, "steps", { after: cursor, merged: merged || "" }));
    if (got.reset) {
      for (const known of [steps, epochs]) for (const name of Object.keys(known)) known[name] = [];
      updates.clear();
      turns.clear();
      merged = 0;
    }
    cursor = got.cursor;
    for (const [known, news] of [[steps, got.columns], [epochs, got.epochs]]) for (const name of Object.keys(known)) known[name].push(...news[name]);
    if (got.epochs.epoch.length) merged = got.epochs.epoch.at(-1) + 1;
    got.updates.step.forEach((step, row) => updates.set(step, { norm: got.updates.norm[row], entropy: got.updates.entropy[row] }));
    got.labels.step.forEach((step, row) => turns.set(step, Object.fromEntries(Object.keys(got.labels).map((name) => [name, got.labels[name][row]]))));
    if (steps.step.length) {
      reward.draw(steps.step, [steps.reward]);
      const totals = steps.step.map((_, row) => ZONES.reduce((sum, name) => sum + steps[name][row], 0));
      zones.draw(steps.step, ZONES.map((name) => steps[name].map((count, row) => (totals[row] ? count / totals[row] : null))));
    }
    if (epochs.step.length) pool.draw(epochs.step, [epochs.originals, epochs.generated]);
    decided.node.hidden = !epochs.injected.some(Boolean);
    if (!decided.node.hidden) decided.draw(epochs.step, [epochs.injected, epochs.retired, epochs.revived]);
    const perTurn = (name) => steps.step.map((step, row) => [step, steps.turns[row] ? steps[name][row] / steps.turns[row] : null]);
    const known = {
      norm: [...updates].map(([step, one]) => [step, one.norm]), entropy: [...updates].map(([step, one]) => [step, one.entropy]),
      calling: perTurn("calling"), replies: perTurn("replies"),
      difficulty: steps.step.map((step, row) => [step, steps.difficulty[row]]), earned: steps.step.map((step, row) => [step, steps.earned[row]]),
    };
    for (const [name, curve] of ofSteps) {
      const values = known[name].filter(([, value]) => value != null);
      curve.node.hidden = !values.length;
      if (values.length) curve.draw(values.map(([step]) => step), [values.map(([, value]) => value)]);
    }
    drawLabels();
  }

  /** What became of turns: the labels that most turns have, as shares. */
  function drawLabels() {
    const rows = [...turns.values()];
    labels.hidden = !rows.length;
    if (!rows.length) return;
    const totals = {};
    for (const row of rows) for (const [name, count] of Object.entries(row)) if (name !== "step") totals[name] = (totals[name] ?? 0) + count;
    const most = Object.keys(totals).filter((name) => totals[name]).sort((a, b) => totals[b] - totals[a] || (a < b ? -1 : 1)).slice(0, LABELS);
    if (most.join() !== drawnLabels) {
      drawnLabels = most.join();
      became = chart({ title: "What became of turns", unit: `share of a step's turns, the ${most.length} commonest labels`, range: [0, 1],
        source: `${OBSERVATIONS}: labels of rollouts`, series: most.map((name) => ({ label: name.replaceAll("_", " "), colour: name })) });
      labels.replaceChildren(became.node);
    }
    const all = rows.map((row) => Object.entries(row).reduce((sum, [name, count]) => sum + (name === "step" ? 0 : count), 0));
    became.draw(rows.map((row) => row.step), most.map((name) => rows.map((row, place) => row[name] / all[place])));
  }

  return { node, update };
}

export function view(root, { run }) {
  const top = el("div"), below = el("div", { class: "two" }), charts = curves(run);
  root.append(top, charts.node, below);

  async function figures() {
    const now = await ask(path(run, "status"));
    top.replaceChildren(...told(now));
    below.replaceChildren(...listed(now));
  }

  figures().catch(() => {}); // at once: the history of a long run takes a while; an error is told behind it
  return {
    async update(moved) {
      const waiting = [figures()];
      if (moved.has("attempt") || moved.has("observations") || moved.has("pool")) waiting.push(charts.update());
      await Promise.all(waiting);
    },
  };
}

const said = (components) => Object.entries(components).map(([name, words]) => el("div", { title: words }, shown(name)));

/** Of a process that is gone: when it wrote last, and what it was at then. */
function lastSign(facts) {
  const at = new Date(1000 * facts.last_heartbeat).toISOString().slice(0, 19).replace("T", " ");
  return `last sign of life ${at} UTC` + (facts.state && facts.state !== facts.life ? `, ${facts.state}` : "");
}

/** First what is wrong, then whether the run learns, teaches and writes; all other figures by what they are for, folded. */
function told(now) {
  const lives = Object.entries(now.processes).map(([name, facts]) =>
    figure(name, facts.life, facts.alive ? `pid ${facts.pid} on ${facts.host}, ${facts.state}` : facts.last_heartbeat ? lastSign(facts) : "no process",
      `heartbeat.${name}.json and locks/`));
  const count = (name, unit, source) => figure(name, num(now[name]), unit, source);
  const zoned = ZONES.reduce((sum, zone) => sum + (now.zones[zone] ?? 0), 0);
  const share = zoned ? `${num((100 * (now.zones.boundary ?? 0)) / zoned)} %` : "–";
  const groups = {
    "Processes": lives,
    "The policy": [
      now.calling == null ? null : figure("turns_with_a_call", `${num(100 * now.calling)} %`, `${num(now.replies, 2)} replies a turn; over the last ten steps`, `${OBSERVATIONS}: calling and replies of rollouts`),
      now.entropy == null ? null : figure("entropy", num(now.entropy, 3), "nats a token; over the last ten steps", `${OBSERVATIONS}: update records`),
      now.gradient_norm == null ? null : figure("gradient_norm", num(now.gradient_norm, 3), "before clipping; over the last ten steps", `${OBSERVATIONS}: update records`),
      now.difficulty == null ? null : figure("difficulty", num(now.difficulty.next), "of the next drawn tasks, 1 to 100", `${OBSERVATIONS}: folded from the groups of drawn tasks`),
    ].filter(Boolean),
    "The pool": [
      ...ZONES.map((zone) => figure(zone, num(now.zones[zone] ?? 0), "active tasks", `${OBSERVATIONS}: zone of each active task's latest group`)),
      count("originals", "tasks in the pool", "pool.jsonl"),
      count("generated", "variants in the pool", "pool.jsonl"),
    ],
    "The variants": [
      count("picked", `seeds, up to step ${now.considered}`, "seeds.jsonl: picked"),
      count("rejected", "attempts that failed", "rejected.jsonl"),
      count("staged", "variants that wait for a merge", "expanded_epoch_*.jsonl without what pool.jsonl has decided"),
      ...["injected", "refused", "retired", "revived"].map((name) => count(name, "variants", `pool.jsonl: ${name}`)),
      ...Object.entries(now.variety.generations).map(([generation, row]) => figure(`patterns_${generation}`, num(row.patterns),
        `of calls in ${num(row.variants)} active variants of generation ${generation}; ${num(row.openings)} openings; ${num(100 * row.alike)} % of words as in the nearest other`, "expanded_epoch_*.jsonl")),
      figure("unused", num(now.variety.unused.length), now.generated ? `functions in no active variant: ${now.variety.unused.slice(0, 8).join(", ")}` : "no variant yet", "expanded_epoch_*.jsonl"),
    ],
    "What models cost": spent(now.costs),
  };
  if (now.policy === "simulated") now.notes.unshift("Simulated policy: this run shows how the loop works and is no evidence that the method helps.");
  return [
    ...now.notes.map((note) => el("p", { class: "note" }, shown(note))),
    el("div", { class: "figures" },
      figure("condition", now.condition, now.pace, "heartbeats, locks, and the step against training.steps"),
      figure("step", num(now.step), `of ${num(now.steps)} steps; epoch ${now.epoch}, stage ${now.stage}, start ${now.attempt}`, `${OBSERVATIONS}: step records`),
      figure("reward", num(now.reward, 3), `does it learn? ${num(now.recent, 3)} over the last ten steps`, `${OBSERVATIONS}: mean progress of the step's groups`),
      heldOut(now.heldout),
      figure("at_the_boundary", share, "does it teach? share of the active tasks that rollouts disagree about", `${OBSERVATIONS}: zone of each active task's latest group`),
      count("accepted", `does it write? variants; ${num(now.injected)} injected, ${num(now.costs.calls)} calls of models`, "seeds.jsonl: finished; pool.jsonl: injected")),
    el("div", { class: "groups" }, Object.entries(groups).filter(([, figures]) => figures.length).map(([title, figures]) =>
      el("details", { open: open.has(title), ontoggle: (event) => open[event.target.open ? "add" : "delete"](title) },
        el("summary", {}, title), el("div", { class: "figures" }, figures)))),
  ];
}

/** Held-out progress at the last scored step, with what it gained since the first. */
function heldOut(heldout) {
  const source = "eval/: rods trainer score";
  if (!heldout) return figure("held_out", "–", "does it learn? not scored at two steps yet: rods trainer score", source);
  const { mean, interval } = heldout.difference.progress;
  const gained = interval ? `${num(mean, 3)} from step ${heldout.start.step} to ${heldout.end.step}, 95 % interval ${interval.map((bound) => num(bound, 3)).join(" to ")}` : "one task";
  return figure("held_out", num(heldout.end.progress.mean, 3), `does it learn? ${gained}`, source);
}

const open = new Set(); // groups that somebody has unfolded: figures are made anew every second

/** What calls of language models came to; the view of models says by stage and endpoint. */
function spent(costs) {
  const source = "usage.*.jsonl: all calls of both processes";
  const calls = figure("model_calls", num(costs.calls), costs.failed ? `of language models, ${num(costs.failed)} failed` : "of language models", source);
  if (!costs.calls) return [calls];
  return [calls, figure("tokens_in", num(costs.tokens_in), "tokens that models read", source), figure("tokens_out", num(costs.tokens_out), "tokens that models wrote", source),
    figure("model_seconds", num(costs.seconds), "s, calls in flight side by side added up", source)];
}

function listed(now) {
  const turns = Object.values(now.labels).reduce((sum, count) => sum + count, 0);
  return [
    listing("What became of turns, over the last ten steps", `${OBSERVATIONS}: labels of rollouts`, ["label", "turns", "share"],
      Object.entries(now.labels).sort((a, b) => b[1] - a[1]).map(([name, count]) => [name.replaceAll("_", " "), count, `${num(100 * count / turns, 1)} %`])),
    listing("Versions of what the policy is shown, the latest first", `${OBSERVATIONS}: interface and evolved`, ["from step", "stage", "version", "more", "less", "why"],
      now.versions.length < 2 ? [] : now.versions.toReversed().map((one) => [num(one.step), one.stage, shown(one.version), said(one.added), said(one.removed), shown(one.reason)])),
    listing("Environments", "manifest.json: environments", ["environment", "made from", "version"],
      now.environments.map((one) => [shown(one.name), shown(one.parameters?.kind ?? "–"), shown(one.hash)])),
    listing("Last warnings and errors", "logs/trainer.jsonl, logs/daemon.jsonl", ["time", "process", "level", "event"],
      now.errors.map((event) => [moment(event.timestamp), shown(event.process), shown(event.level), shown(event.event)])),
  ].filter(Boolean);
}

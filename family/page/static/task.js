// A task: where it comes from, what it says, what it asks, how it went, and the episodes that were kept.

import { chart } from "chart";
import { conversation } from "conversation";
import { address, el, link, num, shown, table, zoned } from "dom";
import { ask, path } from "source";

export function view(root, { run, rest }) {
  const [id, step] = rest;
  let steps = [], at = 0; // that have episodes, and the one shown
  const top = el("div"), episodes = el("div");
  const curve = chart({ title: "Reward of its groups", unit: "mean and variance, 0 to 1", range: [0, 1],
    source: "observations.jsonl: the groups of this task",
    series: [{ label: "mean", colour: "boundary" }, { label: "variance", colour: "second" }] });
  root.append(top, curve.node, episodes);

  async function load() {
    const got = await ask(path(run, "task", { task: id }));
    top.replaceChildren(...told(run, got));
    curve.node.hidden = !got.series.step.length;
    if (got.series.step.length) curve.draw(got.series.step, [got.series.mean, got.series.variance]);
  }

  async function kept() {
    const got = await ask(path(run, "episodes", { task: id, step }));
    [steps, at] = [got.steps, got.step];
    episodes.replaceChildren(el("h2", {}, "Episodes"));
    if (!got.steps.length) return episodes.append(el("p", { class: "faint" }, "No trace of this task was kept (operation.trace_bytes, trace_every)."));
    episodes.append(el("div", { class: "controls" }, "step", got.steps.map((each) =>
      each === got.step ? el("b", {}, num(each)) : link(run, "task", [id, each], num(each)))));
    episodes.append(...got.episodes.map(episode));
  }

  return {
    move: (by) => {
      const other = steps[steps.indexOf(at) + by];
      if (other != null) location.hash = address(run, "task", [id, other]);
    },
    async update(moved) {
      const waiting = [];
      if (["attempt", "pool", "expanded", "seeds", "observations"].some((name) => moved.has(name))) waiting.push(load(), kept());
      await Promise.all(waiting);
    },
  };
}

function told(run, got) {
  const task = got.task, line = got.line, seed = line.length > 1 ? line[line.length - 2] : null;
  const parts = [
    el("h2", {}, el("code", {}, task.id), ` ${task.type}, ${seed || task.provenance?.seed ? "variant" : "original"}, ${task.split}, environment ${task.environment.name}`),
    el("div", { class: "controls" }, "ancestry:", line.flatMap((one, place) => [place ? "→" : null, one.id === task.id ? el("b", {}, one.id.slice(0, 8)) : link(run, "task", [one.id], one.id.slice(0, 8))])),
  ];
  if (got.variants.length)
    parts.push(el("div", { class: "controls" }, "its variants:", got.variants.map((one) => link(run, "task", [one], one.slice(0, 8)))));
  parts.push(el("div", { class: "two" }, seed ? conversation(seed, task, "its seed") : null, conversation(task, seed, "this task")));
  parts.push(...got.notes.map((note) => el("p", {}, note)));
  if (got.windows.length)
    parts.push(el("h2", {}, "Windows"), el("div", { title: "observations.jsonl: the last groups of each kind of reward" },
      table(["reward", "mean", "variance", "groups in it", "groups ever", "zone", "last step"],
        got.windows.map((one) => [one.reward, one.mean, one.variance, one.count, one.groups, zoned(one.zone), one.last_step]))));
  if (got.labels.length)
    parts.push(el("details", { title: "observations.jsonl: labels of rollouts" }, el("summary", {}, `What became of its turns, group by group (${num(got.labels.length)})`),
      table(["step", ...got.labels[0].turns.map((_, turn) => `turn ${turn}: rollouts by label`)], got.labels.toReversed().map((one) => [num(one.step),
        ...one.turns.map((turn) => Object.entries(turn).sort((a, b) => b[1] - a[1]).map(([name, count]) => `${count} ${name.replaceAll("_", " ")}`).join(", ") || "–")]))));
  if (got.history.length)
    parts.push(el("h2", {}, "History"), el("div", { title: "seeds.jsonl, pool.jsonl, rejected.jsonl" },
      table(["step", "event", "facts"], got.history.map(({ step, event, ...facts }) =>
        [step, event, shown(Object.entries(facts).map(([name, value]) => `${name} ${brief(value)}`).join(", "))]))));
  return parts;
}

/** What a record says of an event, its fractions to four digits. */
const brief = (value) => typeof value === "string" ? value
  : JSON.stringify(value, (_, one) => (typeof one === "number" && !Number.isInteger(one) ? Number(one.toPrecision(4)) : one));

/** A kept episode: what it earned, and turn by turn what was said, called and answered. */
function episode(trace) {
  const verdicts = trace.turns.map((turn) => (turn.verdict ? (Object.values(turn.verdict).every((one) => one !== false) ? "✓" : "✗") : "–")).join(" ");
  const spans = [...(trace.spans ?? [])]; // of the policy's replies, in order
  const tokens = spans.reduce((sum, [start, end]) => sum + end - start, 0);
  const earned = [`reward ${num(trace.reward, 3)}`, trace.advantage == null ? "" : `advantage ${num(trace.advantage, 3)}`, tokens ? `${num(tokens)} tokens` : ""].filter(Boolean).join(", ");
  return el("details", {}, el("summary", { title: SOURCE }, shown(`rollout ${trace.rollout}: ${trace.resolved} of ${trace.expected} turns, ${earned}, ended ${trace.end}, turns ${verdicts}`)),
    trace.turns.map((turn, number) => {
      const replies = turn.steps.map((step) => [step, spans.shift()]);
      const label = trace.labels?.[number];
      return el("div", { class: "turn" },
        el("div", { class: "who", title: `${SOURCE}; response: what the user asked to know was shown` }, shown(`turn ${number}, verdict ${turn.verdict ? Object.entries(turn.verdict).map(([name, value]) => `${name} ${value}`).join(", ") : "none"}`
          + (label ? `, ${label.replaceAll("_", " ")}` : ""))),
        replies.map(([step, span]) => [
          el("div", {}, span ? el("span", { class: "who", title: "traces/: the span of this reply in the completion" }, `${num(span[1] - span[0])} tokens `) : null, shown(step.text)), step.error ? el("div", { class: "note" }, shown(step.error)) : null,
          step.calls.map((call, place) => el("div", { class: "mono" }, shown(`${call.name}(${JSON.stringify(call.arguments)}) → ${step.results[place]?.text ?? "no result"}`))),
        ]));
    }),
    (trace.outcome?.notes ?? []).map((note) => el("div", { class: "turn" }, el("div", { class: "who" }, "judged at the end"), shown(note))),
    el("details", {}, el("summary", {}, "as the policy read it"), (trace.messages ?? []).map((message) =>
      el("div", { class: "turn" }, el("div", { class: "who" }, shown(message.role)), shown(typeof message.content === "string" ? message.content : JSON.stringify(message.content))))));
}

const SOURCE = "traces/; observations.jsonl: the rollout's reward, labels and, where the trainer reports it, advantage";

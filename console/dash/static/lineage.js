// A lineage: everything that comes from one original, drawn as a tree; and one task of it beside its seed.

import { conversation } from "conversation";
import { address, el, legend, link, num, shown, svg, ZONES } from "dom";
import { ask, path } from "source";

const WIDE = 150, HIGH = 26, LEFT = 14, TOP = 20, NAMED = 74, SOURCE = "expanded_epoch_*.jsonl: pick and task of each variant; pool.jsonl; observations.jsonl: latest groups"; // pixels; a name ends NAMED behind its dot

export function view(root, { run, rest }) {
  const tree = el("div", { class: "scroll", title: SOURCE }), facts = el("p", { class: "faint", title: SOURCE }), both = el("div");
  root.append(facts, tree, legend([...ZONES.map((name) => [name]), ["line", "no group yet"], ["ring", "ring: not in the pool"]]), both);
  let chosen = rest[0], beside = "";

  async function load() {
    if (!chosen) chosen = (await ask(path(run, "pool"))).variants[0]?.task;
    if (!chosen) return facts.replaceChildren("There is no variant yet, so there is no lineage.");
    const got = await ask(path(run, "lineage", { task: chosen }));
    facts.replaceChildren(`${num(got.total)} tasks come from `, el("code", {}, got.nodes[0].task), `, it included` + (got.nodes.length < got.total ? `; ${num(got.nodes.length)} are drawn` : ""), ". Left to right: each was written from the one before.");
    tree.replaceChildren(drawn(got.nodes));
    if (beside !== chosen) await compare();
  }

  async function compare() {
    beside = chosen;
    const got = await ask(path(run, "task", { task: chosen }));
    const [task, seed] = got.line.toReversed();
    const distance = task.provenance?.profile_distance;
    const pair = [[seed, "its seed", task], [task, seed ? "this variant" : "this original", seed]].filter(([one]) => one);
    both.replaceChildren(
      el("h2", {}, link(run, "task", [chosen], chosen), distance == null ? "" : ` at distance ${num(distance, 3)} from the profile of its root, 0 to 1`),
      el("div", { class: "two" }, pair.map(([one, title, other]) =>
        el("div", {}, el("h2", {}, `${title}: profile`), got.profiles[one.id] ? profile(got.profiles[one.id]) : el("p", { class: "faint" }, "no profile: it has no calls by turn, or its environment is not here in the version of the task"),
          conversation(one, other, `${title}: conversation`)))));
  }

  /** The tree: a column a generation, a row a leaf. */
  function drawn(nodes) {
    const below = new Map();
    for (const node of nodes) if (node.seed) below.set(node.seed, [...(below.get(node.seed) ?? []), node]);
    const places = new Map();
    let row = 0, deepest = 0;
    (function place(node, depth) {
      deepest = Math.max(deepest, depth);
      const children = below.get(node.task) ?? [];
      const rows = children.map((child) => place(child, depth + 1));
      const at = rows.length ? (rows[0] + rows.at(-1)) / 2 : row++;
      places.set(node.task, [LEFT + depth * WIDE, TOP + at * HIGH]);
      return at;
    })(nodes[0], 0);
    const parts = nodes.filter((node) => node.seed).map((node) => {
      const [x, y] = places.get(node.task), [fromX, fromY] = places.get(node.seed);
      return svg("path", { d: `M${fromX + NAMED} ${fromY}C${fromX + (WIDE + NAMED) / 2} ${fromY} ${x - (WIDE - NAMED) / 2} ${y} ${x} ${y}`, fill: "none", stroke: "var(--line)" });
    });
    for (const node of nodes) {
      const [x, y] = places.get(node.task), inside = ["original", "injected", "revived"].includes(node.state), colour = node.zone ? `var(--${node.zone})` : "var(--line)";
      const told = `${node.task}: ${node.state}, generation ${node.generation}, ${node.zone ? `${node.zone.replace("_", " ")}, mean ${num(node.mean, 3)}` : "no group yet"}`;
      parts.push(svg("a", { href: address(run, "lineage", [node.task]), "aria-current": node.task === chosen ? "true" : null }, svg("title", {}, told),
        svg("circle", { cx: x, cy: y, r: node.task === chosen ? 8 : 6, fill: inside ? colour : "var(--paper)", stroke: colour, "stroke-width": 2.5 }),
        svg("text", { x: x + 12, y: y + 4, "font-weight": node.task === chosen ? "bold" : null }, node.task.slice(0, 8))));
    }
    return svg("svg", { class: "tree", width: LEFT + (deepest + 1) * WIDE, height: TOP + row * HIGH, role: "img", "aria-label": "lineage" }, ...parts);
  }

  return {
    async update(moved) {
      if (["attempt", "pool", "expanded", "observations"].some((name) => moved.has(name))) await load();
    },
  };
}

/** The graph of a task's calls: a column a turn; a line where a result feeds an argument. */
function profile(found) {
  const wide = 150, high = 44, width = Math.max(1, found.turns.length) * wide, height = 30 + Math.max(1, ...found.turns.map((turn) => turn.length)) * high;
  const middle = ([turn, index]) => [turn * wide + wide / 2, 36 + index * high];
  const parts = found.turns.map((_, turn) => svg("text", { x: turn * wide + wide / 2, y: 12, "text-anchor": "middle" }, `turn ${turn}`));
  const nodes = found.turns.flatMap((calls, turn) => calls.map((call, index) => ({ call, at: [turn, index] })));
  for (const { call, at } of nodes)
    for (const [argument, flow] of Object.entries(call.flows))
      if (flow.origin) {
        const [x, y] = middle(at), [fromX, fromY] = middle(flow.origin), bow = fromX === x ? 60 : 0;
        parts.push(svg("path", { d: `M${fromX} ${fromY}C${fromX + bow} ${fromY + 22} ${x + bow} ${y - 22} ${x} ${y}`, fill: "none", stroke: "var(--second)", "stroke-width": 2 }, svg("title", {}, `${argument} comes from the result`)));
      }
  for (const { call, at } of nodes) {
    const [x, y] = middle(at);
    const told = Object.entries(call.flows).map(([argument, flow]) => `${argument} from ${flow.source}`).join(", ");
    parts.push(svg("g", {}, svg("title", {}, `${call.tool} of ${call.class}: ${told || "no arguments"}`),
      svg("rect", { x: x - wide / 2 + 6, y: y - 13, width: wide - 12, height: 26, rx: 5, fill: "var(--panel)", stroke: "var(--boundary)" }),
      svg("text", { x, y: y + 4, "text-anchor": "middle", class: "tool" }, call.tool.length > 20 ? `${call.tool.slice(0, 19)}…` : call.tool)));
  }
  const sources = Object.entries(found.sources).map(([name, count]) => `${count} from ${name}`).join(", ");
  return el("div", {}, el("div", { class: "scroll" }, svg("svg", { class: "profile", width, height, role: "img", "aria-label": "profile" }, ...parts)),
    el("p", { class: "faint" }, `depth ${found.depth}; calls a turn ${found.calls_per_turn.join(", ")}; `, shown(`arguments: ${sources || "none"}; classes: ${found.classes.join(", ")}`)));
}

// A task as it is read: what its user says turn by turn, and what it is judged by; beside another one, differences marked.

import { el, shown } from "dom";

const WORD = /[\p{L}\p{N}_]+(?:[.'-][\p{L}\p{N}]+)*/gu;
const SPLIT = new RegExp(`(${WORD.source})`, "u");
const MARKED = 3000; // characters of a text in which differences are looked for

/** What the user of a task is known to say: a script, or what a played user opens with and asks for next. */
export const texts = (task) => task.user.script ?? [task.user.persona.query, ...(task.user.persona.further ?? [])];

/** A call as it is written in code. */
export const written = (call) => `${call.name}(${Object.entries(call.arguments ?? {}).map(([name, value]) => `${name}=${JSON.stringify(value)}`).join(", ")})`;

/** A task under a title. What `other` does not have at the same place is marked. */
export function conversation(task, other, title) {
  const others = other && texts(other);
  return el("section", {}, el("h2", {}, title),
    task.system ? el("div", { class: "turn" }, el("div", { class: "who" }, "system"), shown(task.system)) : null,
    task.user.persona ? persona(task.user.persona) : null,
    texts(task).map((text, turn) => el("div", { class: "turn" },
      el("div", { class: "who" }, `turn ${turn}: user`), others ? marked(text, others[turn] ?? "") : shown(text),
      task.tools.held_out?.[turn] ? el("div", { class: "who" }, "tools from here on: ", shown(task.tools.held_out[turn].join(", "))) : null,
      task.goal.calls ? [el("div", { class: "who" }, "ground truth"), calls(task.goal.calls[turn] ?? [], other?.goal.calls?.[turn])] : null)),
    judged(task.goal),
    task.limits ? el("p", { class: "faint" }, Object.entries(task.limits).map(([name, most]) => `at most ${most} ${name === "tool_turns" ? "turns with calls" : name}`).join(", ")) : null);
}

function calls(these, others) {
  if (!these.length) return el("i", {}, "no call is right here");
  const known = others && new Set(others.map(written));
  return these.map((call) => el("div", { class: "mono" }, known && !known.has(written(call)) ? el("mark", {}, shown(written(call))) : shown(written(call))));
}

function persona(user) {
  const line = (name, text) => el("div", {}, el("span", { class: "who" }, `${name} `), shown(text));
  return el("div", { class: "turn" }, el("div", { class: "who" }, `a user who is played, at most ${user.turns} texts`),
    line("wants", user.intent), user.manner ? line("talks", user.manner) : null,
    Object.entries(user.knows ?? {}).map(([topic, words]) => el("div", {}, el("span", { class: "who" }, "knows ", shown(topic), " "), shown(words))));
}

function judged(goal) {
  if (goal.calls) return null;
  const expected = goal.expected ?? goal.checks ?? [];
  return el("div", { class: "turn" }, el("div", { class: "who" }, goal.rubric ? "judged by a rubric at the end" : "checked at the end"),
    (goal.rubric ?? []).map((criterion) => el("div", {}, shown(criterion))),
    goal.rubric && expected.length ? el("div", { class: "who" }, "calls that it expects") : null,
    expected.map((call) => el("div", { class: "mono" }, shown(written(call)))));
}

/** A text, with the words marked that `against` does not have. */
function marked(text, against) {
  const known = new Set(against.toLowerCase().match(WORD));
  const node = el("span", { class: "text" });
  for (const piece of text.slice(0, MARKED).split(SPLIT))
    if (piece) node.append(/[\p{L}\p{N}]/u.test(piece) && !known.has(piece.toLowerCase()) ? el("mark", {}, shown(piece)) : shown(piece));
  if (text.length > MARKED) node.append(shown(text.slice(MARKED)));
  return node;
}

// What both processes have said, with filters; and why candidates failed.

import { el, num, shown, table } from "dom";
import { ask, path } from "source";

export function view(root, { run }) {
  const wanted = { level: "", process: "", text: "" };
  const choose = (name, values) => el("select", { "aria-label": name, onchange: (event) => {
    wanted[name] = event.target.value;
    load();
  } }, values.map((value) => el("option", { value }, value || `any ${name}`)));
  const text = el("input", { type: "search", placeholder: "text", "aria-label": "text", oninput: () => {
    wanted.text = text.value;
    load();
  } });
  const list = el("div", { title: "logs/trainer.jsonl, logs/daemon.jsonl: the last 256 kB of each" });
  const failed = el("div", { title: "rejected.jsonl" });
  root.append(
    el("div", { class: "controls" }, choose("level", ["", "debug", "info", "warning", "error", "critical"]), choose("process", ["", "trainer", "daemon"]), text),
    list, el("h2", {}, "Candidates that failed, by stage and error, the latest of each"), failed);
  let asked = 0;

  async function load() {
    const mine = ++asked;
    const got = await ask(path(run, "logs", wanted));
    if (mine !== asked) return;
    list.replaceChildren(el("p", { class: "faint" }, `${num(got.total)} events`), table(["time", "process", "level", "event", "facts"],
      got.events.toReversed().map(({ timestamp, process, level, event, run: _, ...facts }) =>
        [timestamp, process, level, shown(event), shown(Object.entries(facts).map(([name, value]) => `${name}=${JSON.stringify(value)}`).join(" "))])));
  }

  async function failures() {
    const got = await ask(path(run, "rejected"));
    failed.replaceChildren(table(["stage", "error", "attempts", "pick", "evidence", "raw"], got.rejected.map((one) =>
      [one.stage, one.error, one.count, shown(one.pick), shown(typeof one.evidence === "string" ? one.evidence : JSON.stringify(one.evidence)), shown(one.raw)])));
  }

  return {
    async update(moved) {
      await Promise.all([load(), moved.has("rejected") || moved.has("attempt") ? failures() : null]);
    },
  };
}

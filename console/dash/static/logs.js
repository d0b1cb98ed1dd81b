// What both processes have said, with filters.

import { el, moment, num, shown, table } from "dom";
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
  const list = el("div", { class: "events", title: "logs/trainer.jsonl, logs/daemon.jsonl: the last 256 kB of each" });
  root.append(
    el("div", { class: "controls" }, choose("level", ["", "debug", "info", "warning", "error", "critical"]), choose("process", ["", "trainer", "daemon"]), text),
    list);
  let asked = 0;

  async function load() {
    const mine = ++asked;
    const got = await ask(path(run, "logs", wanted));
    if (mine !== asked) return;
    list.replaceChildren(el("p", { class: "faint" }, `${num(got.total)} events, the latest first`), table(["time", "process", "level", "event", "facts"],
      got.events.toReversed().map(({ timestamp, process, level, event, run: _, ...facts }) =>
        [moment(timestamp), shown(process), shown(level), shown(event), shown(Object.entries(facts).map(([name, value]) => `${name}=${JSON.stringify(value)}`).join(" "))])));
  }

  return {
    grows: true,
    async update() {
      await load();
    },
  };
}

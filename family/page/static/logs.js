// What both processes have said, with filters.

import { el, moment, num, shown, table } from "dom";
import { ask, path } from "source";

const PAGE = 200; // events that are listed

export function view(root, { run }) {
  const wanted = { level: "", process: "", text: "" };
  let events = [];
  const choose = (name, values) => el("select", { "aria-label": name, onchange: (event) => {
    wanted[name] = event.target.value;
    draw();
  } }, values.map((value) => el("option", { value }, value || `any ${name}`)));
  const text = el("input", { type: "search", placeholder: "text", "aria-label": "text", oninput: () => {
    wanted.text = text.value.toLowerCase();
    draw();
  } });
  const list = el("div", { class: "events", title: "logs/trainer.jsonl, logs/daemon.jsonl: the last 256 kB of each" });
  root.append(
    el("div", { class: "controls" }, choose("level", ["", "debug", "info", "warning", "error", "critical"]), choose("process", ["", "trainer", "daemon"]), text),
    list);
  const fits = (event) => ["level", "process"].every((name) => !wanted[name] || event[name] === wanted[name])
    && JSON.stringify(event).toLowerCase().includes(wanted.text);

  function draw() {
    const chosen = events.filter(fits);
    list.replaceChildren(el("p", { class: "faint" }, `${num(chosen.length)} events, the latest first`), table(["time", "process", "level", "event", "facts"],
      chosen.slice(-PAGE).toReversed().map(({ timestamp, process, level, event, run: _, ...facts }) =>
        [moment(timestamp), shown(process), shown(level), shown(event), shown(Object.entries(facts).map(([name, value]) => `${name}=${JSON.stringify(value)}`).join(" "))])));
  }

  return {
    async update() {
      events = (await ask(path(run, "logs"))).events;
      draw();
    },
  };
}

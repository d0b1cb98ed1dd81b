// The funnel: from picked seeds to variants in the pool, and what took the others on the way, with an example of each.

import { el, link, listing, num, shown } from "dom";
import { ask, path } from "source";

const STAGES = ["plan", "execute", "rewrite", "judge", "adversarial", "admission"];

export function view(root, { run }) {
  const place = el("div");
  root.append(place);

  async function load() {
    const got = await ask(path(run, "funnel"));
    const open = new Set([...place.querySelectorAll("details[open]")].map((one) => one.dataset.key)); // those that were read
    const injected = got.decisions.filter((one) => one.event === "injected").reduce((sum, one) => sum + one.count, 0);
    const inside = (got.states.injected ?? 0) + (got.states.revived ?? 0);
    const finished = Object.values(got.outcomes).reduce((sum, count) => sum + count, 0);
    const levels = [["seeds picked", got.picked, "seeds.jsonl: picked"], ["seeds finished", finished, "seeds.jsonl: finished"],
      ["seeds that gave a variant", got.outcomes.accepted ?? 0, "seeds.jsonl: finished with accepted"],
      ["variants accepted", got.accepted, "expanded_epoch_*.jsonl"], ["variants injected", injected, "pool.jsonl: injected"], ["in the pool now", inside, "pool.jsonl"]];
    const most = Math.max(1, ...levels.map(([, count]) => count));
    const total = got.failures.reduce((sum, one) => sum + one.count, 0);
    place.replaceChildren(
      el("div", {}, levels.map(([name, count, source]) => bar(name, count, most, "boundary", source, name))),
      el("h2", {}, `What took attempts: ${num(total)} candidates failed, by the stage in which they did`),
      el("p", { class: "faint" }, "A seed has several attempts, so more attempts fail than seeds. Open one for its latest example."),
      ...STAGES.filter((stage) => got.failures.some((one) => one.stage === stage)).map((stage) => {
        const here = got.failures.filter((one) => one.stage === stage);
        return el("section", {}, bar(stage, here.reduce((sum, one) => sum + one.count, 0), Math.max(1, total), "too_hard", "rejected.jsonl", `stage ${stage}`),
          here.map((one) => failure(one, total, open)));
      }),
      listing("Why seeds gave none", "seeds.jsonl: finished, why", ["reason of the last attempt", "seeds"], Object.entries(got.discards).map(([why, count]) => [shown(why), count])) ?? "",
      listing("What merges decided", "pool.jsonl", ["decision", "rule", "tasks"], got.decisions.map((one) => [one.event, shown(one.rule || "–"), one.count])) ?? "");
  }

  function failure(one, total, open) {
    const key = `${one.stage} ${one.error}`;
    const text = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 1));
    return el("details", { "data-key": key, open: open.has(key) },
      el("summary", {}, `${one.error.replaceAll("_", " ")} (${one.kind}): ${num(one.count)}, ${num((100 * one.count) / total, 1)} %`),
      one.example ? el("div", { class: "turn" }, el("div", { class: "who" }, "the latest, of ", link(run, "task", [one.example.pick.replace(/^\d+-/, "")], `pick ${one.example.pick}`)),
        shown(text(one.example.evidence)), el("div", { class: "who" }, "what had been written"), el("div", { class: "mono" }, shown(one.example.raw))) : el("p", {}, "its record was lost to damage"));
  }

  return {
    async update(moved) {
      if (["attempt", "seeds", "rejected", "pool", "expanded"].some((name) => moved.has(name))) await load();
    },
  };
}

function bar(name, count, most, colour, source, label) {
  const fill = el("i");
  fill.style.width = `${(100 * count) / most}%`;
  fill.style.background = `var(--${colour})`;
  return el("div", { class: "bar", title: source, "data-name": label }, el("span", {}, name), el("b", {}, num(count)), el("span", { class: "track" }, fill));
}

// Language models: what was asked of them, what it cost, and what holds them back.

import { el, figure, listing, num, shown } from "dom";
import { ask, path } from "source";

const SOURCE = "usage.*.jsonl";

export function view(root, { run }) {
  const place = el("div");
  root.append(place);

  async function load() {
    const got = await ask(path(run, "models"));
    const total = (name, calls = got.calls) => calls.reduce((sum, one) => sum + one[name], 0);
    const written = got.calls.filter((one) => one.process === "daemon");
    if (!got.calls.length) return place.replaceChildren(el("p", { class: "note" }, "No language model has been asked for this run."));
    const each = (name, digits = 0) => (got.accepted ? `${num(total(name, written) / got.accepted, digits)} of the daemon's for each accepted variant, failures included` : "no variant was accepted yet");
    place.replaceChildren(
      el("div", { class: "figures" },
        figure("calls", num(total("calls")), each("calls", 1), SOURCE), figure("failed", num(total("failed")), "calls without an answer", SOURCE),
        figure("tokens_in", num(total("tokens_in")), each("tokens_in"), SOURCE), figure("tokens_out", num(total("tokens_out")), each("tokens_out"), SOURCE),
        ["tokens", "requests"].filter((kind) => got.budget?.[kind] != null).map((kind) =>
          figure(`budget_of_${kind}`, num(got.budget[`used_${kind}`]), `used of ${num(got.budget[kind])}`, "heartbeat.daemon.json"))),
      listing("Calls by endpoint and stage", SOURCE, ["process", "endpoint", "stage", "calls", "failed", "tokens in", "tokens out", "seconds", "seconds a call"],
        got.calls.map((one) => [one.process, shown(one.endpoint), shown(one.stage), one.calls, one.failed, one.tokens_in, one.tokens_out, one.seconds, one.seconds / one.calls])),
      listing(`Endpoints as the daemon sees them (${got.life})`, "heartbeat.daemon.json", ["endpoint", "model", "in flight", "at most", "waiting", "trouble"],
        (got.endpoints ?? []).map((one) => [shown(one.endpoint), shown(one.model), one.in_flight, one.limit, one.waiting, one.why ? shown(`down for ${num(one.down_seconds)} s: ${one.why}`) : "none"])) ?? "");
  }

  return {
    async update(moved) {
      if (["attempt", "usage", "daemon"].some((name) => moved.has(name))) await load();
    },
  };
}

// The boundary: one dot a task, its mean reward against its variance, moving with the steps; a slider goes back.

import { address, el, legend, num, svg, ZONES } from "dom";
import { ask, exported, path } from "source";

const WIDTH = 800, HEIGHT = 440;
const LEFT = 76, BOTTOM = 66, TOP = 26, RIGHT = 34; // room for what a phone writes large, and for dots at the edges
const MOST = 0.25; // variance of a reward in [0, 1]
const RADIUS = 5;
const STOPS = 60; // steps that are played, and that an export holds (export.py counts alike)
const x = (mean) => LEFT + mean * (WIDTH - LEFT - RIGHT);
const y = (variance) => HEIGHT - BOTTOM - (variance / MOST) * (HEIGHT - BOTTOM - TOP);

export function view(root, { run, rest }) {
  const dots = new Map(); // task → [task, mean, variance, zone, variant, step]
  const circles = new Map();
  const layer = svg("g");
  const zone = svg("rect", { y: TOP, height: HEIGHT - BOTTOM - TOP, fill: "var(--boundary)", opacity: 0.12 });
  const limits = [0, 1].map(() => svg("line", { y1: TOP, y2: HEIGHT - BOTTOM, stroke: "var(--boundary)", "stroke-dasharray": "4 4" }));
  const marks = [0, 1].map(() => svg("text", { y: TOP - 6, "text-anchor": "middle" }));
  const picture = svg("svg", { class: "boundary", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": "mean reward against variance" },
    zone, ...limits, ...axes(), ...marks, layer);
  const range = el("input", { type: "range", min: 1, max: 1, value: 1, "aria-label": "step" });
  const said = el("b", { id: "boundary-step" });
  const facts = el("p", { class: "faint", id: "boundary-facts", title: "observations.jsonl: the latest group of each task; pool.jsonl: who is in the pool" });
  const play = el("button", { onclick: () => playing(1) }, "play");
  let wanted = rest[0] ? Number(rest[0]) : null; // a step of the past; null follows the run
  let last = 0, timer = 0, asked = 0;
  root.append(
    el("div", { class: "controls" }, el("span", {}, "after step ", said), range, play,
      el("button", { id: "boundary-live", onclick: () => seek(null) }, "latest")),
    el("div", { title: "observations.jsonl: the latest group of each task in the pool; pool.jsonl: who is in it" }, picture),
    legend([...ZONES.map((name) => [name]), ["ink", "larger: a variant"]]), facts);
  range.addEventListener("input", () => seek(Number(range.value) >= last ? null : Number(range.value)));

  function seek(step) {
    wanted = step;
    history.replaceState(null, "", address(run, "boundary", step == null ? [] : [step]));
    return whole();
  }

  const stride = () => Math.max(1, Math.ceil(last / STOPS));

  async function playing(step) {
    clearTimeout(timer);
    await seek(step >= last ? null : step);
    if (wanted != null && root.isConnected) timer = setTimeout(() => playing(step + stride()), 450);
  }

  async function whole() {
    const mine = ++asked;
    const got = await ask(path(run, "boundary", { step: wanted }));
    if (mine !== asked) return; // the slider has moved on
    last = got.last;
    dots.clear();
    for (const dot of got.dots) dots.set(dot[0], dot);
    zone.setAttribute("x", x(got.bounds[0]));
    zone.setAttribute("width", x(got.bounds[1]) - x(got.bounds[0]));
    got.bounds.forEach((bound, side) => {
      for (const name of ["x1", "x2"]) limits[side].setAttribute(name, x(bound));
      marks[side].setAttribute("x", x(bound));
      marks[side].textContent = bound;
    });
    draw(got.step, got.active);
  }

  function draw(step, active) {
    range.max = Math.max(1, last);
    if (exported) range.step = stride();
    range.value = wanted ?? last;
    said.textContent = num(step);
    const places = new Map();
    const counts = Object.fromEntries(ZONES.map((name) => [name, 0]));
    for (const [task, mean, variance, name, variant, at] of dots.values()) {
      counts[name] += 1;
      if (mean == null) continue;
      const place = `${mean} ${variance}`;
      const turn = places.get(place) ?? 0; // dots of one place stand in a spiral around it
      places.set(place, turn + 1);
      const away = 2.1 * Math.sqrt(turn) * 2, angle = turn * 2.4;
      let circle = circles.get(task);
      if (!circle) {
        circle = svg("circle", {}, svg("title"));
        circles.set(task, circle);
        layer.append(svg("a", { href: address(run, "task", [task]) }, circle));
      }
      circle.setAttribute("cx", x(mean) + away * Math.cos(angle));
      circle.setAttribute("cy", y(variance) + away * Math.sin(angle));
      circle.setAttribute("r", variant ? RADIUS + 1 : RADIUS - 1);
      circle.setAttribute("fill", `var(--${name})`);
      circle.firstChild.textContent = `${task}: mean ${num(mean, 3)}, variance ${num(variance, 3)}, ${name.replace("_", " ")}, ${variant ? "variant" : "original"}, rolled out at step ${at}`;
    }
    for (const [task, circle] of circles)
      if (dots.get(task)?.[1] == null) {
        circle.parentNode.remove();
        circles.delete(task);
      }
    const told = ZONES.map((name) => `${counts[name]} ${name.replace("_", " ")}`).join(", ");
    facts.textContent = `${dots.size} tasks with a group: ${told}` + `; ${active} in the pool`;
  }

  return {
    async update(moved) {
      const news = wanted == null && (moved.has("observations") || moved.has("pool"));
      if (!asked || moved.has("attempt") || news) await whole();
    },
    move: (by) => {
      const step = (wanted ?? last) + by * (exported ? stride() : 1);
      return step >= 1 ? seek(step >= last ? null : step) : null;
    },
    stop: () => clearTimeout(timer),
  };
}

/** The axes of a picture of means against variances, with the bound of any reward in [0, 1]. */
function axes() {
  const ink = { stroke: "var(--line)" };
  const made = [svg("line", { x1: x(0), x2: x(1), y1: y(0), y2: y(0), ...ink }), svg("line", { x1: x(0), x2: x(0), y1: y(0), y2: y(MOST), ...ink })];
  for (const mean of [0, 0.25, 0.5, 0.75, 1]) made.push(svg("text", { x: x(mean), y: y(0) + 34, "text-anchor": "middle" }, String(mean)));
  for (const variance of [0, 0.05, 0.1, 0.15, 0.2, 0.25]) made.push(svg("text", { x: LEFT - 10, y: y(variance) + 4, "text-anchor": "end" }, String(variance)));
  made.push(svg("text", { x: x(0.5), y: HEIGHT - 7, "text-anchor": "middle" }, "mean progress of the rollouts of a task, 0 to 1"));
  made.push(svg("text", { x: 18, y: y(0.125), "text-anchor": "middle", transform: `rotate(-90 18 ${y(0.125)})` }, "variance"));
  const bow = Array.from({ length: 51 }, (_, at) => `${x(at / 50)},${y((at / 50) * (1 - at / 50))}`).join(" ");
  made.push(svg("polyline", { points: bow, fill: "none", stroke: "var(--faint)", "stroke-dasharray": "2 3" }, svg("title", {}, "the largest variance that a reward in [0, 1] of this mean can have")));
  return made;
}

// Curves over steps, and bars, drawn by uPlot.

import { colour, el } from "dom";

const HEIGHT = 210;
const FEW = 30; // values that are drawn as points, too: a line needs two
const BAR = [0.86, 80]; // share of its place that a bar takes, and its most pixels
const WHOLE = [1, 2, 5].flatMap((one) => [0, 1, 2, 3, 4, 5, 6].map((zeros) => one * 10 ** zeros)).sort((a, b) => a - b); // steps between two marks

/**
 * A chart under a heading. `series`: [{label, colour (a name in style.css), points (dots without a line), low and high (an
 * interval around it)}]; `stacked`: bars that stand on one another; `marks`: [[what they mean, [places on x]]], drawn as
 * lines, the second kind dotted; `levels`: dashed lines across; `source` shows on hover.
 * Returns {node, draw(at, columns)}; columns are arrays as long as `at`, null where there is no value.
 */
export function chart({ title, unit, source, series, range, x = "step", stacked = false, marks = [], levels = [] }) {
  const place = el("div");
  const node = el("section", { class: "chart", title: [source, ...marks.map(([meant]) => `lines: ${meant}`)].join("; ") }, el("h2", {}, `${title}, ${unit}`), place);
  const last = (column) => column?.findLast((value) => value != null); // shown while nobody points at a place
  const told = (value) => (value == null ? "–" : Number.isInteger(value) ? value : value.toFixed(3));
  const rows = stacked ? series.toReversed() : series; // what is painted later covers what was before
  const between = rows.filter((one) => one.low);
  let plot = null, drawn = null, columns = [];

  function lines(drawing) {
    const { ctx, bbox } = drawing;
    ctx.save();
    ctx.lineWidth = devicePixelRatio;
    const line = (from, to, ink, dash) => {
      ctx.strokeStyle = ink;
      ctx.setLineDash(dash);
      ctx.beginPath();
      ctx.moveTo(...from);
      ctx.lineTo(...to);
      ctx.stroke();
    };
    marks.forEach(([, at], kind) => {
      for (const each of at) {
        const across = drawing.valToPos(each, "x", true);
        if (across >= bbox.left && across <= bbox.left + bbox.width)
          line([across, bbox.top], [across, bbox.top + bbox.height], colour(kind ? "second" : stacked ? "ink" : "line"), kind ? [2, 3] : []);
      }
    });
    for (const level of levels) {
      const up = drawing.valToPos(level, "y", true);
      if (up >= bbox.top && up <= bbox.top + bbox.height) line([bbox.left, up], [bbox.left + bbox.width, up], colour("faint"), [6, 4]);
    }
    ctx.restore();
  }

  const make = () => {
    const axis = { stroke: colour("faint"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line") } };
    const at = drawn[0], apart = at.length > 1 ? at[1] - at[0] : 1;
    const whole = at.every(Number.isInteger);
    const highest = levels.length && !range ? (_, least, most) => [Math.min(0, least), 1.05 * Math.max(most, ...levels)] : null;
    plot?.destroy();
    plot = new uPlot({
      width: Math.max(200, place.clientWidth),
      height: HEIGHT,
      scales: {
        x: { time: false, ...(stacked ? { range: [at[0] - apart / 2, at.at(-1) + apart / 2] } : {}) },
        y: range ? { range } : stacked ? { range: (_, least, most) => [0, 1.05 * most || 1] } : highest ? { range: highest } : {},
      },
      axes: [{ ...axis, label: x, labelSize: 16, labelGap: 0, size: 34, ...(whole ? { incrs: WHOLE } : {}) }, axis],
      series: [
        { label: x, value: (_, value) => told(value ?? drawn[0].at(-1)) },
        ...rows.map((one, index) => ({
          label: one.label,
          stroke: colour(one.colour),
          ...(stacked ? { fill: colour(one.colour), width: 0, paths: uPlot.paths.bars({ size: BAR }), points: { show: false } } : {
            width: 1.5,
            points: { show: (drawing) => Boolean(one.points) || drawing.data[0].length < FEW, size: 5 },
            paths: one.points ? () => null : undefined,
          }),
          value: (_, value, __, row) => told(row == null ? last(columns[index]) : columns[index]?.[row]),
        })),
        ...between.flatMap((one) => ["low", "high"].map((end) => ({ label: `95 % ${end}`, stroke: `${colour(one.colour)}40`, width: 1, points: { show: false }, value: (_, value) => told(value ?? last(one[end])) }))),
      ],
      bands: between.map((one, index) => ({ series: [2, 1].map((end) => series.length + 2 * index + end), fill: `${colour(one.colour)}30` })),
      hooks: { drawAxes: stacked ? [] : [lines], draw: stacked ? [lines] : [] },
    }, drawn, place);
  };
  const restyle = matchMedia("(prefers-color-scheme: dark)");
  restyle.addEventListener("change", () => drawn && node.isConnected && make());
  new ResizeObserver(() => plot?.setSize({ width: Math.max(200, place.clientWidth), height: HEIGHT })).observe(place);
  return {
    node,
    draw(at, values) {
      columns = stacked ? values.toReversed() : values;
      drawn = [at, ...(stacked ? piled(columns) : columns), ...between.flatMap((one) => [one.low, one.high])];
      if (plot) plot.setData(drawn);
      else make();
    },
  };
}

/** Each column with all behind it added, which lie below it. */
const piled = (columns) => columns.map((_, first) => columns[0].map((__, row) => columns.slice(first).reduce((sum, column) => sum + (column[row] ?? 0), 0)));

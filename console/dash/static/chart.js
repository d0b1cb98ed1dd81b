// Curves over steps, drawn by uPlot.

import { colour, el } from "dom";

const HEIGHT = 210;
const FEW = 30; // values that are drawn as points, too: a line needs two
const WHOLE = [1, 2, 5].flatMap((one) => [0, 1, 2, 3, 4, 5, 6].map((zeros) => one * 10 ** zeros)).sort((a, b) => a - b); // steps between two marks

/**
 * A chart under a heading. `series`: [{label, colour (a name in style.css), fill, points}]; `source` shows on hover.
 * Returns {node, draw(x, columns)}; columns are arrays as long as x, null where there is no value.
 */
export function chart({ title, unit, source, series, range }) {
  const place = el("div");
  const node = el("section", { class: "chart", title: source }, el("h2", {}, `${title}, ${unit}`), place);
  let plot = null;
  let drawn = null;
  const make = () => {
    const axis = { stroke: colour("faint"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line") } };
    plot?.destroy();
    plot = new uPlot({
      width: Math.max(200, place.clientWidth),
      height: HEIGHT,
      scales: { x: { time: false }, ...(range ? { y: { range } } : {}) },
      axes: [{ ...axis, label: "step", labelSize: 16, labelGap: 0, size: 34, incrs: WHOLE }, axis],
      series: [
        { label: "step" },
        ...series.map((one) => ({
          label: one.label,
          stroke: colour(one.colour),
          width: 1.5,
          points: { show: (drawing) => Boolean(one.points) || drawing.data[0].length < FEW, size: 5 },
          paths: one.points ? () => null : undefined,
          value: (_, value) => (value == null ? "–" : Number.isInteger(value) ? value : value.toFixed(3)),
        })),
      ],
    }, drawn, place);
  };
  const restyle = matchMedia("(prefers-color-scheme: dark)");
  restyle.addEventListener("change", () => drawn && node.isConnected && make());
  new ResizeObserver(() => plot?.setSize({ width: Math.max(200, place.clientWidth), height: HEIGHT })).observe(place);
  return {
    node,
    draw(x, columns) {
      drawn = [x, ...columns];
      if (plot) plot.setData(drawn);
      else make();
    },
  };
}

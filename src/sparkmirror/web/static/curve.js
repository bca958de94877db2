// Small curves of the last five minutes.

import { h } from "./dom.js";

const SAMPLES = 60;

/** `values` oldest first, null where nobody knows: a gap. A flat line at the bottom where all of them are nothing. */
export function curve(values, { width = 104, height = 24, label, kind = "" }) {
  const points = values.length > 1 ? values : [0, 0];
  const top = Math.max(...points.filter((value) => value !== null), 1);
  const step = width / (values.length > 1 ? SAMPLES - 1 : 1);
  const first = width - (points.length - 1) * step;
  const place = (value, at) => `${(first + at * step).toFixed(1)} ${(height - 2 - (value / top) * (height - 5)).toFixed(1)}`;
  const pieces = points.reduce((found, value, at) => (value === null ? [...found, []] : (found.at(-1).push([at, place(value, at)]), found)), [[]]).filter((piece) => piece.length);
  const line = pieces.map((piece) => `M${piece.map(([, spot]) => spot).join("L")}`).join("");
  const area = pieces.map((piece) => `M${(first + piece[0][0] * step).toFixed(1)} ${height}L${piece.map(([, spot]) => spot).join("L")}V${height}Z`).join("");
  const box = { class: `curve ${kind}`, viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img" };
  return h(
    "svg",
    { ...box, "aria-label": label },
    h("path", { class: "area", d: area }),
    h("path", { class: "line", d: line }),
  );
}

// Small curves of the last five minutes.

import { h } from "./dom.js";

const SAMPLES = 60;

/** `values` oldest first; a flat line at the bottom where all of them are nothing. */
export function curve(values, { width = 104, height = 24, label, kind = "" }) {
  const points = values.length > 1 ? values : [0, 0];
  const top = Math.max(...points, 1);
  const step = width / (values.length > 1 ? SAMPLES - 1 : 1);
  const first = width - (points.length - 1) * step;
  const place = (value, at) => `${(first + at * step).toFixed(1)} ${(height - 2 - (value / top) * (height - 5)).toFixed(1)}`;
  const line = points.map(place).join("L");
  const box = { class: `curve ${kind}`, viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img" };
  return h(
    "svg",
    { ...box, "aria-label": label },
    h("path", { class: "area", d: `M${first.toFixed(1)} ${height}L${line}L${width} ${height}Z` }),
    h("path", { class: "line", d: `M${line}` }),
  );
}

// A flow's rate and lag over time, with axes, and what happened to it under them. What is not known is left out of the
// curve and shaded: a gap is no zero.

import { h } from "./dom.js";
import { clock, moment, short } from "./format.js";

const LEFT = 58;
const RIGHT = 8;
const PANEL = 84;
const TITLE = 20;
const STRIP = 22;
const FOOT = 20;
const JOINED = 1.7;
const KINDS = { failed: "bad", ended: "bad", "query failed": "bad", "target away": "bad", gap: "bad", "job fails": "bad", waiting: "warn", paused: "warn", restarted: "warn" };
const STEPS = [60_000, 300_000, 900_000, 3_600_000, 3 * 3_600_000, 6 * 3_600_000];

/** `panels`: {title, kind, points: [[ms, value or null], …] oldest first}; points further apart than `step` ms are not joined. */
export function drawTimeline({ panels, events = [], from, to, step, width, label }) {
  const place = (at) => LEFT + ((at - from) / (to - from)) * (width - LEFT - RIGHT);
  const bottom = panels.length * (TITLE + PANEL);
  const height = bottom + (events.length ? STRIP : 4) + FOOT;
  const parts = panels.map((panel, at) => drawPanel(panel, { place, from, to, step, width, y: at * (TITLE + PANEL) + TITLE }));
  const marks = events.filter((event) => event.at_ms >= from && event.at_ms <= to).map((event) => mark(event, place(event.at_ms), bottom + STRIP / 2 + 2));
  const strip = events.length ? [h("text", { x: 0, y: bottom + STRIP / 2 + 6 }, "events"), marks] : null;
  return h("svg", { class: "timeline", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label }, parts, strip, times({ place, from, to, width, height, bottom }));
}

function drawPanel({ title, kind, points }, { place, from, to, step, width, y }) {
  const shown = points.filter(([at]) => at >= from && at <= to);
  const known = shown.filter(([, value]) => value !== null);
  const top = nice(Math.max(1, ...known.map(([, value]) => value)));
  const level = (value) => y + PANEL - (value / top) * (PANEL - 6);
  const grid = [0, top / 2, top].map((value) => h("g", {}, h("path", { class: "grid", d: `M${LEFT} ${level(value).toFixed(1)}H${width - RIGHT}` }), h("text", { class: "tick", x: LEFT - 6, y: (level(value) + 4).toFixed(1) }, short(value))));
  const pieces = split(known, shown, step);
  const spots = pieces.map((piece) => piece.map(([at, value]) => `${place(at).toFixed(1)} ${level(value).toFixed(1)}`));
  const line = spots.map((piece) => `M${piece.join("L")}${piece.length === 1 ? "h0.1" : ""}`).join("");
  const area = pieces.map((piece, at) => `M${place(piece[0][0]).toFixed(1)} ${y + PANEL}L${spots[at].join("L")}V${y + PANEL}Z`).join("");
  const voids = unknown(pieces, from, to, step).map(([a, b]) => h("rect", { class: "void", x: place(a).toFixed(1), y: y + 6, width: (place(b) - place(a)).toFixed(1), height: PANEL - 6 }));
  return h("g", { class: `panel-of ${kind}` }, h("text", { class: "axis", x: LEFT, y: y - 4 }, title), voids, grid, h("path", { class: "area", d: area }), h("path", { class: "line", d: line }));
}

/** Known points in pieces that hang together. */
function split(known, shown, step) {
  const holes = shown.filter(([, value]) => value === null).map(([at]) => at);
  const pieces = [];
  let before = null;
  for (const point of known) {
    const torn = before === null || point[0] - before > JOINED * step || holes.some((at) => at > before && at < point[0]);
    if (torn) pieces.push([]);
    pieces.at(-1).push(point);
    [before] = point;
  }
  return pieces;
}

/** The stretches of which nothing is known. */
function unknown(pieces, from, to, step) {
  const ends = [from, ...pieces.flatMap((piece) => [piece[0][0], piece.at(-1)[0]]), to];
  const found = [];
  for (let at = 0; at < ends.length; at += 2) if (ends[at + 1] - ends[at] > JOINED * step) found.push([ends[at], ends[at + 1]]);
  return found;
}

function mark(event, x, y) {
  return h("circle", { class: `mark ${KINDS[event.kind] ?? "ok"}`, cx: x.toFixed(1), cy: y, r: 4.5 }, h("title", {}, `${moment(event.at_ms)} UTC: ${event.kind}, ${event.text}`));
}

function times({ place, from, to, width, height, bottom }) {
  const room = Math.max(Math.floor((width - LEFT) / 70), 2);
  const every = STEPS.find((one) => (to - from) / one <= room) ?? 12 * 3_600_000;
  const found = [];
  for (let at = Math.ceil(from / every) * every; at <= to; at += every) {
    found.push(h("path", { class: "grid", d: `M${place(at).toFixed(1)} ${bottom}v4` }));
    found.push(h("text", { class: "time", x: Math.min(place(at), width - 22).toFixed(1), y: height - 4 }, clock(at).slice(0, 5)));
  }
  return h("g", {}, found, h("text", { x: 0, y: height - 4 }, "UTC"));
}

/** The next of 1, 2, 5, 10, 20 … */
function nice(value) {
  const ten = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((one) => one * ten).find((one) => one >= value);
}

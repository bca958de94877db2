// Who feeds whom, with live rates. Clusters stand in columns, from where records come to where they go.

import { h } from "./dom.js";
import { age, perSecond, size } from "./format.js";

const BOX = { width: 150, height: 54 };
const COLUMN = 380;
const LANE = 96;
const MARGIN = 20;
const DOTS = 22.1;
const STEPS = 4;
const still = matchMedia("(prefers-reduced-motion: reduce)");
const TALL = { step: 118, lane: 190, side: 96 };

/** `edges`: {source, target, state, rate, bytes, behind, isOwn} of this file's flows, {…, heartbeatAge} of others. A `tall` one leads downwards, for a phone. */
export function drawMap(edges, tall) {
  const places = arrange(edges, tall);
  const xs = [...places.values()].map((place) => place.x);
  const ys = [...places.values()].map((place) => place.y);
  const width = Math.max(...xs) + BOX.width + (tall ? TALL.side : MARGIN);
  const height = Math.max(...ys) + BOX.height + MARGIN;
  const pairs = new Set(edges.map((edge) => `${edge.source} ${edge.target}`));
  const arrows = edges.map((edge) => arrow(edge, places, pairs.has(`${edge.target} ${edge.source}`), tall));
  const boxes = [...places].map(([alias, place]) => box(alias, place, edges));
  const told = edges.map((edge) => `${edge.source} to ${edge.target}: ${edge.state.toLowerCase()}, ${describe(edge).join(", ")}`);
  const svg = h("svg", { class: "map", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Topology. ${told.join(". ")}` }, tips(), arrows, boxes);
  svg.style.maxWidth = `${width * 1.05}px`;
  return svg;
}

function describe(edge) {
  if (!edge.isOwn) return [`heartbeat ${age(edge.heartbeatAge)} ago`];
  const lag = edge.behind === "not known" ? "lag not known" : `${edge.behind} behind`;
  return edge.rate === null ? ["rate not known", lag] : [perSecond(edge.rate), `${size(edge.bytes)}/s`, lag];
}

function tips() {
  const tip = (kind) => h("marker", { id: `tip-${kind}`, viewBox: "0 0 10 10", refX: 8, refY: 5, markerWidth: 7, markerHeight: 7, orient: "auto" }, h("path", { d: "M0 0 10 5 0 10z", class: `tip ${kind}` }));
  return h("defs", {}, ["ok", "bad", "warn", "idle"].map(tip));
}

/** Columns by the longest way from a cluster that nobody feeds; a way that leads back is not followed. */
function arrange(edges, tall) {
  const aliases = [...new Set(edges.flatMap((edge) => [edge.source, edge.target]))];
  const depth = new Map(aliases.map((alias) => [alias, 0]));
  const visit = (alias, path) => {
    for (const edge of edges) {
      if (edge.source !== alias || path.has(edge.target)) continue;
      if (depth.get(edge.target) > depth.get(alias)) continue;
      depth.set(edge.target, depth.get(alias) + 1);
      visit(edge.target, new Set([...path, edge.target]));
    }
  };
  const fed = new Set(edges.map((edge) => edge.target));
  const roots = aliases.filter((alias) => !fed.has(alias));
  for (const root of roots.length ? roots : aliases.slice(0, 1)) visit(root, new Set([root]));
  const columns = Map.groupBy ? Map.groupBy(aliases, (alias) => depth.get(alias)) : group(aliases, depth);
  const most = Math.max(...[...columns.values()].map((column) => column.length));
  const places = new Map();
  for (const [number, column] of columns) {
    column.forEach((alias, at) => places.set(alias, tall ? below(number, at, column.length, most) : beside(number, at, column.length, most)));
  }
  return places;
}

const beside = (column, at, count, most) => ({ x: MARGIN + column * COLUMN, y: MARGIN + at * LANE + ((most - count) * LANE) / 2 });
const below = (row, at, count, most) => ({ x: TALL.side + at * TALL.lane + ((most - count) * TALL.lane) / 2, y: MARGIN + row * TALL.step });

function group(aliases, depth) {
  const columns = new Map();
  for (const alias of aliases) columns.set(depth.get(alias), [...(columns.get(depth.get(alias)) ?? []), alias]);
  return columns;
}

function box(alias, place, edges) {
  const [from, into] = [edges.filter((edge) => edge.source === alias).length, edges.filter((edge) => edge.target === alias).length];
  const role = from && into ? "source and target" : from ? "source" : "target";
  return h(
    "g",
    { class: "node" },
    h("rect", { x: place.x, y: place.y, width: BOX.width, height: BOX.height, rx: 10 }),
    h("text", { x: place.x + BOX.width / 2, y: place.y + 24, class: "name" }, alias.length > 18 ? `${alias.slice(0, 17)}…` : alias, h("title", {}, alias)),
    h("text", { x: place.x + BOX.width / 2, y: place.y + 41, class: "role" }, role),
  );
}

function arrow(edge, places, both, tall) {
  const [a, b] = [places.get(edge.source), places.get(edge.target)];
  const kind = kindOf(edge);
  const { d, x, y, anchor, lower } = tall ? upright(a, b, both) : lying(a, b, both);
  const moving = edge.rate > 0 && (kind === "ok" || kind === "warn") ? h("path", { d, class: "pulse", "stroke-dashoffset": step() }) : null;
  const [rate, ...rest] = describe(edge);
  const label = (text, line, style) => h("text", { x, y: y + line, class: `${style} ${anchor}` }, text);
  const quiet = rest.length ? rest.join(" · ") : "";
  const oneLine = both && !tall;
  const labels = oneLine
    ? [h("text", { x, y: lower ? y + 19 : y - 9, class: "rate" }, rate, quiet && h("tspan", { class: "rest", dx: 8 }, quiet))]
    : [label(rate, tall ? -2 : -9, "rate"), ...(tall ? rest : [quiet]).filter(Boolean).map((text, at) => label(text, tall ? 13 + at * 14 : 19, "rest"))];
  return h("g", { class: `edge ${kind}` }, h("path", { d, class: "wire", "marker-end": `url(#tip-${kind})` }), moving, labels);
}

function kindOf(edge) {
  return edge.isOwn ? { RUNNING: "ok", BEHIND: "warn", UNKNOWN: "idle" }[edge.state] ?? "bad" : "idle";
}

/** From left to right; two that lead both ways run side by side, and within a column an arrow goes around. */
function lying(a, b, both) {
  const forward = a.x < b.x;
  const lift = both ? (forward ? -14 : 14) : 0;
  const [y1, y2] = [a.y + BOX.height / 2 + lift, b.y + BOX.height / 2 + lift];
  if (a.x === b.x) {
    const side = a.x + BOX.width;
    return { d: `M${side} ${y1}C${side + 90} ${y1} ${side + 90} ${y2} ${side + 3} ${y2}`, x: side + 90, y: (y1 + y2) / 2, anchor: "", lower: false };
  }
  const [x1, x2] = forward ? [a.x + BOX.width, b.x - 3] : [a.x, b.x + BOX.width + 3];
  const middle = (x1 + x2) / 2;
  return { d: `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`, x: middle, y: (y1 + y2) / 2, anchor: "", lower: both && !forward };
}

/** From top to bottom, the label beside the line. */
function upright(a, b, both) {
  const down = a.y <= b.y;
  const shift = both ? (down ? 16 : -16) : 0;
  const [x1, x2] = [a.x + BOX.width / 2 + shift, b.x + BOX.width / 2 + shift];
  const [y1, y2] = down ? [a.y + BOX.height, b.y - 3] : [a.y, b.y + BOX.height + 3];
  const middle = (y1 + y2) / 2;
  return { d: `M${x1} ${y1}C${x1} ${middle} ${x2} ${middle} ${x2} ${y2}`, x: (x1 + x2) / 2 + (down ? 10 : -10), y: middle - 4, anchor: down ? "right" : "left", lower: false };
}

/** The dots move on with each second: an animation would have the browser paint sixty times in it. */
const step = () => (still.matches ? 0 : -(Math.floor(Date.now() / 1000) % STEPS) * (DOTS / STEPS));

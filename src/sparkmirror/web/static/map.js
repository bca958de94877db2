// Who feeds whom, with live rates. Clusters stand in columns, from where records come to where they go.

import { h } from "./dom.js";
import { age, perSecond, size } from "./format.js";

const BOX = { width: 150, height: 54 };
const COLUMN = 380;
const LANE = 96;
const MARGIN = 20;

/** `edges`: {source, target, state, rate, bytes, lag, behind, heartbeatAge?}. */
export function drawMap(edges) {
  const places = arrange(edges);
  const xs = [...places.values()].map((place) => place.x);
  const ys = [...places.values()].map((place) => place.y);
  const width = Math.max(...xs) + BOX.width + MARGIN;
  const height = Math.max(...ys) + BOX.height + MARGIN;
  const pairs = new Set(edges.map((edge) => `${edge.source} ${edge.target}`));
  const arrows = edges.map((edge) => arrow(edge, places, pairs.has(`${edge.target} ${edge.source}`)));
  const boxes = [...places].map(([alias, place]) => box(alias, place, edges));
  const told = edges.map((edge) => `${edge.source} to ${edge.target}: ${edge.state.toLowerCase()}, ${describe(edge).join(", ")}`);
  const svg = h("svg", { class: "map", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Topology. ${told.join(". ")}` }, tips(), arrows, boxes);
  svg.style.maxWidth = `${width * 1.05}px`;
  return svg;
}

function describe(edge) {
  if (edge.rate === null) return [`heartbeat ${age(edge.heartbeatAge)} ago`];
  return [perSecond(edge.rate), `${size(edge.bytes)}/s`, edge.behind > 0 ? `${age(edge.behind)} behind` : "nothing behind"];
}

function tips() {
  const tip = (kind) => h("marker", { id: `tip-${kind}`, viewBox: "0 0 10 10", refX: 8, refY: 5, markerWidth: 7, markerHeight: 7, orient: "auto" }, h("path", { d: "M0 0 10 5 0 10z", class: `tip ${kind}` }));
  return h("defs", {}, ["ok", "bad", "warn", "idle"].map(tip));
}

/** Columns by the longest way from a cluster that nobody feeds; a way that leads back is not followed. */
function arrange(edges) {
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
    column.forEach((alias, at) => places.set(alias, { x: MARGIN + number * COLUMN, y: MARGIN + at * LANE + ((most - column.length) * LANE) / 2 }));
  }
  return places;
}

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

function arrow(edge, places, both) {
  const [a, b] = [places.get(edge.source), places.get(edge.target)];
  const kind = edge.rate === null ? "idle" : { RUNNING: "ok", PAUSED: "idle", STARTING: "idle", STOPPED: "idle", STOPPING: "idle" }[edge.state] ?? (edge.state === "BEHIND" ? "warn" : "bad");
  const forward = a.x < b.x;
  const lift = both ? (forward ? -14 : 14) : 0;
  let [x1, y1, x2, y2] = [a.x + BOX.width, a.y + BOX.height / 2 + lift, b.x - 3, b.y + BOX.height / 2 + lift];
  if (a.x > b.x) [x1, x2] = [a.x, b.x + BOX.width + 3];
  let d = `M${x1} ${y1}C${(x1 + x2) / 2} ${y1} ${(x1 + x2) / 2} ${y2} ${x2} ${y2}`;
  let [mx, my] = [(x1 + x2) / 2, (y1 + y2) / 2];
  if (a.x === b.x) {
    const side = a.x + BOX.width;
    d = `M${side} ${a.y + BOX.height / 2}C${side + 90} ${a.y + BOX.height / 2} ${side + 90} ${b.y + BOX.height / 2} ${side + 3} ${b.y + BOX.height / 2}`;
    [mx, my] = [side + 90, (a.y + b.y + BOX.height) / 2];
  }
  const moving = edge.rate > 0 && kind === "ok" ? h("path", { d, class: `pulse ${pace(edge.rate)}` }) : null;
  const [rate, ...rest] = describe(edge);
  const quiet = (text) => (rest.length ? h("tspan", { class: "rest", dx: 8 }, text) : null);
  const labels = both
    ? [h("text", { x: mx, y: forward ? my - 9 : my + 19, class: "rate" }, rate, quiet(rest.join(" · ")))]
    : [h("text", { x: mx, y: my - 9, class: "rate" }, rate), rest.length ? h("text", { x: mx, y: my + 19, class: "rest" }, rest.join(" · ")) : null];
  return h("g", { class: `edge ${kind}` }, h("path", { d, class: "wire", "marker-end": `url(#tip-${kind})` }), moving, labels);
}

const pace = (rate) => (rate > 50000 ? "fast" : rate > 500 ? "brisk" : "slow");

// The first view: the verdict as the server gives it, the problems, the map, the flows and what happened to them. What is
// judged here is one thing alone: whether anything was heard of the server lately.

import { badge, fill, h } from "./dom.js";
import { age, clock, count, moment, ms, perSecond, plural, short, size } from "./format.js";
import { drawMap } from "./map.js";
import { placeOf } from "./place.js";
import { drawTimeline } from "./timeline.js";

const EVENTS_SHOWN = 12;
const HEARTBEAT_OLD_SECONDS = 60;
const DAY_MS = 24 * 3_600_000;
const RECENT_MS = 300_000;
const SAMPLE_MS = 5000;
const DAY_SAMPLES_MIN = 3;
const narrow = matchMedia("(max-width: 760px)");
const VERDICTS = { equal: "equal", different: "DIFFERENT", unproven: "not proven equal" };
const NEEDY = ["FAILED", "WAITING", "PAUSED"];
const KINDS = { green: "ok", amber: "warn", unknown: "idle", red: "bad" };
const WORDS = { green: "well", amber: "look", unknown: "not known", red: "problem" };
const EDGES = { green: "RUNNING", amber: "BEHIND", unknown: "UNKNOWN", red: "FAILED" };

export class Overview {
  title = "Overview";

  #range = "";
  #drawn = new Map();
  #cards = new Map();
  #said = "";
  #wanted = "";

  constructor(live, orders) {
    Object.assign(this, { live, orders });
    this.verdict = h("p", { class: "verdict" });
    this.spoken = h("p", { class: "only-read", role: "status", "aria-live": "polite" });
    this.about = h("p", { class: "hint about" });
    this.map = h("div", { class: "map-box", tabindex: "0", role: "group", "aria-label": "Topology" });
    this.flows = h("div", { class: "flows" });
    this.needs = h("section", { class: "panel", "aria-label": "What needs you" });
    this.element = h("div", { class: "overview" }, this.verdict, this.spoken, this.needs, h("section", { class: "panel", "aria-label": "Topology" }, this.map), this.flows, this.about);
  }

  /** Scroll to the flow that an address names. */
  go([flow]) {
    this.#wanted = flow;
    this.show();
  }

  show() {
    const flows = this.live.flows();
    this.#judge();
    fill(this.map, flows.length ? drawMap([...flows.map((flow) => this.#edge(flow)), ...this.#others(flows)], narrow.matches) : h("p", { class: "none" }, "No flow has reported yet."));
    this.#flows(flows);
    this.#needs(flows);
    const about = this.live.part("about");
    if (about) fill(this.about, `SparkMirror ${about.version} with ${about.file}, process ${about.pid} on ${about.host}`);
    const wanted = this.#wanted && [...this.flows.children].find((card) => card.getAttribute("aria-label") === this.#wanted);
    if (!wanted || !this.element.isConnected) return;
    this.#wanted = "";
    wanted.scrollIntoView();
  }

  /** How far behind, in words; what is not known is said so. */
  behind(flow) {
    if (flow.lag_records === null || this.live.isStale) return "not known";
    if (flow.behind_since_ms === null) return flow.lag_records ? plural(flow.lag_records, "record") : "nothing";
    return age(Math.max(this.live.now - flow.behind_since_ms, 0) / 1000);
  }

  #judge() {
    const told = this.live.part("verdict") ?? { level: "unknown", sentence: "The mirror is starting" };
    const heard = `This page has heard nothing of the mirror since ${clock(this.live.now - this.live.silentMs)} UTC: what it shows is old`;
    const [level, sentence] = this.live.isStale ? ["unknown", heard] : [told.level, told.sentence];
    this.verdict.className = `verdict ${KINDS[level]}`;
    fill(this.verdict, h("span", { class: "dot", "aria-hidden": "true" }), " ", h("strong", {}, `${sentence}.`));
    this.#speak(`${sentence}.`);
    const title = `${level === "red" ? "⚠ " : level === "unknown" ? "? " : ""}${sentence} – SparkMirror`;
    if (document.title !== title) document.title = title;
  }

  /** Read aloud once: figures that change every second are no news. */
  #speak(sentence) {
    const same = sentence.replace(/\d[\d,.:]*/g, "#");
    if (same === this.#said) return;
    this.#said = same;
    this.spoken.textContent = sentence;
  }

  #edge(flow) {
    const state = this.live.isStale ? "UNKNOWN" : EDGES[flow.verdict.level];
    const rate = this.live.isStale ? null : flow.records_per_second;
    return { source: flow.source, target: flow.target, state, rate, bytes: flow.bytes_per_second, behind: this.behind(flow), isOwn: true };
  }

  /** Mirrors that are not this file's, by the heartbeats that arrive: whether one runs is not known when none has come for long. */
  #others(flows) {
    const own = new Set(flows.map((flow) => `${flow.source} ${flow.target}`));
    const feeds = [...this.live.parts].filter(([name]) => name.startsWith("feeds/")).flatMap(([, told]) => told);
    const found = new Map(feeds.filter((feed) => feed.arrives && !own.has(`${feed.source} ${feed.target}`)).map((feed) => [`${feed.source} ${feed.target}`, feed]));
    const ages = [...found.values()].map((feed) => [feed, Math.max(this.live.now - feed.at_ms, 0) / 1000]);
    return ages.map(([feed, seconds]) => ({ source: feed.source, target: feed.target, state: this.live.isStale || seconds > HEARTBEAT_OLD_SECONDS ? "UNKNOWN" : "RUNNING", rate: null, heartbeatAge: seconds }));
  }

  /** A card stays in the document, and in it whatever has not changed. */
  #flows(flows) {
    const active = document.activeElement?.dataset?.focus;
    const cards = flows.map((flow) => this.#card(flow));
    if (cards.length !== this.flows.children.length || cards.some((card, at) => card !== this.flows.children[at])) this.flows.replaceChildren(...cards);
    if (active && document.activeElement === document.body) this.flows.querySelector(`[data-focus="${CSS.escape(active)}"]`)?.focus();
  }

  #card(flow) {
    if (!this.#cards.has(flow.name)) this.#cards.set(flow.name, makeCard(flow.name));
    const card = this.#cards.get(flow.name);
    const held = flow.counts.PAUSED > 0;
    const rest = held && flow.counts.PAUSED < flow.partitions ? h("button", { type: "button", class: "button", "data-focus": `rest ${flow.name}`, onclick: () => this.orders.give("pause", { flow: flow.name }) }, "Pause the rest", h("span", { class: "only-read" }, ` of ${flow.name}`)) : null;
    const button = h("button", { type: "button", class: "button", "data-focus": flow.name, onclick: () => this.orders.give(held ? "resume" : "pause", { flow: flow.name }) }, held ? "Resume" : "Pause", h("span", { class: "only-read" }, ` ${flow.name}`));
    fill(card.head, h("h2", {}, h("a", { class: "self", href: placeOf("overview", flow.name), "data-focus": `self ${flow.name}` }, flow.name)), badge(this.live.isStale ? "not known" : flow.state), h("span", { class: "grow" }), rest, button);
    this.#curves(flow, card);
    this.#facts(flow, card);
    fill(card.events, this.#events(flow));
    return card.element;
  }

  #facts(flow, card) {
    const running = flow.processes !== 1 ? plural(flow.processes, "process", "processes") : flow.host;
    const needy = NEEDY.filter((state) => flow.counts[state]);
    const facts = [
      ["behind", this.behind(flow)],
      ["latency p50 / p99", `${ms(flow.latency.p50)} / ${ms(flow.latency.p99)}`],
      ["throughput", `${size(flow.bytes_per_second)}/s`],
      ["mirrored", `${short(flow.records)} · ${size(flow.bytes)}`],
      ["partitions", h("span", {}, count(flow.partitions), needy.map((state) => [" ", badge(state, `${count(flow.counts[state])} ${state.toLowerCase()}`)])), needy.length ? "two" : ""],
      flow.identical || flow.unclear ? ["offsets", `identical in ${plural(flow.identical, "partition")}${flow.unclear ? ` (of ${count(flow.unclear)} it is not known)` : ""}`] : null,
      flow.filling ? ["offsets being filled", `in ${plural(flow.filling, "partition")}`] : null,
      ["gaps not acknowledged", flow.gaps ? `${plural(flow.gaps, "gap")}, ${plural(flow.lost_records, "offset")}` : "none", flow.gaps ? "warn" : ""],
      ["held back", this.#pauses(flow), this.#pauses(flow) === "no" ? "" : "two"],
      flow.verify ? ["compared", this.#compared(flow.verify), flow.verify.verdict === "equal" ? "two" : "two warn"] : null,
      ["running for", flow.started_at_ms ? `${age((this.live.now - flow.started_at_ms) / 1000)} · ${running}` : "–"],
    ].filter(Boolean);
    const shape = facts.map(([name, , kind = ""]) => `${name} ${kind}`).join();
    if (card.shape !== shape) {
      card.shape = shape;
      card.facts.replaceChildren(...facts.map(([name, , kind = ""]) => h("div", { class: `fact ${kind}` }, h("dt", {}, name), h("dd", {}))));
    }
    facts.forEach(([, value], at) => fill(card.facts.children[at].lastChild, value));
  }

  /** Rate and lag with what happened, of the last day or of the last minutes. */
  #curves(flow, card) {
    const history = this.live.part(`history/${flow.name}`) ?? { samples: [], events: [], step_ms: RECENT_MS };
    const recent = this.live.part(`recent/${flow.name}`) ?? [];
    const range = this.#range || (history.samples.length >= DAY_SAMPLES_MIN ? "day" : "recent");
    const button = (name, text) => h("button", { type: "button", class: "chip", "aria-pressed": String(range === name), "data-focus": `${name} ${flow.name}`, onclick: () => ((this.#range = name), this.show()) }, text, h("span", { class: "only-read" }, ` of ${flow.name}`));
    fill(card.now, "now ", h("b", {}, perSecond(flow.records_per_second)), ", lag ", h("b", {}, lagText(flow)));
    fill(card.ranges, button("day", "24 h"), button("recent", "5 min"));
    const drawn = this.#timeline(flow.name, range, history, recent);
    if (card.drawn !== drawn) card.drawn.replaceWith(drawn);
    card.drawn = drawn;
  }

  /** Drawn again only when there is something new in it. */
  #timeline(name, range, history, recent) {
    const width = Math.max(Math.min(this.element.clientWidth || 1000, 1500) - (narrow.matches ? 28 : 38), 280);
    const known = this.#drawn.get(name);
    const latest = recent.at(-1);
    if (known && known.history === history && known.latest === latest && known.range === range && known.width === width) return known.svg;
    const to = latest ? latest[0] : this.live.now;
    const day = [...history.samples.map(([at, rate, lag]) => [at + history.step_ms / 2, rate, lag]), ...(latest ? [latest] : [])];
    const [points, from, step] = range === "day" ? [day, to - DAY_MS, history.step_ms] : [recent, to - RECENT_MS, SAMPLE_MS];
    const most = (at) => Math.max(0, ...points.map((point) => point[at] ?? 0));
    const label = `Rate and lag of ${name} in the last ${range === "day" ? "24 hours" : "five minutes"}: at most ${perSecond(most(1))} and ${plural(most(2), "record")}. What happened is listed below.`;
    const panels = [["records/s", "rate", 1], ["lag, records", "lag", 2]].map(([title, kind, at]) => ({ title, kind, points: points.map((point) => [point[0], point[at]]) }));
    const svg = drawTimeline({ panels, events: history.events, from, to, step, width, label });
    this.#drawn.set(name, { history, latest, range, width, svg });
    return svg;
  }

  /** What slows the flow on purpose: in the last minute, and in all. */
  #pauses(flow) {
    const causes = [["source quota", "source_throttled_ms"], ["target quota", "throttled_ms"], ["own limit", "limited_ms"]];
    const told = ([name, key]) => `${name} ${age((flow.held_back_lately[key] ?? 0) / 1000)} of the last minute, ${age(flow[key] / 1000)} in all`;
    return causes.filter(([, key]) => flow[key]).map(told).join("; ") || "no";
  }

  #compared(found) {
    const sampled = found.sample_percent < 100 ? ` in a sample of ${found.sample_percent}\u00a0%` : "";
    const before = found.rounds_different && found.verdict !== "different" ? `; ${count(found.rounds_different)} of ${plural(found.rounds, "round")} differed` : "";
    return `${VERDICTS[found.verdict] ?? found.verdict}, ${short(found.records)} records${sampled}, ${age(this.#since(found.at_ms))} ago${before}`;
  }

  #since(at) {
    return Math.max(this.live.now - at, 0) / 1000;
  }

  /** What happened, the latest first. */
  #events(flow) {
    const events = this.live.part(`history/${flow.name}`)?.events ?? [];
    if (!events.length) return null;
    const line = (event) => h("li", {}, h("time", { datetime: new Date(event.at_ms).toISOString() }, moment(event.at_ms)), h("b", {}, event.kind), h("span", { class: "text" }, event.text, event.times > 1 ? h("em", {}, ` ${event.times} times`) : ""));
    const [shown, more] = [events.slice(0, EVENTS_SHOWN), events.slice(EVENTS_SHOWN)];
    return [h("h3", {}, "What happened (UTC)"), h("ol", { class: "events" }, shown.map(line)), more.length ? h("details", {}, h("summary", {}, `${plural(more.length, "earlier event")}`), h("ol", { class: "events" }, more.map(line))) : null];
  }

  #needs(flows) {
    const found = flows.flatMap((flow) => flow.verdict.problems.map((problem) => ({ ...problem, flow: flow.name })));
    this.needs.hidden = !found.length || this.live.isStale;
    fill(this.needs, h("h2", {}, "What needs you"), h("ul", { class: "problems" }, found.map((problem) => this.#problem(problem, flows.length > 1))));
  }

  #problem(problem, several) {
    const times = [problem.since_ms ? `since ${moment(problem.since_ms)} UTC` : "", problem.retry_at_ms ? `next try at ${clock(problem.retry_at_ms)} UTC` : ""].filter(Boolean);
    return h(
      "li",
      {},
      badge(problem.level, WORDS[problem.level]),
      h("div", {}, h("p", {}, several ? h("b", {}, `${problem.flow} `) : null, problem.sentence, times.length ? h("span", { class: "hint" }, ` ${times.join(", ")}`) : null), problem.command ? h("p", { class: "mend" }, h("code", {}, problem.command.split(" ").map((word) => [h("span", { class: "word" }, word), " "])), copyButton(problem.command)) : null, problem.page ? h("p", { class: "hint" }, `see docs/${problem.page}`) : null),
    );
  }
}

/** The places of a flow's card, each filled by itself. */
function makeCard(name) {
  const [head, now, events, drawn] = [h("header"), h("p", { class: "now" }), h("div"), h("svg")];
  const ranges = h("div", { class: "chips", role: "group", "aria-label": "Time shown" });
  const facts = h("dl", { class: "facts" });
  const element = h("article", { class: "panel flow", "aria-label": name }, head, h("div", { class: "toolbar range" }, now, h("span", { class: "grow" }), ranges), drawn, facts, events);
  return { element, head, now, ranges, drawn, facts, events, shape: "" };
}

const lagText = (flow) => (flow.lag_records === null ? "not known" : count(flow.lag_records));

function copyButton(text) {
  const button = h("button", { type: "button", class: "button small", "aria-label": `Copy ${text}`, "data-focus": `copy ${text}` }, "Copy");
  button.addEventListener("click", async () => {
    await copyText(text);
    button.textContent = "Copied";
  });
  return button;
}

/** In plain HTTP off loopback browsers have no clipboard for scripts: the old way is left. */
async function copyText(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = h("textarea", {}, text);
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
  return undefined;
}

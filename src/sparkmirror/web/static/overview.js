// The first view: the verdict as the server gives it, the problems, the map, the flows and what happened to them. What is
// judged here is one thing alone: whether anything was heard of the server lately.

import { curve } from "./curve.js";
import { badge, fill, h } from "./dom.js";
import { age, clock, count, moment, ms, perSecond, plural, short, size } from "./format.js";
import { drawMap } from "./map.js";

const EVENTS_SHOWN = 12;
const narrow = matchMedia("(max-width: 760px)");
const VERDICTS = { equal: "equal", different: "DIFFERENT", unproven: "not proven equal" };
const NEEDY = ["FAILED", "WAITING", "PAUSED"];
const KINDS = { green: "ok", amber: "warn", unknown: "idle", red: "bad" };
const WORDS = { green: "well", amber: "look", unknown: "not known", red: "problem" };
const EDGES = { green: "RUNNING", amber: "BEHIND", unknown: "UNKNOWN", red: "FAILED" };

export class Overview {
  title = "Overview";

  constructor(live, orders, go) {
    Object.assign(this, { live, orders, go });
    this.verdict = h("p", { class: "verdict", role: "status", "aria-live": "polite" });
    this.map = h("div", { class: "map-box", tabindex: "0", role: "group", "aria-label": "Topology" });
    this.flows = h("div", { class: "flows" });
    this.needs = h("section", { class: "panel", "aria-label": "What needs you" });
    this.element = h("div", { class: "overview" }, this.verdict, this.needs, h("section", { class: "panel", "aria-label": "Topology" }, this.map), this.flows);
  }

  show() {
    const flows = this.live.flows();
    this.#judge();
    fill(this.map, flows.length ? drawMap([...flows.map((flow) => this.#edge(flow)), ...this.#others(flows)], narrow.matches) : h("p", { class: "none" }, "No flow has reported yet."));
    this.#flows(flows);
    this.#needs(flows);
  }

  /** How far behind, in words; what is not known is said so. */
  behind(flow) {
    if (flow.lag_records === null || this.live.isStale) return "not known";
    return flow.behind_since_ms === null ? "nothing" : age(Math.max(this.live.now - flow.behind_since_ms, 0) / 1000);
  }

  #judge() {
    const told = this.live.part("verdict") ?? { level: "unknown", sentence: "The mirror is starting" };
    const heard = `This page has heard nothing of the mirror since ${clock(this.live.now - this.live.silentMs)} UTC: what it shows is old`;
    const [level, sentence] = this.live.isStale ? ["unknown", heard] : [told.level, told.sentence];
    this.verdict.className = `verdict ${KINDS[level]}`;
    fill(this.verdict, h("span", { class: "dot", "aria-hidden": "true" }), " ", h("strong", {}, `${sentence}.`));
    document.title = `${level === "red" ? "⚠ " : level === "unknown" ? "? " : ""}${sentence} – SparkMirror`;
  }

  #edge(flow) {
    const state = this.live.isStale ? "UNKNOWN" : EDGES[flow.verdict.level];
    const rate = this.live.isStale ? null : flow.records_per_second;
    return { source: flow.source, target: flow.target, state, rate, bytes: flow.bytes_per_second, behind: this.behind(flow), isOwn: true };
  }

  /** Mirrors that are not this file's, by the heartbeats that arrive. */
  #others(flows) {
    const own = new Set(flows.map((flow) => `${flow.source} ${flow.target}`));
    const feeds = [...this.live.parts].filter(([name]) => name.startsWith("feeds/")).flatMap(([, told]) => told);
    const found = new Map(feeds.filter((feed) => feed.arrives && !own.has(`${feed.source} ${feed.target}`)).map((feed) => [`${feed.source} ${feed.target}`, feed]));
    return [...found.values()].map((feed) => ({ source: feed.source, target: feed.target, state: "RUNNING", rate: null, heartbeatAge: Math.max(this.live.now - feed.at_ms, 0) / 1000 }));
  }

  #flows(flows) {
    const active = document.activeElement?.dataset?.focus;
    fill(this.flows, flows.map((flow) => this.#card(flow)));
    if (active && document.activeElement === document.body) this.flows.querySelector(`[data-focus="${CSS.escape(active)}"]`)?.focus();
  }

  #card(flow) {
    const held = flow.counts.PAUSED > 0;
    const fact = (name, value, kind = "") => h("div", { class: `fact ${kind}` }, h("dt", {}, name), h("dd", {}, value));
    const behind = this.behind(flow);
    const rest = held && flow.counts.PAUSED < flow.partitions ? h("button", { type: "button", class: "button", "data-focus": `rest ${flow.name}`, onclick: () => this.orders.give("pause", { flow: flow.name }) }, "Pause the rest", h("span", { class: "only-read" }, ` of ${flow.name}`)) : null;
    const button = h("button", { type: "button", class: "button", "data-focus": flow.name, onclick: () => this.orders.give(held ? "resume" : "pause", { flow: flow.name }) }, held ? "Resume" : "Pause", h("span", { class: "only-read" }, ` ${flow.name}`));
    return h(
      "article",
      { class: "panel flow", "aria-label": flow.name },
      h("header", {}, h("h2", {}, flow.name), badge(this.live.isStale ? "not known" : flow.state), h("span", { class: "grow" }), rest, button),
      h(
        "div",
        { class: "curves" },
        h("figure", {}, h("figcaption", {}, "records/s ", h("b", {}, perSecond(flow.records_per_second))), curve(flow.rates, { width: 240, height: 44, label: `Rate of the last five minutes, now ${perSecond(flow.records_per_second)}` })),
        h("figure", {}, h("figcaption", {}, "lag ", h("b", {}, lagText(flow))), curve(flow.lags, { width: 240, height: 44, kind: "lag", label: `Lag of the last five minutes, now ${lagText(flow)}` })),
      ),
      h(
        "dl",
        { class: "facts" },
        fact("behind", behind),
        fact("latency p50 / p99", `${ms(flow.latency.p50)} / ${ms(flow.latency.p99)}`),
        fact("throughput", `${size(flow.bytes_per_second)}/s`),
        fact("mirrored", `${short(flow.records)} · ${size(flow.bytes)}`),
        fact("partitions", h("span", {}, count(flow.partitions), NEEDY.filter((state) => flow.counts[state]).map((state) => [" ", badge(state, `${count(flow.counts[state])} ${state.toLowerCase()}`)])), NEEDY.some((state) => flow.counts[state]) ? "two" : ""),
        fact("gaps not acknowledged", flow.gaps ? `${count(flow.gaps)}, ${plural(flow.lost_records, "offset")}` : "none", flow.gaps ? "warn" : ""),
        fact("held back", this.#pauses(flow)),
        flow.verify ? fact("compared", this.#compared(flow.verify), flow.verify.verdict === "equal" ? "two" : "two warn") : null,
        fact("running for", flow.started_at_ms ? `${age((this.live.now - flow.started_at_ms) / 1000)} · ${flow.processes !== 1 ? plural(flow.processes, "process", "processes") : flow.host}` : "–"),
      ),
      this.#events(flow),
    );
  }

  #pauses(flow) {
    const causes = [["source quota", flow.source_throttled_ms], ["target quota", flow.throttled_ms], ["own limit", flow.limited_ms]];
    return causes.filter(([, held]) => held).map(([name, held]) => `${name} ${age(held / 1000)}`).join(", ") || "no";
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
    const events = this.live.part(`events/${flow.name}`) ?? [];
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
      h("div", {}, h("p", {}, several ? h("b", {}, `${problem.flow} `) : null, problem.sentence, times.length ? h("span", { class: "hint" }, ` ${times.join(", ")}`) : null), problem.command ? h("p", { class: "mend" }, h("code", {}, problem.command), copyButton(problem.command)) : null, problem.page ? h("p", { class: "hint" }, `see docs/${problem.page}`) : null),
    );
  }
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

// The first view: the verdict in a sentence, the map, the flows, and what needs a person.

import { curve } from "./curve.js";
import { badge, fill, h } from "./dom.js";
import { age, clock, count, ms, perSecond, plural, short, size } from "./format.js";
import { lagOf } from "./live.js";
import { drawMap } from "./map.js";

const SHOWN = 8;
const SLOW_SECONDS = 60;
const narrow = matchMedia("(max-width: 760px)");
const VERDICTS = { equal: "equal", different: "DIFFERENT", unproven: "not proven equal" };
const NEEDY = ["FAILED", "WAITING", "PAUSED"];

export class Overview {
  title = "Overview";

  constructor(live, orders, go) {
    Object.assign(this, { live, orders, go });
    this.verdict = h("p", { class: "verdict" });
    this.map = h("div", { class: "map-box", tabindex: "0", role: "group", "aria-label": "Topology" });
    this.flows = h("div", { class: "flows" });
    this.needs = h("section", { class: "panel", "aria-label": "What needs you" });
    this.element = h("div", { class: "overview" }, this.verdict, h("section", { class: "panel", "aria-label": "Topology" }, this.map), this.flows, this.needs);
  }

  show() {
    const flows = this.live.flows();
    this.#judge(flows);
    fill(this.map, flows.length ? drawMap([...flows.map((flow) => this.#edge(flow)), ...this.#others(flows)], narrow.matches) : h("p", { class: "none" }, "No flow has reported yet."));
    this.#flows(flows);
    this.#needs(flows);
  }

  behind(flow) {
    return flow.behind_since_ms === null ? 0 : Math.max(this.live.now - flow.behind_since_ms, 0) / 1000;
  }

  #judge(flows) {
    const failed = flows.reduce((sum, flow) => sum + flow.counts.FAILED, 0);
    const down = flows.filter((flow) => !["RUNNING", "STARTING"].includes(flow.state));
    const paused = flows.reduce((sum, flow) => sum + flow.counts.PAUSED, 0);
    const waiting = flows.reduce((sum, flow) => sum + flow.counts.WAITING, 0);
    const rate = flows.reduce((sum, flow) => sum + flow.records_per_second, 0);
    const worst = Math.max(0, ...flows.map((flow) => this.behind(flow)));
    const trouble = [];
    if (down.length) trouble.push(`${down.map((flow) => `${flow.name} is ${flow.state.toLowerCase()}`).join(", ")}`);
    if (failed) trouble.push(`${plural(failed, "partition")} failed`);
    if (waiting) trouble.push(`${plural(waiting, "partition")} ${waiting === 1 ? "waits" : "wait"} for the source`);
    const differing = flows.filter((flow) => flow.verify?.verdict === "different");
    if (differing.length) trouble.push(`${differing.map((flow) => flow.name).join(", ")} ${differing.length === 1 ? "was" : "were"} found to differ`);
    const figures = `${perSecond(rate)}${worst ? `, at most ${age(worst)} behind` : ", nothing behind"}${paused ? `, ${count(paused)} paused by order` : ""}`;
    const starting = flows.some((flow) => flow.state === "STARTING");
    const kind = !flows.length || (starting && !trouble.length) ? "idle" : failed || down.length || differing.length ? "bad" : waiting || worst > SLOW_SECONDS ? "warn" : "ok";
    const sentence = trouble.length ? trouble.join("; ") : !flows.length || starting ? "The mirror is starting" : flows.length === 1 ? `${flows[0].name} is mirroring` : `All ${flows.length} flows are mirroring`;
    this.verdict.className = `verdict ${kind}`;
    fill(this.verdict, h("span", { class: "dot", "aria-hidden": "true" }), " ", h("strong", {}, `${sentence}.`), " ", h("span", { class: "figures" }, figures));
    document.title = `${kind === "bad" ? "⚠ " : ""}${sentence} – SparkMirror`;
  }

  #edge(flow) {
    const halted = flow.counts.PAUSED && flow.counts.PAUSED === flow.partitions;
    const state = flow.state !== "RUNNING" ? flow.state : halted ? "PAUSED" : flow.counts.FAILED || flow.counts.WAITING || this.behind(flow) > SLOW_SECONDS ? "BEHIND" : "RUNNING";
    return { source: flow.source, target: flow.target, state, rate: flow.records_per_second, bytes: flow.bytes_per_second, behind: this.behind(flow) };
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
    const button = h("button", { type: "button", class: "button", "data-focus": flow.name, onclick: () => this.orders.give(held ? "resume" : "pause", { flow: flow.name }) }, held ? "Resume" : "Pause", h("span", { class: "only-read" }, ` ${flow.name}`));
    return h(
      "article",
      { class: "panel flow", "aria-label": flow.name },
      h("header", {}, h("h2", {}, flow.name), badge(flow.state), h("span", { class: "grow" }), button),
      flow.reason ? h("p", { class: "reason" }, flow.reason, flow.retry_at_ms ? ` Next try at ${clock(flow.retry_at_ms)}.` : "") : null,
      [flow.unseen, flow.problem].filter(Boolean).map((sentence) => h("p", { class: "reason" }, sentence)),
      h(
        "div",
        { class: "curves" },
        h("figure", {}, h("figcaption", {}, "records/s ", h("b", {}, perSecond(flow.records_per_second))), curve(flow.rates, { width: 240, height: 44, label: `Rate of the last five minutes, now ${perSecond(flow.records_per_second)}` })),
        h("figure", {}, h("figcaption", {}, "lag ", h("b", {}, count(flow.lag_records))), curve(flow.lags, { width: 240, height: 44, kind: "lag", label: `Lag of the last five minutes, now ${count(flow.lag_records)} records` })),
      ),
      h(
        "dl",
        { class: "facts" },
        fact("behind", behind ? age(behind) : "nothing", behind > SLOW_SECONDS ? "warn" : ""),
        fact("latency p50 / p99", `${ms(flow.latency.p50)} / ${ms(flow.latency.p99)}`),
        fact("throughput", `${size(flow.bytes_per_second)}/s`),
        fact("mirrored", `${short(flow.records)} · ${size(flow.bytes)}`),
        fact("partitions", h("span", {}, count(flow.partitions), NEEDY.filter((state) => flow.counts[state]).map((state) => [" ", badge(state, `${count(flow.counts[state])} ${state.toLowerCase()}`)])), NEEDY.some((state) => flow.counts[state]) ? "two" : ""),
        fact("gaps", flow.gaps ? `${count(flow.gaps)}, ${count(flow.lost_records)} offsets` : "none", flow.gaps ? "warn" : ""),
        fact("held back", this.#pauses(flow)),
        flow.verify ? fact("compared", this.#compared(flow.verify), flow.verify.verdict === "equal" ? "two" : "two warn") : null,
        fact("running for", flow.started_at_ms ? `${age((this.live.now - flow.started_at_ms) / 1000)} · ${flow.processes > 1 ? plural(flow.processes, "process", "processes") : flow.host}` : "–"),
      ),
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

  #differences(flows) {
    return flows.filter((flow) => flow.verify?.first_difference).map(({ name, verify: found }) => {
      const when = found.different_at_ms ? `, found ${age(this.#since(found.different_at_ms))} ago by sparkmirror verify` : "";
      return h("li", {}, badge("FAILED", "DIFFERENT"), h("b", {}, name), h("span", { class: "why" }, `${found.first_difference}${when}`));
    });
  }

  #needs(flows) {
    const rows = this.live.rows("partitions").filter((row) => NEEDY.includes(row.state));
    rows.sort((a, b) => NEEDY.indexOf(a.state) - NEEDY.indexOf(b.state) || (lagOf(b) ?? 0) - (lagOf(a) ?? 0));
    const jobs = flows.flatMap((flow) => flow.jobs.filter((job) => job.state === "FAILED").map((job) => ({ ...job, flow: flow.name })));
    const items = [
      ...this.#differences(flows),
      ...jobs.map((job) => h("li", {}, badge("FAILED"), h("b", {}, `${job.flow} ${job.name}`), h("span", { class: "why" }, job.reason))),
      ...rows.slice(0, SHOWN).map((row) => h("li", {}, badge(row.state), h("b", {}, `${row.topic}-${row.partition}`), h("span", { class: "why" }, row.reason || "held by order", row.retryAt ? ` · next try at ${clock(row.retryAt)}` : ""))),
    ];
    const more = rows.length > SHOWN ? h("p", { class: "more" }, h("a", { href: "#partitions" }, `all ${count(rows.length)} in Partitions`)) : null;
    this.needs.hidden = !items.length;
    fill(this.needs, h("h2", {}, "What needs you"), h("ul", { class: "needs" }, items), more);
  }
}

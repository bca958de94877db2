// The long lists: partitions, gaps and the log's failures.

import { curve } from "./curve.js";
import { badge, fill, h, openDialog } from "./dom.js";
import { age, clock, count, moment, ms, perSecond, plural, size } from "./format.js";
import { fillingOf, lagOf } from "./live.js";
import { placeOf } from "./place.js";
import { matcher, search } from "./search.js";
import { LongTable } from "./table.js";
import { drawTimeline } from "./timeline.js";

const CURVES_EVERY_MS = 5000;
const SAMPLE_MS = 5000;
const RANK = { FAILED: 0, WAITING: 1, PAUSED: 2, RUNNING: 3 };

export class Partitions {
  title = "Partitions";
  #curves = new Map();
  #askedAt = 0;
  #asking = false;
  #wanted = null;
  #listed = null;
  #ordered = [];

  constructor(live, orders) {
    Object.assign(this, { live, orders });
    this.state = "";
    this.field = search("Find a topic, flow or reason  ( / )", () => this.show());
    this.chips = h("div", { class: "chips", role: "group", "aria-label": "State" });
    this.flow = h("select", { "aria-label": "Flow", onchange: () => this.show() });
    this.table = new LongTable({
      label: "Partitions",
      empty: "No partition is like that.",
      open: (row) => this.#open(row),
      settle: () => this.#ask(),
      stamp: (row) => `${row.changed} ${row.behindSince ? age(this.#behind(row)) : ""} ${this.#curves.get(row.id)?.text ?? ""} ${this.#filling(row)}`,
      columns: [
        { title: "Topic", width: "minmax(140px, 2.2fr)", phone: "minmax(0, 1fr)", order: (row) => row.topic, cell: (row) => h("span", { class: "name", title: row.topic }, row.topic) },
        { title: "#", width: "52px", phone: "36px", number: true, order: (row) => row.partition, cell: (row) => row.partition },
        { title: "State", width: "92px", phone: "76px", order: (row) => RANK[row.state], cell: (row) => badge(row.state) },
        { title: "Lag", width: "96px", phone: "72px", number: true, order: lagOf, cell: (row) => (lagOf(row) === null ? "not known" : count(lagOf(row))) },
        { title: "Behind", width: "78px", number: true, wide: true, order: (row) => this.#behind(row), cell: (row) => (row.behindSince ? age(this.#behind(row)) : "–") },
        { title: "Lag, 5 min", width: "116px", wide: true, cell: (row) => this.#curve(row) },
        { title: "Rate", width: "92px", number: true, wide: true, order: (row) => row.rate, cell: (row) => (row.rate ? perSecond(row.rate) : "–") },
        { title: "Latency", width: "82px", number: true, wide: true, order: (row) => row.latency, cell: (row) => ms(row.latency) },
        { title: "Next offset", width: "118px", number: true, wide: true, order: (row) => row.offset, cell: (row) => count(row.offset) },
        { title: "Flow", width: "minmax(112px, .8fr)", wide: true, order: (row) => row.flow, cell: (row) => row.flow },
        { title: "Why", width: "minmax(60px, 1.6fr)", wide: true, cell: (row) => h("span", { class: "why", title: row.reason || this.#filling(row) }, row.reason || this.#filling(row)) },
      ],
    });
    this.element = h("div", { class: "list" }, h("div", { class: "toolbar" }, this.field, this.flow, this.chips), this.table.element);
  }

  /** Open the partition that an address names, or only show its topic's. */
  go([flow, topic, partition]) {
    if (topic === undefined) return;
    this.field.value = partition === undefined ? topic : `${topic}-${partition}`;
    this.#wanted = partition === undefined ? null : { flow, topic, partition: Number(partition) };
    this.state = "";
    this.show();
  }

  #behind(row) {
    return row.behindSince ? Math.max(this.live.now - row.behindSince, 0) / 1000 : 0;
  }

  /** How far offsets without a record are filled; "" where none are. */
  #filling(row) {
    const found = fillingOf(row, this.live);
    if (!found) return "";
    const what = found.isStart ? "start" : "hole";
    if (found.reached === null) return `${what} up to offset ${count(found.stop)}: how far it is filled is not known`;
    const left = found.secondsLeft === null ? "time left not known" : `${age(found.secondsLeft)} left`;
    return `${what}: ${count(found.reached)} of ${count(found.stop)} offsets filled, ${found.percent.toFixed(1)} %, ${perSecond(found.rate)}, ${left}`;
  }

  show() {
    const flows = this.live.flows().map((flow) => flow.name);
    const chosen = this.flow.value;
    fill(this.flow, h("option", { value: "" }, "all flows"), flows.map((name) => h("option", { value: name }, name)));
    this.flow.value = flows.includes(chosen) ? chosen : "";
    this.flow.hidden = flows.length < 2;
    this.table.leave("Flow", flows.length < 2);
    const found = this.#find();
    const states = { "": found.length, FAILED: 0, WAITING: 0, PAUSED: 0, BEHIND: 0 };
    const [needy, others] = [[], []];
    for (const row of found) {
      const lag = lagOf(row);
      if (row.state in states) states[row.state] += 1;
      if (lag) states.BEHIND += 1;
      if (!this.state || row.state === this.state || (this.state === "BEHIND" && lag)) (lag || row.state !== "RUNNING" ? needy : others).push(row);
    }
    this.#chips(states);
    needy.sort((a, b) => RANK[a.state] - RANK[b.state] || (lagOf(b) ?? 0) - (lagOf(a) ?? 0) || byName(a, b));
    const rows = [...needy, ...others];
    this.table.show(rows);
    this.#ask();
    const wanted = this.#wanted;
    const row = wanted && rows.find((one) => one.flow === wanted.flow && one.topic === wanted.topic && one.partition === wanted.partition);
    if (!row) return;
    this.#wanted = null;
    this.table.choose(row.id);
    this.#open(row);
  }

  /** The rows that are sought, by their names: thousands of them are put in order only when one comes or goes. */
  #find() {
    const all = this.live.rows("partitions");
    if (all !== this.#listed) [this.#listed, this.#ordered] = [all, [...all].sort(byName)];
    if (!this.field.value.trim() && !this.flow.value) return this.#ordered;
    const matches = matcher(this.field.value);
    return this.#ordered.filter((row) => (!this.flow.value || row.flow === this.flow.value) && matches(row.topic, row.flow, row.reason, `${row.topic}-${row.partition}`));
  }

  #chips(states) {
    const names = { "": "All", FAILED: "Failed", WAITING: "Waiting", PAUSED: "Paused", BEHIND: "Behind" };
    const focused = document.activeElement?.dataset?.state;
    const choose = (state) => () => {
      this.state = state;
      this.show();
    };
    const chip = (state) => h("button", { type: "button", class: "chip", "data-state": state, "aria-pressed": String(this.state === state), onclick: choose(state) }, names[state], " ", h("b", {}, count(states[state])));
    fill(this.chips, Object.keys(names).map(chip));
    if (focused !== undefined) this.chips.querySelector(`[data-state="${focused}"]`)?.focus();
  }

  #curve(row) {
    const values = this.#curves.get(row.id)?.values ?? [];
    return curve(values, { kind: "lag", label: values.length ? `Lag of the last five minutes: at most ${count(Math.max(...values.filter((value) => value !== null)))}` : "No lag in the last five minutes" });
  }

  /** The curves of the rows in sight, every few seconds. */
  async #ask() {
    if (this.#asking || !this.element.isConnected) return;
    const rows = this.table.visible;
    const fresh = rows.some((row) => !this.#curves.has(row.id));
    if (!rows.length || (!fresh && Date.now() - this.#askedAt < CURVES_EVERY_MS)) return;
    this.#asking = true;
    this.#askedAt = Date.now();
    try {
      const byFlow = new Map();
      for (const row of rows) byFlow.set(row.flow, [...(byFlow.get(row.flow) ?? []), row.number]);
      for (const [flow, numbers] of byFlow) {
        const answer = await this.live.ask(`/api/lags?flow=${encodeURIComponent(flow)}&n=${numbers.join(",")}`);
        for (const [number, values] of Object.entries(await answer.json())) this.#curves.set(`${flow} ${number}`, { values, text: values.join() });
      }
      this.table.redraw();
    } catch {
      this.#askedAt = Date.now() + CURVES_EVERY_MS; // The link tells what is wrong; the curves come with it.
    }
    this.#asking = false;
  }

  /** The lag of the last minutes, as soon as it is told. */
  async #draw(row, place) {
    try {
      const answer = await this.live.ask(`/api/lags?flow=${encodeURIComponent(row.flow)}&n=${row.number}`);
      const values = (await answer.json())[row.number] ?? [];
      const points = values.map((value, at) => [this.live.now - (values.length - 1 - at) * SAMPLE_MS, value]);
      const shown = { from: this.live.now - 60 * SAMPLE_MS, to: this.live.now, step: SAMPLE_MS, width: Math.min(540, innerWidth - 80), label: "Lag of the last five minutes" };
      place.append(values.length ? drawTimeline({ panels: [{ title: "lag, records", kind: "lag", points }], ...shown }) : h("p", { class: "hint" }, "No lag in the last five minutes."));
    } catch (problem) {
      place.append(h("p", { class: "hint" }, `The lag of the last minutes is not known: ${problem.message}`));
    }
  }

  /** Whether the key means something here. */
  key(key) {
    const row = this.table.active;
    const action = key === "p" && row ? (row.state === "PAUSED" ? "resume" : "pause") : key === "r" && row?.state === "FAILED" ? "retry" : "";
    if (action) this.orders.give(action, row);
    return Boolean(action);
  }

  #open(row) {
    const fact = (name, value) => [h("dt", {}, name), h("dd", {}, value)];
    history.replaceState(null, "", placeOf("partitions", row.flow, row.topic, row.partition));
    const drawn = h("div", {});
    this.#draw(row, drawn);
    const dialog = openDialog(
      `${row.topic}-${row.partition}`,
      h("p", { class: "told" }, badge(row.state), " ", [row.reason, row.retryAt ? `Next try at ${clock(row.retryAt)} UTC.` : ""].filter(Boolean).join("\n")),
      h(
        "dl",
        { class: "sheet" },
        fact("flow", row.flow),
        fact("target topic", row.target || "–"),
        fact("offsets", row.identical ? "identical on both clusters" : row.filling ? "identical when its start is filled" : "of their own on the target"),
        row.filling ? fact("being filled", this.#filling(row)) : [],
        fact("next offset", count(row.offset)),
        fact("end of the source", count(row.end)),
        fact("lag", lagOf(row) === null ? "not known" : plural(lagOf(row), "record")),
        fact("behind", row.behindSince ? age(this.#behind(row)) : lagOf(row) === null ? "not known" : "nothing"),
        fact("rate", `${perSecond(row.rate)} · ${size(row.bytes)}/s`),
        fact("latency, mean", ms(row.latency)),
      ),
      drawn,
      h("p", { class: "hint" }, "The address of this page now leads to this partition."),
      h("div", { class: "row" }, this.orders.buttons(row, row.state)),
    );
    dialog.querySelector(".row").addEventListener("click", () => dialog.close());
    dialog.addEventListener("close", () => location.hash.startsWith("#partitions/") && history.replaceState(null, "", "#partitions"));
  }
}

const byName = (a, b) => (a.topic < b.topic ? -1 : a.topic > b.topic ? 1 : a.partition - b.partition);

export class Gaps {
  title = "Gaps";

  constructor(live) {
    this.live = live;
    this.table = new LongTable({
      label: "Gap ledger",
      empty: "No gaps: nothing was lost before or after it was mirrored.",
      columns: [
        { title: "When (UTC)", width: "160px", phone: "84px", order: (row) => row.at, cell: (row) => moment(row.at) },
        { title: "Topic", width: "minmax(120px, 1.6fr)", phone: "minmax(0, 1fr)", order: (row) => row.topic, cell: (row) => h("span", { class: "name", title: row.topic }, row.topic) },
        { title: "#", width: "52px", phone: "34px", number: true, order: (row) => row.partition, cell: (row) => row.partition },
        { title: "From", width: "110px", number: true, wide: true, order: (row) => row.expected, cell: (row) => count(row.expected) },
        { title: "To", width: "110px", number: true, wide: true, order: (row) => row.resumed, cell: (row) => count(row.resumed) },
        { title: "Offsets lost", width: "110px", phone: "84px", number: true, order: (row) => row.lost, cell: (row) => count(row.lost) },
        { title: "Cause", width: "minmax(90px, 1fr)", phone: "minmax(0, .8fr)", order: (row) => row.cause, cell: (row) => h("span", { class: "why", title: row.cause }, row.cause, row.onTarget ? " (offsets of the target)" : "") },
        { title: "Done", width: "minmax(80px, .8fr)", wide: true, cell: (row) => row.action },
        { title: "Flow", width: "minmax(112px, .8fr)", wide: true, order: (row) => row.flow, cell: (row) => row.flow },
      ],
    });
    this.element = h("div", { class: "list" }, this.table.element);
  }

  show() {
    this.table.leave("Flow", this.live.flows().length < 2);
    this.table.show([...this.live.rows("gaps")].sort((a, b) => b.at - a.at));
  }
}

export class Log {
  title = "Log";

  constructor(live) {
    this.live = live;
    this.lines = h("ol", { class: "log" });
    this.element = h("section", { class: "panel", "aria-label": "The last failures" }, h("h2", {}, "The last warnings and errors of this process"), this.lines);
  }

  show() {
    const failures = this.live.part("failures") ?? [];
    const lines = failures.map((failure) =>
      h("li", { class: failure.level.toLowerCase() }, h("time", { datetime: new Date(failure.last_ms).toISOString() }, moment(failure.last_ms)), badge(failure.level), h("span", { class: "text" }, failure.text, failure.times > 1 ? h("em", {}, ` ${failure.times} times since ${moment(failure.first_ms)}`) : "")),
    );
    fill(this.lines, lines.length ? lines : h("li", { class: "none" }, "None since it started."));
  }
}

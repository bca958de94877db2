// Topics, each of which opens into its partitions.

import { badge, fill, h } from "./dom.js";
import { age, count, perSecond } from "./format.js";
import { lagOf } from "./live.js";
import { placeOf } from "./place.js";
import { matcher, search } from "./search.js";
import { LongTable } from "./table.js";

const RANK = { FAILED: 0, WAITING: 1, PAUSED: 2, RUNNING: 3 };

export class Topics {
  title = "Topics";
  #opened = new Set();
  #wanted = null;
  #listed = null;
  #topics = new Map();

  constructor(live) {
    this.live = live;
    this.field = search("Find a topic or flow  ( / )", () => this.show());
    this.table = new LongTable({
      label: "Topics",
      empty: "No topic is like that.",
      open: (row) => this.#open(row),
      stamp: (row) => `${row.behindSince ? age(this.#behind(row)) : ""} ${this.#opened.has(row.id)}`,
      children: (row) => (this.#opened.has(row.id) ? row.partitions : null),
      columns: [
        { title: "Topic", width: "minmax(160px, 2.4fr)", phone: "minmax(0, 1fr)", order: (row) => row.topic, cell: (row) => this.#name(row) },
        { title: "Partitions", width: "88px", number: true, wide: true, order: (row) => row.size, cell: (row) => (row.partitions ? count(row.size) : "") },
        { title: "State", width: "150px", phone: "84px", order: (row) => RANK[row.state], cell: (row) => badge(row.state, row.worst > 1 ? `${count(row.worst)} ${row.state}` : row.state) },
        { title: "Lag", width: "96px", phone: "72px", number: true, order: (row) => row.lag, cell: (row) => (row.lag === null ? "not known" : count(row.lag)) },
        { title: "Behind", width: "78px", number: true, wide: true, order: (row) => this.#behind(row), cell: (row) => (row.behindSince ? age(this.#behind(row)) : "–") },
        { title: "Rate", width: "92px", number: true, wide: true, order: (row) => row.rate, cell: (row) => (row.rate ? perSecond(row.rate) : "–") },
        { title: "On the target", width: "minmax(120px, 1.6fr)", wide: true, order: (row) => row.target, cell: (row) => h("span", { class: "name", title: row.target }, row.target) },
        { title: "Flow", width: "minmax(112px, .8fr)", wide: true, order: (row) => row.flow, cell: (row) => row.flow },
        { title: "Why", width: "minmax(60px, 1.4fr)", wide: true, cell: (row) => h("span", { class: "why", title: row.reason }, row.reason) },
      ],
    });
    this.element = h("div", { class: "list" }, h("div", { class: "toolbar" }, this.field), this.table.element);
  }

  /** Open the topic that an address names. */
  go([flow, topic]) {
    if (!topic) return;
    this.#wanted = `${flow} ${topic}`;
    this.#opened.add(this.#wanted);
    this.show();
  }

  show() {
    this.table.leave("Flow", this.live.flows().length < 2);
    const matches = matcher(this.field.value);
    const rows = this.#sums().filter((row) => matches(row.topic, row.flow));
    rows.sort((a, b) => RANK[a.state] - RANK[b.state] || (b.lag ?? Infinity) - (a.lag ?? Infinity) || (a.topic < b.topic ? -1 : 1));
    this.table.show(rows);
    if (this.#wanted && this.table.choose(this.#wanted)) this.#wanted = null;
  }

  /** A row a topic; summed up again only where one of its partitions has changed. */
  #sums() {
    const all = this.live.rows("partitions");
    if (all !== this.#listed) {
      this.#listed = all;
      this.#topics = new Map();
      for (const row of all) {
        const id = `${row.flow} ${row.topic}`;
        if (!this.#topics.has(id)) this.#topics.set(id, { partitions: [], row: null });
        this.#topics.get(id).partitions.push(row);
      }
    }
    const rows = [];
    for (const [id, topic] of this.#topics) {
      const changed = topic.partitions.reduce((latest, row) => Math.max(latest, row.changed), 0);
      if (topic.row?.changed !== changed) topic.row = sum(id, topic.partitions, changed);
      rows.push(topic.row);
    }
    return rows;
  }

  #behind(row) {
    return row.behindSince ? Math.max(this.live.now - row.behindSince, 0) / 1000 : 0;
  }

  #name(row) {
    if (!row.partitions) return h("a", { class: "name child", href: placeOf("partitions", row.flow, row.topic, row.partition), title: `${row.topic}-${row.partition}`, tabindex: "-1" }, `partition ${row.partition}`);
    return h("span", { class: "name", title: row.topic }, h("span", { class: "twist", "aria-hidden": "true" }, this.#opened.has(row.id) ? "▾" : "▸"), row.topic);
  }

  #open(row) {
    if (!row.partitions) return void (location.hash = placeOf("partitions", row.flow, row.topic, row.partition));
    const shut = this.#opened.delete(row.id);
    if (!shut) this.#opened.add(row.id);
    history.replaceState(null, "", shut ? "#topics" : placeOf("topics", row.flow, row.topic));
    return this.show();
  }
}

/** A topic as a row: its worst state, and sums over its partitions; one that is not known makes the sum unknown. */
function sum(id, partitions, changed) {
  partitions.sort((a, b) => a.partition - b.partition);
  const [first] = partitions;
  const state = partitions.reduce((worst, row) => (RANK[row.state] < RANK[worst] ? row.state : worst), "RUNNING");
  const worst = state === "RUNNING" ? 0 : partitions.filter((row) => row.state === state).length;
  const children = partitions.map((row) => ({ ...row, lag: lagOf(row), worst: 0 }));
  const lag = children.some((row) => row.lag === null) ? null : children.reduce((all, row) => all + row.lag, 0);
  const behinds = partitions.map((row) => row.behindSince).filter(Boolean);
  return {
    id, changed, flow: first.flow, topic: first.topic, target: first.target, state, worst, lag,
    size: partitions.length,
    rate: partitions.reduce((all, row) => all + row.rate, 0),
    behindSince: behinds.length ? Math.min(...behinds) : null,
    reason: partitions.find((row) => row.state === state)?.reason ?? "",
    partitions: children,
  };
}

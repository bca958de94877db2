// What is only looked up when somebody asks: failover readiness and the configuration.

import { badge, fill, h, table } from "./dom.js";
import { age, count, moment, plural } from "./format.js";
import { LookUps } from "./lookups.js";

const SHOWN = 10;
const OLD_SECONDS = 30;

export class Failover {
  title = "Failover";

  constructor(live) {
    this.live = live;
    this.looks = new LookUps(live, "readiness", () => this.show());
    this.again = h("button", { type: "button", class: "button", onclick: () => this.looks.look() }, "Look again");
    this.cards = h("div", { class: "cards" });
    this.element = h("div", { class: "failover" }, h("div", { class: "toolbar" }, h("p", {}, "What a failover would mean if it happened now."), h("span", { class: "grow" }), this.again), this.cards);
  }

  enter() {
    this.looks.look();
  }

  show() {
    this.looks.again(this.element);
    this.again.disabled = this.looks.busy;
    fill(this.cards, this.looks.all().map(([name, found]) => this.#card(name, found)));
  }

  #card(name, found) {
    const body = found.looking ? [h("p", { class: "none" }, "Looking at both clusters…")] : found.problem ? [h("p", { class: "reason" }, `Nobody can say now what a failover would lose:\n${found.problem}`)] : this.#judge(found);
    return h("article", { class: "panel", "aria-label": name }, h("header", {}, h("h2", {}, name), found.at_ms ? h("span", { class: "hint" }, `looked at ${moment(found.at_ms)}`) : null), body);
  }

  #judge(found) {
    const behind = found.records_behind;
    const seconds = Math.max(this.live.now - found.at_ms, 0) / 1000;
    if (seconds > OLD_SECONDS || this.live.isStale) return [h("ul", { class: "needs" }, h("li", {}, badge("not known"), h("span", {}, `What a failover would lose is not known now: this was looked at ${age(seconds)} ago.`)))];
    const unknown = found.unknown.length;
    const lost = !found.source_answers ? ["WAITING", "The source does not answer: what it has beyond the mirror is not known."] : unknown ? ["WAITING", `Of ${plural(unknown, "partition")} nobody knows what would be lost${behind ? `; of the others ${plural(behind, "record")}` : ""}.`] : behind ? ["FAILED", `${plural(behind, "record")} would be lost, the oldest ${age(found.seconds_behind)} old.`] : ["RUNNING", "Nothing would be lost: all is mirrored."];
    const groups = Object.entries(found.groups);
    const stuck = groups.filter(([, group]) => group.repeats_planned === null).length;
    const moves = !groups.length ? ["RUNNING", "No group has committed offsets of mirrored topics."] : stuck ? ["WAITING", `${stuck} of ${plural(groups.length, "group")} cannot be translated everywhere.`] : ["RUNNING", `${plural(groups.length, "group")} can move.`];
    const same = found.differences.length ? ["WAITING", `${plural(found.differences.length, "difference")} of topics, settings or ACLs.`] : found.in_step ? ["RUNNING", `${found.in_step[0].toUpperCase()}${found.in_step.slice(1)}.`] : null;
    const line = ([state, text]) => h("li", {}, badge(state, { RUNNING: "ready", WAITING: "look", FAILED: "loss" }[state]), h("span", {}, text));
    const unclear = found.identical_offsets_unknown;
    const kept = found.identical_offsets || unclear ? [unclear ? "WAITING" : "RUNNING", `Offsets are identical in ${plural(found.identical_offsets, "partition")}${unclear ? ` (of ${count(unclear)} it is not known)` : ""}${found.identical_offsets ? ": programs that keep their own go on with them" : ""}.`] : null;
    return [h("ul", { class: "needs" }, [lost, kept, moves, same].filter(Boolean).map(line)), this.#behind(found), this.#groups(groups), this.#differences(found.differences)];
  }

  #behind(found) {
    if (!found.behind.length) return null;
    const rows = [...found.behind].sort((a, b) => b.records - a.records).slice(0, SHOWN);
    return table(["Not mirrored yet", "From", "To", "Records"], rows.map((one) => [`${one.topic}-${one.partition}`, count(one.position), count(one.end), count(one.records)]));
  }

  #groups(groups) {
    if (!groups.length) return null;
    const members = (group) => [group.active_on_source && "source", group.active_on_target && "target"].filter(Boolean).join(", ") || "–";
    const rows = groups.slice(0, 50).map(([name, group]) => [name, members(group), count(group.repeats_planned), count(group.repeats_source_lost)]);
    return table(["Group", "Members on", "Read again, planned", "Read again, source lost"], rows);
  }

  #differences(sentences) {
    return sentences.length ? h("ul", { class: "plain" }, sentences.slice(0, SHOWN).map((one) => h("li", {}, one))) : null;
  }
}

export class Configuration {
  title = "Configuration";
  #told = null;
  #problem = "";

  constructor(live) {
    this.live = live;
    this.field = h("input", { type: "search", class: "search", placeholder: "Find a key or value  ( / )", "aria-label": "Find a key or value", oninput: () => this.#draw() });
    this.all = h("input", { type: "checkbox", id: "defaults", onchange: () => this.#draw() });
    this.listed = h("div", { class: "cards" });
    this.element = h("div", { class: "configuration" }, h("div", { class: "toolbar" }, this.field, h("label", { for: "defaults", class: "check" }, this.all, "defaults too")), this.listed);
  }

  async enter() {
    if (this.#told) return;
    try {
      this.#told = await (await this.live.ask("/api/config")).json();
      this.#problem = "";
    } catch (problem) {
      this.#problem = problem.message;
    }
    this.#draw();
  }

  show() {}

  #draw() {
    if (this.#problem) return fill(this.listed, h("p", { class: "reason" }, this.#problem));
    if (!this.#told) return undefined;
    const words = this.field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = (item) => (this.all.checked || !item.default || words.length) && words.every((word) => `${item.key} ${item.value} ${item.written ?? ""}`.toLowerCase().includes(word));
    const cards = Object.entries(this.#told.settings).map(([name, items]) => this.#card(name, items.filter(wanted)));
    const warnings = this.#told.warnings.length ? h("article", { class: "panel" }, h("h2", {}, "Warnings about the file"), h("ul", { class: "plain" }, this.#told.warnings.map((one) => h("li", {}, one)))) : null;
    return fill(this.listed, warnings, cards);
  }

  #card(name, items) {
    if (!items.length) return null;
    const parts = [...new Set(items.map((item) => item.part))];
    return h("article", { class: "panel", "aria-label": name }, h("header", {}, h("h2", {}, name), h("span", { class: "hint" }, this.#told.file)), parts.map((part) => this.#part(part, items.filter((item) => item.part === part))));
  }

  #part(part, items) {
    const origin = (item) => (item.default ? h("span", { class: "origin" }, "default") : h("span", { class: "origin set" }, `line ${item.line}`, h("code", {}, item.written), item.beaten.map((one) => h("s", { title: "does not count" }, `${one.written}, line ${one.line}`))));
    return [h("h3", {}, part), h("dl", { class: "settings" }, items.map((item) => h("div", { class: "setting" }, h("dt", {}, h("code", {}, item.key)), h("dd", {}, h("code", { class: "value" }, item.value === "" ? "(empty)" : item.value), item.used === item.value ? null : ` ${item.used} is used`), h("dd", {}, origin(item)))))];
  }
}

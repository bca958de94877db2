// Consumer groups on both sides, one row a group, looked up on the clusters while the view is open.

import { badge, fill, h, openDialog, table } from "./dom.js";
import { age, count, moment } from "./format.js";
import { LookUps } from "./lookups.js";
import { matcher, search } from "./search.js";
import { LongTable } from "./table.js";

const OLD_SECONDS = 30;

export class Groups {
  title = "Groups";

  constructor(live) {
    this.live = live;
    this.looks = new LookUps(live, "groups", () => this.show());
    this.field = search("Find a group or a reason  ( / )", () => this.show());
    this.said = h("p", { class: "hint" });
    const lag = (value) => (value === null ? "not known" : count(value));
    this.table = new LongTable({
      label: "Consumer groups on both sides",
      empty: "No consumer group is known.",
      open: (row) => this.#open(row),
      columns: [
        { title: "Group", width: "minmax(140px, 1.6fr)", phone: "minmax(0, 1fr)", order: (row) => row.group, cell: (row) => h("span", { class: "name", title: row.group }, row.group) },
        { title: "Synced", width: "96px", phone: "84px", order: (row) => row.notes.length, cell: (row) => badge(row.notes.length ? "WAITING" : "RUNNING", row.notes.length ? "look" : "synced") },
        { title: "Lag on the source", width: "140px", phone: "76px", number: true, order: (row) => row.lag, cell: (row) => lag(row.lag) },
        { title: "Lag on the target", width: "140px", phone: "76px", number: true, order: (row) => row.target_lag, cell: (row) => lag(row.target_lag) },
        { title: "On the source", width: "110px", wide: true, order: (row) => row.state, cell: (row) => row.state || "–" },
        { title: "On the target", width: "110px", wide: true, order: (row) => row.target_state, cell: (row) => row.target_state || "–" },
        { title: "Translated", width: "96px", number: true, wide: true, cell: (row) => `${row.partitions.filter((one) => one.translated !== null).length} of ${row.partitions.length}` },
        { title: "Flow", width: "minmax(112px, .8fr)", wide: true, order: (row) => row.flow, cell: (row) => row.flow },
        { title: "Why not", width: "minmax(100px, 2fr)", wide: true, cell: (row) => h("span", { class: "why", title: row.notes.join("; ") }, row.notes.join("; ")) },
      ],
    });
    this.element = h("div", { class: "list" }, h("div", { class: "toolbar" }, this.field, this.said), this.table.element);
  }

  enter() {
    this.looks.look();
  }

  show() {
    this.looks.again(this.element);
    this.table.leave("Flow", this.live.flows().length < 2);
    const matches = matcher(this.field.value);
    const now = (found) => (this.live.isStale || this.#age(found) > OLD_SECONDS ? { lag: null, target_lag: null } : {});
    const rows = this.looks.all().flatMap(([flow, found]) => (found.groups ?? []).map((group) => ({ ...group, ...now(found), flow, id: `${flow} ${group.group}` })));
    rows.sort((a, b) => b.notes.length - a.notes.length || (a.group < b.group ? -1 : 1));
    this.table.show(rows.filter((row) => matches(row.group, row.flow, row.notes.join(" "))));
    fill(this.said, this.looks.all().map(([flow, found]) => this.#tell(flow, found)).join(" "));
  }

  #age(found) {
    return found.at_ms ? Math.max(this.live.now - found.at_ms, 0) / 1000 : 0;
  }

  #tell(flow, found) {
    const seconds = this.#age(found);
    if (found.problem) return `${flow}: ${found.problem}`;
    return found.looking && !found.at_ms ? `${flow}: looking at both clusters…` : `looked at ${moment(found.at_ms)} UTC${seconds > OLD_SECONDS ? `, ${age(seconds)} ago: not known since` : ""}.`;
  }

  #open(row) {
    const cells = row.partitions.map((one) => [`${one.topic}-${one.partition}`, count(one.committed), count(one.lag), `${count(one.translated)}${one.identical_offsets && one.exact ? " (identical)" : ""}`, count(one.target_committed), count(one.target_lag), one.checkpoint_at ?? "–"]);
    const titles = ["Partition", "Source offset", "Lag", "Translated", "Committed there", "Lag there", "Checkpoint"];
    openDialog(row.group, row.notes.length ? h("p", { class: "reason" }, row.notes.join("\n")) : h("p", {}, "All of it is synced."), cells.length ? table(titles, cells) : null);
  }
}

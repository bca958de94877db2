// What does the work: processes, tasks, jobs and the canary by their last words, and the brokers of both clusters.

import { badge, fill, h, table } from "./dom.js";
import { age, count, moment, ms, perSecond } from "./format.js";
import { LookUps } from "./lookups.js";

const QUIET_SECONDS = 25;

export class Works {
  title = "Processes";

  constructor(live) {
    this.live = live;
    this.looks = new LookUps(live, "brokers", () => this.show());
    this.cards = h("div", { class: "cards" });
    this.element = h("div", { class: "works" }, this.cards);
  }

  enter() {
    this.looks.look();
  }

  show() {
    this.looks.again(this.element);
    const brokers = new Map(this.looks.all());
    const before = [...this.cards.querySelectorAll(".wrap")].map((wrap) => [wrap.scrollLeft, wrap === document.activeElement]);
    fill(this.cards, this.live.flows().map((flow) => this.#card(flow, this.live.part(`works/${flow.name}`), brokers.get(flow.name))));
    this.cards.querySelectorAll(".wrap").forEach((wrap, at) => {
      const [left, focused] = before[at] ?? [0, false];
      wrap.scrollLeft = left;
      if (focused && wrap !== document.activeElement) wrap.focus();
    });
  }

  #ago(at) {
    return at ? `${age(Math.max(this.live.now - at, 0) / 1000)} ago` : "–";
  }

  #card(flow, works, brokers) {
    const body = works ? [this.#processes(works.processes), this.#tasks(works.tasks), this.#brokers(brokers), this.#jobs(works.jobs), this.#canary(works.canary)] : h("p", { class: "none" }, "Nothing is known of it yet.");
    return h("article", { class: "panel", "aria-label": flow.name }, h("header", {}, h("h2", {}, flow.name)), body);
  }

  #processes(processes) {
    const rows = processes.map((one) => [`${one.pid} on ${one.host}`, badge(one.state), moment(one.started_at_ms), count(one.restarts), one.version, this.#ago(one.at_ms), one.reason || "–"]);
    return part("Processes", ["Process", "State", "Started (UTC)", "Restarts of the query", "Version", "Heard of", "Why"], rows, "No process has reported.");
  }

  #tasks(tasks) {
    const quiet = (task) => (this.live.now - task.at_ms) / 1000 > QUIET_SECONDS;
    const rows = tasks.map((task) => [count(task.task), count(task.partitions), task.lag_records === null || quiet(task) ? "not known" : count(task.lag_records), quiet(task) ? "not known" : perSecond(task.records_per_second), count(task.epoch), this.#ago(task.at_ms), task.problem || "–"]);
    const sizings = [...new Set(tasks.map((task) => task.sizing).filter(Boolean))];
    const held = [...new Set(tasks.flatMap((task) => task.held_by))];
    if (held.length) sizings.push(`held back by ${held.join(" and ")}`);
    return part(["Tasks", ...sizings].join(": "), ["Task", "Partitions", "Lag", "Rate", "Epoch", "Heard of", "Why"], rows, "No task has reported.");
  }

  #brokers(found) {
    if (!found || (found.looking && !found.clusters)) return part("Brokers", [], [], "Looking at both clusters…");
    if (found.problem) return part("Brokers", [], [], found.problem);
    const rows = found.clusters.flatMap((cluster) => (cluster.problem ? [[cluster.alias, "–", "–", badge("FAILED", "away"), "–", "–", "–", cluster.problem]] : cluster.brokers.map((one) => [cluster.alias, count(one.id), one.address, badge(one.problem ? "FAILED" : "RUNNING", one.problem ? "away" : "answers"), count(one.leads), ms(one.round_trip_ms), one.release || "–", one.problem || "–"])));
    return part(`Brokers, looked at ${moment(found.at_ms)} UTC`, ["Cluster", "Broker", "Address", "State", "Leads partitions", "Round trip", "Kafka", "Why"], rows, "");
  }

  #jobs(jobs) {
    const rows = jobs.map((job) => [job.name, badge(job.state), this.#ago(job.last_at_ms), job.next_at_ms ? moment(job.next_at_ms) : "–", ms(job.cost_seconds * 1000), `${count(job.failures)} of ${count(job.rounds)}`, job.failing_since_ms ? moment(job.failing_since_ms) : "–", job.reason || "–"]);
    return part("Jobs", ["Job", "State", "Last round", "Next round (UTC)", "Took", "Failed rounds", "Fails since (UTC)", "Why"], rows, "No job has reported.");
  }

  #canary(canary) {
    if (!canary) return null;
    const rows = [[count(canary.sent), count(canary.arrived), count(canary.lost), canary.oldest_sent_ms ? this.#ago(canary.oldest_sent_ms) : "none", `${ms(canary.latency.p50)} / ${ms(canary.latency.p99)}`]];
    return part("Canary", ["Probes sent", "Arrived", "Lost", "Oldest under way, sent", "Latency p50 / p99"], rows, "");
  }
}

const part = (title, titles, rows, none) => [h("h3", {}, title), rows.length ? table(titles, rows) : h("p", { class: "none" }, none)];

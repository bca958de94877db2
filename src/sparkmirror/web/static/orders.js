// What a person may order: pause, resume and retry, with the token. And the token's own dialog.

import { h, openDialog, toast } from "./dom.js";

const DONE = { pause: "Paused", resume: "Resumed", retry: "Tried again" };

export class Orders {
  constructor(live) {
    this.live = live;
  }

  get possible() {
    return this.live.part("about")?.may_order ?? false;
  }

  get unlocked() {
    return this.possible && Boolean(this.live.token);
  }

  /** `where`: {flow, topic?, partition?}. What it orders is asked for again before a whole flow is paused. */
  async give(action, where) {
    if (!this.unlocked) return this.unlock(() => this.give(action, where));
    const what = where.topic === undefined ? `all of ${where.flow}` : `${where.topic}-${where.partition}`;
    if (action === "pause" && where.topic === undefined && !(await this.#sure(where.flow))) return undefined;
    try {
      await this.live.ask("/api/orders", {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ action, flow: where.flow, topic: where.topic ?? null, partition: where.partition ?? null }),
      });
      toast(`${DONE[action]}: ${what}. Its state shows here in a moment.`);
    } catch (problem) {
      if (problem.status === 401) this.live.token = "";
      toast(problem.message, true);
    }
    return undefined;
  }

  #sure(flow) {
    return new Promise((answer) => {
      const yes = h("button", { type: "button", class: "button strong", onclick: () => (answer(true), dialog.close()) }, `Pause ${flow}`);
      const no = h("button", { type: "button", class: "button", onclick: () => dialog.close() }, "Leave it running");
      const dialog = openDialog("Pause the whole flow?", h("p", {}, "Nothing more is read from its source until it is resumed, here or by ", h("code", {}, "sparkmirror resume"), ". What was read still arrives."), h("div", { class: "row" }, yes, no));
      dialog.addEventListener("close", () => answer(false));
    });
  }

  /** Ask for the token, then go on with `then`. */
  unlock(then = () => {}) {
    if (!this.possible && this.live.part("about")) {
      openDialog("This page only shows", h("p", {}, "To pause and resume from here, set ", h("code", {}, "status.token"), " in the mirror's file and start it anew. Meanwhile: ", h("code", {}, "sparkmirror pause FILE"), "."));
      return;
    }
    const field = h("input", { type: "password", id: "token", autocomplete: "off", required: true });
    const save = (event) => {
      event.preventDefault();
      this.live.token = field.value.trim();
      dialog.close();
      this.live.dispatchEvent(new CustomEvent("token"));
      then();
    };
    const form = h("form", { onsubmit: save }, h("label", { for: "token" }, "Token"), field, h("p", { class: "hint" }, "It is ", h("code", {}, "status.token"), " of the mirror's file, and kept until this tab is closed."), h("button", { class: "button strong" }, "Unlock"));
    const dialog = openDialog("Unlock", form);
    field.focus();
  }

  /** The buttons for one partition or one flow, by its state. */
  buttons(where, state) {
    const button = (action, name) => h("button", { type: "button", class: "button", onclick: (event) => (event.stopPropagation(), this.give(action, where)) }, name);
    const held = state === "PAUSED" ? [button("resume", "Resume")] : [button("pause", "Pause")];
    return state === "FAILED" ? [button("retry", "Try again now"), ...held] : held;
  }
}

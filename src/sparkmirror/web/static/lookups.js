// What is looked up on the clusters only while somebody looks at it: at once, and again every 15 s.

const AGAIN_MS = 15000;

export class LookUps {
  #found = new Map();
  #lookedAt = 0;

  /** `kind` is the last part of the path; `changed` is called when anything was found. */
  constructor(live, kind, changed) {
    Object.assign(this, { live, kind, changed, busy: false });
  }

  /** [flow, what was found] of every flow; {looking: true} at first, {problem} where nobody can say. */
  all() {
    return [...this.#found];
  }

  again(element) {
    if (element.isConnected && !this.busy && Date.now() - this.#lookedAt > AGAIN_MS) this.look();
  }

  async look() {
    const flows = this.live.flows();
    if (this.busy || !flows.length) return;
    this.busy = true;
    for (const flow of flows) {
      if (!this.#found.has(flow.name)) this.#found.set(flow.name, { looking: true });
      this.changed();
      try {
        const answer = await this.live.ask(`/api/${this.kind}?flow=${encodeURIComponent(flow.name)}`);
        this.#found.set(flow.name, await answer.json());
      } catch (problem) {
        this.#found.set(flow.name, { problem: problem.message });
      }
      this.changed();
    }
    this.#lookedAt = Date.now();
    this.busy = false;
    this.changed();
  }
}

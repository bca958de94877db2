// What the server tells, kept: parts by name, tables by name and row number. Server-sent events over `fetch`, for an
// EventSource cannot carry the token's header.

const TOKEN = "sparkmirror-token";
const SILENCE_MS = 6000;
const STALE_MS = 4000;
const PARTITION = ["topic", "partition", "state", "offset", "end", "rate", "bytes", "behindSince", "latency", "target", "reason", "retryAt", "identical", "filling"];
const GAP = ["topic", "partition", "cause", "expected", "resumed", "lost", "action", "at", "onTarget"];
const FILLING_STALE_MS = 35_000;
const ENDED = ["SILENT", "STOPPED", "FAILED"];
const COLUMNS = { partitions: PARTITION, gaps: GAP };

export class Live extends EventTarget {
  parts = new Map();
  tables = new Map();
  heardAt = 0;
  toldAt = Date.now();
  #skew = 0;
  #life = "";
  #version = 0;
  #abort = null;
  #events = 0;
  #listed = new Map();

  /** The server's clock, in ms since 1970. */
  get now() {
    return Date.now() + this.#skew;
  }

  /** For how long nothing was told, in ms. */
  get silentMs() {
    return Date.now() - this.toldAt;
  }

  /** Whether what is shown may be old: the server tells something every second. */
  get isStale() {
    return this.silentMs > STALE_MS;
  }

  /** Whether all was told once, and only changes come. */
  get isWhole() {
    return this.#version > 0;
  }

  get token() {
    return sessionStorage.getItem(TOKEN) ?? "";
  }

  set token(value) {
    if (value) sessionStorage.setItem(TOKEN, value);
    else sessionStorage.removeItem(TOKEN);
  }

  part(name) {
    return this.parts.get(name);
  }

  flows() {
    return [...this.parts].filter(([name]) => name.startsWith("flow/")).map(([, flow]) => flow);
  }

  /** All rows of a kind, of every flow: the same array until one comes or goes. A row is changed in place, and then has another `changed`. */
  rows(kind) {
    if (!this.#listed.has(kind)) {
      const tables = [...this.tables].filter(([name]) => name.startsWith(`${kind}/`));
      this.#listed.set(kind, tables.flatMap(([, table]) => [...table.values()]));
    }
    return this.#listed.get(kind);
  }

  async ask(path, options = {}) {
    const headers = { ...(options.headers ?? {}), ...(this.token ? { Authorization: `Bearer ${this.token}` } : {}) };
    const answer = await fetch(path, { ...options, headers, cache: "no-store" });
    if (answer.ok) return answer;
    const told = await answer.json().catch(() => ({ error: `The server answered ${answer.status}.`, hint: "" }));
    throw Object.assign(new Error([told.error, told.hint].filter(Boolean).join("\n")), { status: answer.status });
  }

  async follow() {
    for (;;) {
      let watch = 0;
      try {
        this.#abort = new AbortController();
        this.heardAt = Date.now();
        const url = `/api/events?life=${this.#life}&since=${this.#version}`;
        const answer = await this.ask(url, { signal: this.#abort.signal });
        watch = setInterval(() => Date.now() - this.heardAt > SILENCE_MS && this.#abort.abort(), 1000);
        await this.#read(answer.body.getReader());
        this.#tell("link", "reconnecting");
      } catch (problem) {
        this.#tell("link", problem.status === 401 ? "locked" : "lost");
      }
      clearInterval(watch);
      await new Promise((go) => {
        this.again = go;
        setTimeout(go, 1500);
      });
    }
  }

  restart() {
    this.#abort?.abort();
    this.again?.();
  }

  async #read(reader) {
    const decoder = new TextDecoder();
    let pieces = [];
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      this.heardAt = Date.now();
      const texts = decoder.decode(value, { stream: true }).split("\n\n");
      while (texts.length > 1) {
        pieces.push(texts.shift());
        this.#take(pieces.join(""));
        pieces = [];
      }
      pieces.push(texts[0]);
    }
  }

  #take(event) {
    const at = event.indexOf("data: ");
    if (at < 0) return;
    const told = JSON.parse(event.slice(at + 6));
    this.#skew = told.now_ms - Date.now();
    this.toldAt = Date.now();
    this.#events += 1;
    if (told.whole) {
      this.parts.clear();
      this.tables.clear();
      this.#listed.clear();
    }
    [this.#life, this.#version] = [told.life, told.version];
    for (const [name, value] of Object.entries(told.parts)) this.parts.set(name, value);
    for (const [name, rows] of Object.entries(told.rows)) this.#takeRows(name, rows);
    for (const [name, gone] of Object.entries(told.gone)) this.#dropRows(name, gone);
    this.#tell("link", "live");
    this.#tell("change", new Set([...Object.keys(told.parts), ...Object.keys(told.rows), ...Object.keys(told.gone)]));
  }

  #takeRows(name, rows) {
    const [kind, flow] = [name.slice(0, name.indexOf("/")), name.slice(name.indexOf("/") + 1)];
    if (!this.tables.has(name)) this.tables.set(name, new Map());
    const table = this.tables.get(name);
    const before = table.size;
    for (const [number, ...cells] of rows) {
      if (!table.has(number)) table.set(number, { flow, number, id: `${flow} ${number}` });
      const row = table.get(number);
      row.changed = this.#events;
      COLUMNS[kind].forEach((column, at) => (row[column] = cells[at]));
    }
    if (table.size !== before) this.#listed.delete(kind);
  }

  #dropRows(name, numbers) {
    for (const number of numbers) this.tables.get(name)?.delete(number);
    if (numbers.length) this.#listed.delete(name.slice(0, name.indexOf("/")));
  }

  #tell(name, detail) {
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }
}

/** Records that are not mirrored yet; null where the end of the source is not known, or may be old. */
export const lagOf = (row) => (row.end === null || row.offset === null || ["PAUSED", "WAITING"].includes(row.state) ? null : Math.max(row.end - row.offset, 0));

/** How far offsets without a record are filled in the partition; null where none are. What no living process has reported lately is null. */
export function fillingOf(row, live) {
  if (!row.filling) return null;
  const [isStart, first, stop, told, pace, run, at] = row.filling;
  const flow = live.part(`flow/${row.flow}`);
  const isFresh = flow?.run === run && !ENDED.includes(flow.state) && live.now - at <= FILLING_STALE_MS && !live.isStale;
  const [reached, rate] = isFresh ? [told, pace] : [null, null];
  const left = reached === null ? null : Math.max(stop - reached, 0);
  const secondsLeft = left === 0 ? 0 : left === null || !rate ? null : left / rate;
  const percent = reached === null ? null : stop > first ? Math.min((100 * Math.max(reached - first, 0)) / (stop - first), 100) : 100;
  return { isStart, stop, reached, rate, percent, secondsLeft };
}

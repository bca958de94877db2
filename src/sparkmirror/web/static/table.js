// A table of any length: only what is in sight is in the document. Arrow keys move, Enter opens.

import { h } from "./dom.js";

const ROW = 34;
const MARGIN = 8;
const narrow = matchMedia("(max-width: 760px)");
let made = 0;

/**
 * `columns`: {title, width, cell(row), order?(row), number?, wide?}; wide ones are left out on a phone.
 * `open(row)` is what Enter and a click do. `children(row)` are the rows below one that is open, null for one that is not.
 * `stamp(row)` tells whether a row that is there would look the same: without it each is made again and compared.
 */
export class LongTable {
  #columns;
  #rows = [];
  #top = [];
  #sorted = { at: -1, up: true };
  #active = -1;
  #pending = false;
  #shown = new Map();

  constructor({ label, columns, open, empty = "Nothing here.", settle, children, stamp }) {
    made += 1;
    this.id = `table-${made}`;
    this.columns = columns;
    this.left = new Set();
    this.open = open;
    this.children = children;
    this.stamp = stamp ?? (() => undefined);
    this.settle = settle ?? (() => {});
    this.head = h("div", { class: "tr head", role: "row" });
    this.body = h("div", { class: "tbody", role: "rowgroup" });
    this.none = h("p", { class: "none" }, empty);
    this.scroller = h("div", { class: "scroller", tabindex: "0", role: children ? "treegrid" : "grid", "aria-label": label }, h("div", { class: "thead", role: "rowgroup" }, this.head), this.body, this.none);
    this.element = h("div", { class: "long" }, this.scroller);
    this.scroller.addEventListener("scroll", () => this.#later(), { passive: true });
    this.scroller.addEventListener("keydown", (event) => this.#key(event));
    new ResizeObserver(() => this.#later()).observe(this.scroller);
    narrow.addEventListener("change", () => this.#layOut());
    this.#layOut();
  }

  get active() {
    return this.#rows[this.#active];
  }

  get visible() {
    return [...this.#shown.keys()].map((at) => this.#rows[at]).filter(Boolean);
  }

  sortBy(title, up) {
    this.#sorted = { at: this.columns.findIndex((column) => column.title === title), up };
    this.#layOut();
  }

  /** Rows in the order they are to have where no column is chosen. */
  show(rows) {
    const chosen = this.active?.id;
    this.#top = rows;
    this.#rows = this.children ? this.#sort(rows).flatMap((row) => [row, ...this.#below(row)]) : this.#sort(rows);
    this.#active = chosen === undefined ? -1 : this.#rows.findIndex((row) => row.id === chosen);
    this.scroller.setAttribute("aria-rowcount", this.#rows.length + 1);
    this.body.style.height = `${this.#rows.length * ROW}px`;
    this.none.hidden = this.#rows.length > 0;
    this.#draw(true);
  }

  /** Move to the row of this id; whether there is one. */
  choose(id) {
    const at = this.#rows.findIndex((row) => row.id === id);
    if (at >= 0) this.#go(at);
    return at >= 0;
  }

  #below(row) {
    const found = this.children(row) ?? [];
    const order = this.columns[this.#sorted.at]?.order;
    return order ? this.#sort(found) : found;
  }

  redraw() {
    this.#draw(true);
  }

  #sort(rows) {
    const order = this.columns[this.#sorted.at]?.order;
    if (!order) return rows;
    const sign = this.#sorted.up ? 1 : -1;
    const keyed = rows.map((row, at) => [order(row), at, row]);
    keyed.sort(([a, i], [b, j]) => {
      if (a === b) return i - j;
      if (a === null || a === undefined) return 1;
      if (b === null || b === undefined) return -1;
      return (a < b ? -1 : 1) * sign;
    });
    return keyed.map(([, , row]) => row);
  }

  /** Leave a column out, or take it in again. */
  leave(title, out) {
    if (this.left.has(title) === out) return;
    if (out) this.left.add(title);
    else this.left.delete(title);
    this.#layOut();
  }

  #layOut() {
    this.#columns = this.columns.filter((column) => !(column.wide && narrow.matches) && !this.left.has(column.title));
    this.element.style.setProperty("--columns", this.#columns.map((column) => (narrow.matches ? column.phone ?? column.width : column.width)).join(" "));
    this.head.replaceChildren(...this.#columns.map((column) => this.#title(column)));
    this.body.replaceChildren();
    this.#shown.clear();
    this.show(this.#top);
  }

  #title(column) {
    const at = this.columns.indexOf(column);
    const chosen = this.#sorted.at === at;
    const sort = chosen ? (this.#sorted.up ? "ascending" : "descending") : "none";
    const name = column.number ? "th number" : "th";
    if (!column.order) return h("div", { class: name, role: "columnheader" }, column.title);
    const turn = () => {
      const up = chosen ? !this.#sorted.up : !column.number;
      this.#sorted = { at, up };
      this.#layOut();
      this.head.children[this.#columns.indexOf(column)].querySelector("button").focus();
    };
    const button = h("button", { type: "button", onclick: turn }, column.title, h("span", { "aria-hidden": "true" }, chosen ? (this.#sorted.up ? " ↑" : " ↓") : ""));
    return h("div", { class: name, role: "columnheader", "aria-sort": sort }, button);
  }

  #later() {
    if (this.#pending) return;
    this.#pending = true;
    requestAnimationFrame(() => {
      this.#pending = false;
      this.#draw(false);
      this.settle();
    });
  }

  #draw(anew) {
    const first = Math.max(Math.floor(this.scroller.scrollTop / ROW) - MARGIN, 0);
    const last = Math.min(Math.ceil((this.scroller.scrollTop + this.scroller.clientHeight) / ROW) + MARGIN, this.#rows.length);
    for (const [at, { element }] of this.#shown) {
      if (at < first || at >= last) {
        element.remove();
        this.#shown.delete(at);
      }
    }
    for (let at = first; at < last; at += 1) if (anew || !this.#shown.has(at)) this.#put(at);
    this.#mark();
  }

  /** What looks the same stays in the document as it is, cell by cell. */
  #put(at) {
    const row = this.#rows[at];
    const stamp = this.stamp(row);
    const known = this.#shown.get(at);
    if (known && stamp !== undefined && known.row === row && known.stamp === stamp) return;
    const fresh = this.#row(row, at);
    if (known) patch(known.element, fresh);
    else this.body.append(fresh);
    this.#shown.set(at, { row, stamp, element: known?.element ?? fresh });
  }

  #row(row, at) {
    const cells = this.#columns.map((column) => h("div", { class: column.number ? "td number" : "td", role: "gridcell" }, column.cell(row)));
    const choose = () => {
      this.#active = at;
      this.#mark();
      this.open?.(this.#rows[at]);
    };
    const element = h("div", { class: at % 2 ? "tr odd" : "tr", role: "row", "aria-rowindex": at + 2, id: `${this.id}-${at}`, onclick: choose }, cells);
    if (this.children) {
      element.setAttribute("aria-level", row.partitions ? 1 : 2);
      if (row.partitions) element.setAttribute("aria-expanded", String(this.children(row) !== null));
    }
    element.style.transform = `translateY(${at * ROW}px)`;
    return element;
  }

  #mark() {
    for (const [at, { element }] of this.#shown) element.classList.toggle("active", at === this.#active);
    if (this.#shown.has(this.#active)) this.scroller.setAttribute("aria-activedescendant", `${this.id}-${this.#active}`);
    else this.scroller.removeAttribute("aria-activedescendant");
  }

  #key(event) {
    const page = Math.max(Math.floor(this.scroller.clientHeight / ROW) - 2, 1);
    const steps = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.target !== this.scroller || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter" && this.active) this.open?.(this.active);
    else if (!(event.key in steps) || !this.#rows.length) return;
    else this.#go(this.#active + steps[event.key]);
    event.preventDefault();
  }

  #go(at) {
    this.#active = Math.min(Math.max(at, 0), this.#rows.length - 1);
    const [top, head] = [this.#active * ROW, this.head.offsetHeight];
    const bottom = top + ROW + head - this.scroller.clientHeight;
    if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
    else if (bottom > this.scroller.scrollTop) this.scroller.scrollTop = bottom;
    this.#draw(false);
  }
}

/** Make a row look like a fresh one. */
function patch(row, fresh) {
  for (const name of ["aria-level", "aria-expanded"]) {
    if (fresh.hasAttribute(name)) row.setAttribute(name, fresh.getAttribute(name));
    else row.removeAttribute(name);
  }
  [...fresh.children].forEach((cell, at) => {
    if (row.children[at].innerHTML !== cell.innerHTML) row.children[at].replaceChildren(...cell.childNodes);
  });
}

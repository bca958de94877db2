// Elements without a library: `h("p", {class: "x", onclick: f}, "text", child)`. Text is never read as markup.

const SVG = "http://www.w3.org/2000/svg";
const DRAWN = new Set(["svg", "g", "path", "rect", "circle", "text", "tspan", "title", "line", "polyline", "defs", "marker"]);

export function h(tag, attributes = {}, ...children) {
  const element = DRAWN.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Replace what is in `element`, unless it would look the same: focus and selection stay. */
export function fill(element, ...children) {
  const fresh = h("div", {}, ...children);
  if (element.innerHTML !== fresh.innerHTML || element.dataset.live) element.replaceChildren(...fresh.childNodes);
}

/** A dialog that is gone once it is closed. Focus goes into it and comes back by itself. */
export function openDialog(title, ...children) {
  const close = h("button", { type: "button", class: "tool", "aria-label": "Close", onclick: () => dialog.close() }, "✕");
  const dialog = h("dialog", { "aria-label": title }, h("div", { class: "dialog-head" }, h("h2", {}, title), close), ...children);
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

export function toast(text, bad = false) {
  const shown = h("p", { class: bad ? "toast bad" : "toast" }, text);
  document.getElementById("toasts").append(shown);
  setTimeout(() => shown.remove(), bad ? 9000 : 5000);
}

/** A table of few rows, which scrolls sideways where it is too wide. Cells are text or elements. */
export function table(titles, rows) {
  const isNumber = (at) => rows.every((row) => /^([\d,]+|–)$/.test(row[at])) && rows.some((row) => row[at] !== "–");
  const kind = (at) => (isNumber(at) ? "number" : titles[at] === "Why" ? "reasons" : "");
  return h("div", { class: "wrap", tabindex: "0", role: "group", "aria-label": titles[0] }, h("table", {}, h("thead", {}, h("tr", {}, titles.map((title, at) => h("th", { scope: "col", class: kind(at) }, title)))), h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell, at) => h("td", { class: kind(at) }, cell)))))));
}

export const badge = (state, text = state) => h("span", { class: `badge ${String(state).toLowerCase()}` }, text);

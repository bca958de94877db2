// The field by which a list is searched.

import { h } from "./dom.js";

export const search = (placeholder, onInput) => h("input", { type: "search", placeholder, "aria-label": placeholder, class: "search", spellcheck: "false", oninput: onInput });

/** Words in any order, all of which must be in the text. */
export function matcher(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return (...texts) => words.every((word) => texts.some((one) => String(one).toLowerCase().includes(word)));
}

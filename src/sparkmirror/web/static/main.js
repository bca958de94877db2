// The page: which view is shown, the keys, the colours, and the link to the server.

import { Configuration, Failover } from "./asked.js";
import { fill, h, openDialog } from "./dom.js";
import { age, clock } from "./format.js";
import { Groups } from "./groups.js";
import { Gaps, Log, Partitions } from "./lists.js";
import { Live } from "./live.js";
import { Orders } from "./orders.js";
import { Overview } from "./overview.js";
import { readPlace } from "./place.js";
import { Topics } from "./topics.js";
import { Works } from "./works.js";

const live = new Live();
const orders = new Orders(live);
const views = [new Overview(live, orders), new Topics(live), new Partitions(live, orders), new Groups(live), new Gaps(live), new Works(live), new Failover(live), new Configuration(live), new Log(live)];
const byHash = new Map(views.map((view) => [view.title.toLowerCase(), view]));
const [nav, main, link, unlock, theme] = ["nav", "view", "link", "unlock", "theme"].map((id) => document.getElementById(id));
let current = null;
const REST_MS = 2900;
const ROWS_MANY = 1000;
let drawing = false;
let drawnAt = 0;
let linkState = "";
let wasStale = false;

nav.append(...views.map((view, at) => h("a", { href: `#${view.title.toLowerCase()}`, title: `Key ${at + 1}` }, view.title, h("span", { class: "tally", hidden: true }))));

function turn() {
  const [name, ...place] = readPlace();
  const view = byHash.get(name) ?? views[0];
  if (view !== current) turnTo(view);
  if (place.length) view.go?.(place);
}

function turnTo(view) {
  current = view;
  for (const one of nav.children) {
    if (one.hash === `#${view.title.toLowerCase()}`) one.setAttribute("aria-current", "page");
    else one.removeAttribute("aria-current");
  }
  main.replaceChildren(view.element);
  main.dataset.view = view.title.toLowerCase();
  if (view !== views[0]) document.title = `${view.title} – SparkMirror`;
  view.show();
  view.enter?.();
}

/** As often as something is told, once a second; lists of thousands of rows every third time, once all are there. */
function draw() {
  if (drawing) return;
  drawing = true;
  const isLong = current !== views[0] && live.isWhole && live.rows("partitions").length > ROWS_MANY;
  const rest = isLong ? drawnAt + REST_MS - performance.now() : 0;
  if (rest > 0) setTimeout(requestAnimationFrame, rest, drawNow);
  else requestAnimationFrame(drawNow);
}

function drawNow() {
  drawing = false;
  drawnAt = performance.now();
  current.show();
  tellLink(linkState);
  tally(2, live.flows().reduce((sum, flow) => sum + flow.counts.FAILED + flow.counts.WAITING, 0));
  tally(4, live.rows("gaps").length);
  tally(8, (live.part("failures") ?? []).length);
  unlock.hidden = !orders.possible || orders.unlocked;
  if (!performance.getEntriesByName("first-data").length) performance.mark("first-data");
}

function tally(at, number) {
  const shown = nav.children[at].querySelector(".tally");
  shown.hidden = !number;
  shown.textContent = number > 999 ? "999+" : number;
}

/** Nobody tells of silence: it is looked for. */
function lookForSilence() {
  if (live.isStale) tellLink(linkState);
  if (live.isStale === wasStale) return;
  wasStale = live.isStale;
  document.documentElement.classList.toggle("stale", wasStale);
  views[0].show();
  draw();
}

function tellLink(state) {
  linkState = state;
  const texts = { live: `live · ${clock(live.now)} UTC`, locked: "locked: the token is needed", lost: "no answer; trying again", reconnecting: "connecting again", "": "connecting" };
  link.className = `link ${state === "live" && !live.isStale ? "live" : "lost"}`;
  fill(link, h("span", {}, state === "live" && live.isStale ? `last heard ${age(live.silentMs / 1000)} ago` : texts[state]));
  if (state === "locked" && !document.querySelector("dialog")) {
    live.token = "";
    orders.unlock(() => live.restart());
  }
}

const THEMES = { "": ["◐", "as the system"], light: ["☀", "light"], dark: ["☾", "dark"] };

function paint(name) {
  document.documentElement.dataset.theme = name;
  localStorage.setItem("sparkmirror-theme", name);
  theme.textContent = THEMES[name][0];
  theme.setAttribute("aria-label", `Colours: ${THEMES[name][1]}`);
  theme.title = `Colours: ${THEMES[name][1]}`;
}

function showKeys() {
  const keys = [["1 … 9", "the views"], ["/", "find"], ["↑ ↓ or k j", "move in a list"], ["Enter", "open a topic, partition or group"], ["p", "pause or resume the chosen partition"], ["r", "try the chosen failed partition again"], ["Esc", "close, or leave the search"], ["?", "this"]];
  openDialog("Keys", h("dl", { class: "sheet" }, keys.map(([key, what]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)])));
}

function press(event) {
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  if (typing && event.key === "Escape") event.target.blur();
  if (event.target.matches(".search") && ["Enter", "ArrowDown"].includes(event.key)) {
    main.querySelector("[role=grid], [role=treegrid]")?.focus();
    event.preventDefault();
    return;
  }
  if (typing || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog")) return;
  const field = main.querySelector(".search");
  if (event.key >= "1" && event.key <= String(views.length)) location.hash = views[event.key - 1].title.toLowerCase();
  else if (event.key === "/" && field) field.focus();
  else if (event.key === "?") showKeys();
  else if (!current.key?.(event.key)) return;
  event.preventDefault(); // Else the letter would go into the field of a dialog that it opens.
}

addEventListener("hashchange", turn);
addEventListener("keydown", press);
live.addEventListener("change", draw);
live.addEventListener("link", (event) => event.detail !== linkState && tellLink(event.detail));
live.addEventListener("token", () => (live.restart(), draw()));
unlock.addEventListener("click", () => orders.unlock());
theme.addEventListener("click", () => paint({ "": "light", light: "dark", dark: "" }[document.documentElement.dataset.theme ?? ""]));
document.getElementById("keys").addEventListener("click", showKeys);
setInterval(lookForSilence, 500);
paint(THEMES[localStorage.getItem("sparkmirror-theme")] ? localStorage.getItem("sparkmirror-theme") : "");
turn();
live.follow();

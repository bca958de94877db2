// Figures as people read them.

const whole = new Intl.NumberFormat("en-GB");

export const count = (n) => (n === null || n === undefined ? "–" : whole.format(Math.round(n)));

/** 950, 12.4 k, 3.1 M: at most three digits, for places where the last digits are of no use. */
export function short(n, units = ["", "\u00a0k", "\u00a0M", "\u00a0G", "\u00a0T"], base = 1000) {
  if (n === null || n === undefined) return "–";
  let at = 0;
  while (Math.abs(n) >= base && at < units.length - 1) {
    n /= base;
    at += 1;
  }
  const digits = at === 0 ? (n !== 0 && Math.abs(n) < 10 && n % 1 ? 1 : 0) : Math.abs(n) < 10 ? 2 : Math.abs(n) < 100 ? 1 : 0;
  return n.toFixed(digits) + units[at];
}

export const size = (n) => short(n, ["\u00a0B", "\u00a0kB", "\u00a0MB", "\u00a0GB", "\u00a0TB"]);
export const perSecond = (n) => (n === null || n === undefined ? "not known" : `${short(n)}/s`);

export function age(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 0.05) return "0\u00a0s";
  if (seconds < 9.95) return `${seconds.toFixed(1)}\u00a0s`;
  if (seconds < 120) return `${Math.round(seconds)}\u00a0s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)}\u00a0min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)}\u00a0h`;
  return `${Math.round(seconds / 86400)}\u00a0d`;
}

export function ms(value) {
  if (value === null || value === undefined) return "–";
  return value < 1000 ? `${value < 10 ? Number(value.toFixed(1)) : Math.round(value)}\u00a0ms` : age(value / 1000);
}

export const moment = (at) => (at ? new Date(at).toISOString().slice(0, 19).replace("T", " ") : "–");
export const clock = (at) => new Date(at).toISOString().slice(11, 19);
export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

// How things are said. Whatever agents wrote is only ever set as text.

/** Text of others with what would steer a reader's eye, or a line, made visible. */
export function visible(text) {
  return String(text).replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/gu,
    (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
}

const who = (it) => visible(it.agent);

export const intent = (it) => `${visible(it.agent)}/${it.id}`;

const two = (n) => String(n).padStart(2, "0");

/** A time of day, in the reader's zone. */
export function clock(us) {
  const at = new Date(us / 1000);
  const ms = String(Math.floor((us % 1e6) / 1000)).padStart(3, "0");
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}.${ms}`;
}

/** How long: `850 µs`, `8.9 s`, `3 min 20 s`. */
export function span(us) {
  const s = us / 1e6;
  if (us < 1000) return `${Math.round(us)} µs`;
  if (s < 1) return `${(us / 1000).toFixed(us < 10000 ? 2 : us < 100000 ? 1 : 0)} ms`;
  if (s < 60) return `${s.toFixed(1)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s`;
  return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
}

/** A time as seen from `now`: `in 8.9 s`, `3.0 s ago`. */
export function seen(us, now) {
  return us >= now ? `in ${span(us - now)}` : `${span(now - us)} ago`;
}

export function mode(claim) {
  return claim.mode === "units" ? `${claim.units} ${claim.units === "1" ? "unit" : "units"}` : claim.mode;
}

export function claim(it) {
  return `${visible(it.path)}${it.shape ? " region" : ""} (${mode(it)})`;
}

/** What stands in the way of a claim, as the path on which it is. */
export function contendedPath(news) {
  const first = news.rivals?.[0];
  return first?.has?.path ?? news.claims[first?.claim ?? 0]?.path ?? news.read?.[0];
}

/** The claim that is in the way of, as far as it is told. */
export function blocked(news) {
  return news.claims[news.rivals?.[0]?.claim ?? 0];
}

const WHY = {
  invalid: "a value is outside its range", id_in_use: "its id stands for something else", too_short: "a claim is too short",
  too_long: "a claim is longer than allowed there", too_late: "its last start has passed", beyond_horizon: "it would end too far ahead",
  no_capacity: "no capacity is set there", over_capacity: "more units than there are",
};

/** Who is in the way, in a few words. */
function inTheWay(news) {
  const [first, ...more] = news.rivals ?? [];
  if (!first) return "no room there";
  const others = new Set(more.map(who));
  others.delete(who(first));
  const and = others.size ? ` and ${others.size} more` : "";
  const isSame = first.has && first.has.path === blocked(news)?.path;
  const path = first.has && !isSame ? ` ${visible(first.has.path)}` : "";
  if (!first.token) return `${who(first)}${and} waits for${path || " it"} and goes first`;
  const until = first.has_until ? ` until ${clock(first.has_until)}` : "";
  const own = first.agent === news.agent ? " itself" : "";
  return `${who(first)}${own}${and} has${path || " it"}${until}`;
}

/** One line: what was decided, and why. */
export function line(news) {
  const wanted = blocked(news) ? ` ${visible(blocked(news).path)}` : "";
  switch (news.what) {
    case "refused": return `${who(news)} refused${wanted}: ${inTheWay(news)}`;
    case "waiting": return `${who(news)} waits for${wanted}: ${inTheWay(news)}`;
    case "deadlock": return `${who(news)} ended to break a deadlock at${wanted}: ${inTheWay(news)}`;
    case "stale": return `${who(news)} read ${visible(news.read[0])} too early: somebody may have written since`;
    case "rejected": return `${who(news)} rejected: ${WHY[news.why] ?? visible(news.why)}${news.field ? ` (${visible(news.field)})` : ""}`;
    case "revoked": return `${who(news)} gave way to ${who(news.by)}${news.goes_on ? ", and waits" : ""}`;
    case "renew_denied": return `${who(news)} not renewed, ends ${clock(news.end)}: ${inTheWay(news)}`;
    default: return `${who(news)} ${event(news)}`;
  }
}

/** What was decided, for a list about one intent. */
export function event(news) {
  switch (news.what) {
    case "granted": return `granted until ${clock(news.end)}, token ${news.token}`;
    case "moved": return `moved, until ${clock(news.end)}, token ${news.token}`;
    case "released": return news.why ? `released by the operator: ${visible(news.why)}` : "released";
    case "renewed": return `renewed until ${clock(news.end)}`;
    case "expired": return "its lease ended";
    case "waiting": return `waits: ${inTheWay(news)}`;
    case "refused": return `refused: ${inTheWay(news)}`;
    default: return line(news).slice(who(news).length + 1);
  }
}

export const SIGNS = { refused: "✕", deadlock: "⟳", stale: "◷", rejected: "⊘", revoked: "▼", renew_denied: "✕", waiting: "…" };

// What is said in words: paths in demand, conflicts, and the whole story of one intent.

import { lowerBound } from "./model.js";
import { SIGNS, blocked, claim, clock, contendedPath, event, intent, line, mode, seen, span, visible } from "./words.js";

const ROWS = 6, ENTRIES = 40, LOOKED_AT = 1500, MINUTE = 60e6, STORY = 60;

/** An element with a class and a text; never markup. */
export function element(name, { className, text, children, ...rest } = {}) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  if (children) made.append(...children);
  return Object.assign(made, rest);
}

/** Changes a text only where it differs: the rest of the page stays as it is laid out. */
function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Which paths are in demand, who has them, who waits. */
export class Demand {
  constructor(body, note, model, time, open) {
    Object.assign(this, { body, note, model, time, rows: [] });
    for (let at = 0; at < ROWS; at += 1) {
      const path = element("span", { className: "name strong" });
      const holder = element("button", { type: "button", className: "link name" });
      const more = element("span", { className: "quiet" });
      const until = element("span");
      const waiting = element("span");
      const count = element("span");
      const heat = element("span", { className: "heat" });
      const cells = [[path], [holder, more], [until], [waiting], [count, heat]];
      const row = element("tr", { children: cells.map((children, at) => element("td", { children, className: at === 4 ? "number" : "" })) });
      row.hidden = true;
      holder.addEventListener("click", () => { if (this.rows[at].news) open(this.rows[at].news); });
      this.rows.push({ row, path, holder, more, until, waiting, count, heat, news: null });
      body.append(row);
    }
    this.none = element("tr", { children: [element("td", { className: "quiet", colSpan: 5, text: "no conflict within the last minute" })] });
    body.append(this.none);
  }

  show() {
    const at = this.time.shown();
    const all = [];
    for (const lane of this.model.lanes.values()) {
      const heat = lane.conflictsIn(at - MINUTE, at);
      if (heat > 0) all.push({ lane, heat });
    }
    all.sort((a, b) => b.heat - a.heat || (a.lane.path < b.lane.path ? -1 : 1));
    this.none.hidden = all.length > 0;
    say(this.note, all.length > ROWS ? `the first ${ROWS} of ${all.length} paths with conflicts` : "");
    const most = all[0]?.heat ?? 1;
    this.rows.forEach((row, nth) => this.fill(row, all[nth], at, most));
  }

  fill(row, it, at, most) {
    row.row.hidden = !it;
    if (!it) return;
    const { holds, waits } = this.model.standing(it.lane, at);
    const waiting = this.waiting(it.lane, waits, at);
    const holder = holds.at(-1);
    row.news = holder?.news ?? null;
    say(row.path, visible(it.lane.path));
    row.holder.hidden = !holder;
    say(row.holder, holder ? visible(holder.news.agent) : "");
    row.holder.title = holder ? `intent ${holder.news.id}, token ${holder.news.token ?? "?"}` : "";
    const others = holds.length - 1;
    say(row.more, !holder ? "nobody just now" : others > 0 ? ` and ${others} more` : holder.claim.mode === "exclusive" ? "" : ` (${mode(holder.claim)})`);
    say(row.until, holder ? `${clock(holder.until).slice(0, 8)}, ${seen(holder.until, at)}` : "");
    const names = waiting.slice(0, 2).map((news) => visible(news.agent)).join(", ");
    say(row.waiting, waiting.length === 0 ? "–" : `${waiting.length}: ${names}${waiting.length > 2 ? ", …" : ""}`);
    say(row.count, String(it.heat));
    row.heat.style.width = `${Math.max(2, Math.round(50 * it.heat / most))}px`;
  }

  /** Who waits for it: there, or elsewhere since what lies here is in the way. */
  waiting(lane, waits, at) {
    const all = new Map(waits.map((bar) => [intent(bar.news), bar.news]));
    const until = lowerBound(lane.conflicts, at + 1, (it) => it.at);
    for (const news of lane.conflicts.slice(Math.max(0, until - 200), until)) {
      if (news.what === "waiting" && news.bars?.some((bar) => bar.from <= at && bar.until > at)) all.set(intent(news), news);
    }
    return [...all.values()];
  }
}

/** The conflicts up to the time shown, alike ones together, the latest first. */
export class Feed {
  constructor(list, note, model, time, open) {
    Object.assign(this, { list, note, model, time, rows: [], isHeld: false, current: null });
    for (let at = 0; at < ENTRIES; at += 1) {
      const sign = element("span", { className: "sign" });
      const what = element("span", { className: "what" });
      const when = element("span", { className: "when" });
      const button = element("button", { type: "button", children: [sign, what, when] });
      const row = element("li", { children: [button], hidden: true });
      button.addEventListener("click", () => open(this.rows[at].news));
      this.rows.push({ row, button, sign, what, when, news: null });
      list.append(row);
    }
    this.none = element("li", { className: "quiet", text: "none so far" });
    list.append(this.none);
    // What one points at stays where it is.
    const hold = (isHeld) => () => { this.isHeld = isHeld || list.contains(document.activeElement); };
    list.addEventListener("pointerenter", hold(true));
    list.addEventListener("pointerleave", hold(false));
    list.addEventListener("focusin", hold(true));
    list.addEventListener("focusout", () => { this.isHeld = list.matches(":hover"); });
    list.addEventListener("keydown", (event) => this.move(event));
  }

  groups(at) {
    const { conflicts } = this.model;
    let index = lowerBound(conflicts, at + 1, (it) => it.at) - 1;
    const last = Math.max(0, index - LOOKED_AT);
    const all = new Map();
    for (; index >= last; index -= 1) {
      const news = conflicts[index];
      const key = `${news.what}\n${news.agent}\n${contendedPath(news)}\n${news.rivals?.[0]?.agent}`;
      const known = all.get(key);
      if (known) known.count += 1;
      else if (all.size < ENTRIES) all.set(key, { news, count: 1 });
    }
    return [...all.values()];
  }

  show() {
    const at = this.time.shown();
    say(this.note, this.isHeld ? "held still while you point at them" : "the latest first; choose one for its story");
    if (this.isHeld) return;
    const all = this.groups(at);
    this.none.hidden = all.length > 0;
    this.rows.forEach((row, nth) => {
      const it = all[nth];
      row.row.hidden = !it;
      row.news = it?.news ?? null;
      if (!it) return;
      say(row.sign, SIGNS[it.news.what]);
      row.sign.className = it.news.what === "waiting" ? "sign waiting" : "sign";
      say(row.what, line(it.news));
      say(row.when, `${clock(it.news.at).slice(0, 10)}${it.count > 1 ? `, ${it.count} times` : ""}`);
    });
  }

  /** Up and down go through the list, not through the lanes. */
  move(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    const at = this.rows.findIndex((row) => row.button === document.activeElement);
    const next = this.rows[at + step];
    if (next && !next.row.hidden) next.button.focus();
    event.preventDefault();
    event.stopPropagation();
  }
}

/** All that is known of one intent. */
export class Story {
  constructor(section, title, body, close, model, time) {
    Object.assign(this, { section, title, body, model, time, news: null, told: "" });
    close.addEventListener("click", () => this.close());
  }

  open(news) {
    if (!this.news) this.back = document.activeElement;
    this.news = news;
    this.told = "";
    this.section.hidden = false;
    this.show();
    this.section.focus();
    this.section.scrollTop = 0;
  }

  close() {
    if (!this.news) return false;
    this.news = null;
    this.section.hidden = true;
    this.back?.focus?.();
    return true;
  }

  /** The conflict or the grant that the story is about: the latest of the intent, or the one that was chosen. */
  show() {
    const { news } = this;
    if (!news) return;
    const all = this.model.story(news);
    const told = `${intent(news)} ${all.length} ${Math.floor(this.time.shown() / 1e6)}`;
    const isBusy = this.told !== "" && (this.body.contains(document.activeElement) || this.section.matches(":hover"));
    if (told === this.told || isBusy) return;
    this.told = told;
    this.title.textContent = this.heading(news);
    this.body.replaceChildren(...this.sections(news, all));
  }

  heading(news) {
    const path = blocked(news) ? ` ${visible(blocked(news).path)}` : "";
    const what = {
      refused: "was refused", waiting: "waits for", deadlock: "ended in a deadlock at", granted: "has", moved: "was moved on", stale: "read too early:",
      rejected: "was rejected for", revoked: "gave way on", renew_denied: "was not renewed on",
    }[news.what] ?? "and";
    return `${intent(news)} ${what}${path}`;
  }

  sections(news, all) {
    const now = this.time.shown();
    const parts = [["Who asked, and for what", this.asked(news, now)]];
    if (news.rivals?.length) parts.push(["Who is in the way", news.rivals.map((rival) => this.rival(news, rival, now))]);
    else if (SIGNS[news.what]) parts.push(["Why", [item(line(news))]]);
    if (SIGNS[news.what] && news.what !== "rejected") parts.push(["What would be free", [item(this.free(news, now))]]);
    const left = all.length > STORY ? [item(`${all.length - STORY} before that`)] : [];
    const told = all.slice(-STORY).map((it) => item(event(it), it.at));
    parts.push(["What came of it", [...left, ...told]]);
    return parts.flatMap(([title, items]) => [element("h3", { text: title }), element("ul", { children: items })]);
  }

  asked(news, now) {
    const lease = news.lease ? ", a lease" : "";
    const first = item(`agent ${visible(news.agent)}, intent ${news.id}, class ${news.class ?? "?"}${lease}`);
    const claims = news.claims.map((it) => item(`${claim(it)} from ${clock(it.from)} for ${span(it.until - it.from)}`));
    const more = news.more_claims ? [item(`and ${news.more_claims} claims more`)] : [];
    const waits = news.waits_until ? [item(`would wait until ${clock(news.waits_until)}, ${seen(news.waits_until, now)}`)] : [];
    return [first, ...claims, ...more, ...waits];
  }

  rival(news, rival, now) {
    const name = element("button", { type: "button", className: "link name", text: intent(rival) });
    const theirs = this.model.story(rival).at(-1);
    name.disabled = !theirs;
    name.addEventListener("click", () => { if (theirs) this.open(theirs); });
    const own = news.claims[rival.claim];
    const has = rival.has ? ` ${claim(rival.has)}` : "";
    const parts = [];
    if (!rival.token) parts.push(` waits for${has} and goes first`);
    else parts.push(` has${has}, token ${rival.token}${rival.has_until ? `, until ${clock(rival.has_until)}, ${seen(rival.has_until, now)}` : ""}`);
    parts.push(`; in the way of ${own ? claim(own) : "a claim"} from ${clock(rival.from)} to ${clock(rival.until)}`);
    if (rival.ratio !== undefined) parts.push(`, of the regions ${(100 * rival.ratio).toFixed(1)} % overlap`);
    return element("li", { children: [name, parts.join("")] });
  }

  free(news, now) {
    if (news.read) return `read ${visible(news.read[0])} again, at ${clock(news.read[1])} or later`;
    if (news.offer === undefined) return "nothing that could be told";
    return `a start at ${clock(news.offer)}, ${seen(news.offer, now)}; nothing is kept for it`;
  }
}

function item(text, at) {
  const children = at === undefined ? [] : [element("span", { className: "time", text: clock(at) })];
  return element("li", { children: [...children, text] });
}

// What the page knows: what was decided, newest last, and what of it lies on which path when. Bounded; the oldest go.

import { contendedPath } from "./words.js";

/** Decisions that are kept of a coordinator at work. Of a recorded log all are: the log's part is bounded. */
const NEWS = 40_000;
/** Paths that have a lane. */
const LANES = 2_000;
/** Rows of one lane. */
const ROWS = 4;
/** Bars longer than this are looked at whatever time is shown. */
const LONG = 60e6;
/** Slots of which is kept how they kept their time. */
const SLOTS = 240;
const CONFLICTS = new Set(["refused", "waiting", "deadlock", "stale", "rejected", "revoked", "renew_denied"]);
/** Those that tell how much a path is in demand. */
const DEMAND = new Set(["refused", "waiting", "deadlock", "stale", "renew_denied"]);

const keyOf = (news) => `${news.agent}/${news.id}`;

/** The index of the first that is not before `at`. */
export function lowerBound(list, at, of) {
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (of(list[middle]) < at) low = middle + 1; else high = middle;
  }
  return low;
}

/** What lies on one path. */
class Lane {
  constructor(path) {
    Object.assign(this, { path, bars: [], long: [], conflicts: [], ends: [], gone: 0, latest: 0, frame: false });
  }

  add(bar) {
    this.latest = Math.max(this.latest, bar.at);
    if (bar.claim.shape) this.frame = true;
    if (bar.state !== "refused") this.place(bar);
    if (bar.until - bar.from > LONG) { this.lengthen(bar); return; }
    // Nearly in order: windows that begin later than those after them are few.
    let at = this.bars.length;
    while (at > 0 && this.bars[at - 1].from > bar.from) at -= 1;
    if (at === this.bars.length) this.bars.push(bar); else this.bars.splice(at, 0, bar);
  }

  /** The first row that is free then. */
  place(bar) {
    let row = this.ends.findIndex((end) => end <= bar.from);
    if (row < 0) row = this.ends.length < ROWS ? this.ends.push(0) - 1 : ROWS - 1;
    this.ends[row] = Math.max(this.ends[row], bar.until);
    bar.row = row;
  }

  /** A bar ends, or is prolonged. */
  end(bar, until) {
    if (bar.state !== "refused" && this.ends[bar.row] === bar.until) this.ends[bar.row] = until;
    bar.until = until;
    if (!bar.isLong && until - bar.from > LONG) this.lengthen(bar);
  }

  lengthen(bar) {
    bar.isLong = true;
    this.long.push(bar);
  }

  drop(count) {
    this.gone += count;
    if (this.gone < 256 && this.gone * 2 < this.bars.length) return;
    this.bars = this.bars.filter((bar) => !bar.gone && !bar.isLong);
    this.long = this.long.filter((bar) => !bar.gone);
    this.gone = 0;
  }

  /** Calls `see` with each bar that meets [from, until). */
  each(from, until, see) {
    for (const bar of this.long) if (!bar.gone && bar.from < until && bar.until > from) see(bar);
    const first = lowerBound(this.bars, from - LONG, (bar) => bar.from);
    for (let at = first; at < this.bars.length && this.bars[at].from < until; at += 1) {
      const bar = this.bars[at];
      if (bar.until > from && !bar.gone && !bar.isLong) see(bar);
    }
  }

  /** Conflicts in (from, until]. */
  conflictsIn(from, until) {
    const of = (it) => it.at;
    return lowerBound(this.conflicts, until + 1, of) - lowerBound(this.conflicts, from + 1, of);
  }
}

export class Model {
  constructor() { this.reset(); }

  reset() {
    this.news = []; this.conflicts = []; this.slots = [];
    this.lanes = new Map(); this.stories = new Map();
    this.live = new Map(); // key -> { token, bars, epoch }
    this.waiting = new Map(); // key -> { bars, news, epoch }
    this.epoch = 0; this.latest = 0; this.oldest = 0; this.keepsAll = false;
    this.outcomes = []; // [at, granted, conflicts] of each slot
    this.swept = 0;
  }

  /** A stream begins: what stood before is held against what is told. */
  begin() { this.epoch += 1; }

  slot(line) {
    this.latest = Math.max(this.latest, line.at);
    if (this.oldest === 0) this.oldest = line.at;
    if (line.times && this.slots.at(-1)?.slot !== line.slot) {
      this.slots.push(line.times);
      if (this.slots.length > 2 * SLOTS) this.slots.splice(0, SLOTS);
    }
    for (const news of line.news) this.take(news);
    if (this.latest - this.swept > 5e6) this.sweep();
  }

  held(list) { for (const news of list) this.hold(news); }

  /** All that stands was told: what was not, has ended unseen. */
  settled(at) {
    const unseen = (all) => {
      for (const [key, it] of all) {
        if (it.epoch === this.epoch || it.at > at) continue;
        this.close(it.bars, at, "unseen");
        all.delete(key);
      }
    };
    unseen(this.live);
    unseen(this.waiting);
  }

  /** Something that stands: known already, or from before what the page has seen. */
  hold(news) {
    const all = news.what === "granted" ? this.live : this.waiting;
    const known = all.get(keyOf(news));
    if (known && (news.what !== "granted" || known.token === news.token)) {
      known.epoch = this.epoch;
      return;
    }
    if (this.oldest === 0 || news.at < this.oldest) news = { ...news, early: true };
    this.take(news);
  }

  take(news) {
    const key = keyOf(news);
    switch (news.what) {
      case "granted": case "moved":
        this.endWait(key, news, "granted");
        if (this.live.get(key)?.token === news.token) return;
        this.endGrant(key, news, news.what === "moved" ? "moved" : "revised");
        this.live.set(key, { token: news.token, at: news.at, epoch: this.epoch, bars: this.lay(news, "granted") });
        break;
      case "waiting": this.wait(key, news); break;
      case "refused": case "deadlock": case "stale": case "rejected":
        news.waited = this.endWait(key, news, news.what);
        this.lay(news, "refused");
        break;
      case "released": case "expired":
        this.endWait(key, news, news.what);
        this.endGrant(key, news, news.what);
        break;
      case "revoked":
        this.endGrant(key, news, "revoked");
        if (news.goes_on) this.wait(key, news);
        break;
      case "renewed": this.renew(key, news); break;
    }
    this.keep(key, news);
  }

  keep(key, news) {
    this.news.push(news);
    const story = this.stories.get(key);
    if (story) story.push(news); else this.stories.set(key, [news]);
    if (CONFLICTS.has(news.what) && !news.again) {
      const before = this.conflicts.at(-1);
      if (!before || before.at <= news.at) this.conflicts.push(news);
      else this.conflicts.splice(lowerBound(this.conflicts, news.at + 1, (it) => it.at), 0, news);
      const path = contendedPath(news);
      // One that waited in vain was counted when it began to.
      if (path !== undefined && DEMAND.has(news.what) && !news.waited) this.lane(path).conflicts.push(news);
    }
    if (!this.keepsAll && this.news.length > NEWS * 1.02) this.forget(this.news.length - NEWS);
  }

  wait(key, news) {
    const known = this.waiting.get(key);
    if (known) {
      // Told again, since who is in the way or what is offered has changed.
      known.news = news;
      known.epoch = this.epoch;
      news.again = true;
      for (const bar of known.bars) bar.news = news;
      return;
    }
    const bars = this.lay(news, "waiting");
    this.waiting.set(key, { news, at: news.at, epoch: this.epoch, bars });
  }

  endWait(key, news, how) {
    const it = this.waiting.get(key);
    if (!it) return false;
    this.close(it.bars, news.at, how);
    this.waiting.delete(key);
    return true;
  }

  endGrant(key, news, how) {
    const it = this.live.get(key);
    if (!it) return;
    this.close(it.bars, news.at, how);
    this.live.delete(key);
  }

  close(bars, at, how) {
    for (const bar of bars) {
      if (bar.until <= at) continue;
      bar.lane.end(bar, Math.max(at, bar.from));
      bar.ended = how;
    }
  }

  renew(key, news) {
    const it = this.live.get(key);
    if (!it) return;
    it.bars.forEach((bar, at) => {
      const claim = news.claims[at];
      if (claim) bar.lane.end(bar, claim.until);
    });
  }

  lay(news, state) {
    const bars = news.claims.map((claim) => {
      const waits = state === "waiting";
      const from = waits ? news.arrived ?? news.at : claim.from;
      const until = waits ? Math.max(news.waits_until ?? news.at, from + 1) : claim.until;
      const lane = this.lane(claim.path);
      const bar = { lane, claim, news, state, from, until, at: news.at, moved: news.what === "moved", ended: null, gone: false, isLong: false, row: 0 };
      if (state === "refused") { bar.from = news.at; bar.until = news.at + 1; }
      lane.add(bar);
      return bar;
    });
    news.bars = bars;
    return bars;
  }

  lane(path) {
    let lane = this.lanes.get(path);
    if (!lane) {
      lane = new Lane(path);
      lane.latest = this.latest;
      this.lanes.set(path, lane);
      if (this.lanes.size > LANES) this.thin();
    }
    return lane;
  }

  /** The lanes on which nothing has happened for the longest time go, a quarter of them. */
  thin() {
    const quiet = [...this.lanes.values()].sort((a, b) => a.latest - b.latest).slice(0, LANES / 4);
    for (const lane of quiet) this.lanes.delete(lane.path);
  }

  /** Grants whose time is over are not told of. */
  sweep() {
    this.swept = this.latest;
    for (const [key, it] of this.live) if (it.bars.every((bar) => bar.until < this.latest)) this.live.delete(key);
    for (const [key, it] of this.waiting) if (it.bars.every((bar) => bar.until < this.latest - 2e6)) this.waiting.delete(key);
  }

  /** The oldest decisions go, but for those that still hold. */
  forget(count) {
    const old = this.news.splice(0, count);
    const touched = new Map();
    for (const news of old) {
      if (news.bars?.some((bar) => bar.until > this.latest)) { this.news.unshift(news); continue; }
      const key = keyOf(news), story = this.stories.get(key);
      if (story) {
        const at = story.indexOf(news);
        if (at >= 0) story.splice(at, 1);
        if (story.length === 0) this.stories.delete(key);
      }
      for (const bar of news.bars ?? []) {
        bar.gone = true;
        touched.set(bar.lane, (touched.get(bar.lane) ?? 0) + 1);
      }
    }
    touched.forEach((count, lane) => lane.drop(count));
    this.oldest = Math.max(this.oldest, old.at(-1)?.at ?? 0);
    const from = this.oldest;
    this.conflicts.splice(0, lowerBound(this.conflicts, from, (it) => it.at));
    for (const lane of this.lanes.values()) {
      if (lane.conflicts.length > 0 && lane.conflicts[0].at < from) {
        lane.conflicts.splice(0, lowerBound(lane.conflicts, from, (it) => it.at));
      }
    }
  }

  /** Who holds and who waits on a lane at `at`, as far as it was decided then. */
  standing(lane, at) {
    const holds = [], waits = [];
    lane.each(at, at + 1, (bar) => {
      if (bar.at > at) return;
      if (bar.state === "granted") holds.push(bar);
      if (bar.state === "waiting") waits.push(bar);
    });
    return { holds, waits };
  }

  story(news) { return this.stories.get(keyOf(news)) ?? []; }
}

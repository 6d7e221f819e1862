// A lane for each path, claims as bars, the time shown as a line.

import { Sheet } from "./canvas.js";
import { clock, span } from "./words.js";

const LABELS = 190, TOP = 20, ROW = 15, STRIP = 11, GAP = 6, NOW = 0.72;
/** How often lanes are put in order: they should not jump about. */
const ORDER_US = 2e6;
/** How tall the picture is, in px. */
const LEAST = 160, MOST = 440;
const SHORT = 3; // px: what is narrower is drawn without its edge

export class Timeline {
  constructor(canvas, model, time) {
    Object.assign(this, { canvas, model, time, sheet: new Sheet(canvas), order: [], ordered: 0, top: 0, chosen: -1, shown: [], filter: "" });
  }

  /** The lanes, those in demand first, then those where something happened last. */
  arrange(at, force) {
    const now = performance.now() * 1000;
    if (!force && now - this.ordered < ORDER_US && this.order.length > 0) return;
    this.ordered = now;
    const wanted = this.filter.toLowerCase();
    const from = at - this.time.span * NOW, until = from + this.time.span;
    const all = [];
    for (const lane of this.model.lanes.values()) {
      const heat = lane.conflictsIn(at - 60e6, at);
      let isSeen = heat > 0 || wanted !== "";
      if (!isSeen) lane.each(from, until, () => { isSeen = true; });
      if (isSeen && this.matches(lane, wanted, from, until)) all.push({ lane, heat });
    }
    all.sort((a, b) => b.heat - a.heat || (a.lane.path < b.lane.path ? -1 : 1));
    this.order = all;
    this.top = Math.max(0, Math.min(this.top, all.length - 1));
  }

  matches(lane, wanted, from, until) {
    if (wanted === "" || lane.path.toLowerCase().includes(wanted)) return true;
    let has = false;
    lane.each(from, until, (bar) => { has ||= bar.news.agent.toLowerCase().includes(wanted); });
    return has;
  }

  range() {
    const at = this.time.shown(), from = at - this.time.span * NOW;
    return { at, from, until: from + this.time.span };
  }

  draw(palette) {
    const context = this.sheet.begin(palette);
    if (!context) return;
    const { at, from, until } = this.range();
    this.arrange(at, false);
    const { width, height } = this.sheet;
    this.px = (width - LABELS) / this.time.span;
    this.x = (us) => LABELS + (us - from) * this.px;
    this.axis(context, palette, from, until, height);
    let y = TOP;
    this.shown = [];
    for (let index = this.top; index < this.order.length && y < Math.max(height, MOST) - ROW; index += 1) {
      const { lane, heat } = this.order[index];
      const { rows, strip } = this.rows(lane, from, until);
      const tall = rows * ROW + strip + GAP;
      this.shown.push({ lane, y, tall, index, rows });
      this.lane(context, palette, lane, heat, { y, tall, rows }, from, until, index === this.chosen);
      y += tall;
    }
    this.line(context, palette, at, height);
    this.fits(y);
  }

  /** The picture is as tall as its lanes, within bounds; it does not shrink for a little. */
  fits(tall) {
    const wanted = Math.max(LEAST, Math.min(Math.ceil(tall / 40) * 40, MOST));
    if (wanted > this.sheet.height || wanted < this.sheet.height - 80) this.canvas.style.height = `${wanted}px`;
  }

  /** How many rows of bars a lane has, and how tall the strip below is, with what was refused. */
  rows(lane, from, until) {
    let rows = 1, strip = 0;
    lane.each(from, until, (bar) => {
      if (bar.state === "refused") strip = STRIP;
      else if (bar.row >= rows) rows = bar.row + 1;
    });
    return { rows, strip };
  }

  axis(context, palette, from, until, height) {
    const steps = [0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600].map((s) => s * 1e6);
    const step = steps.find((us) => us * this.px >= 90) ?? 600e6;
    context.strokeStyle = palette.faint;
    context.fillStyle = palette.dim;
    context.lineWidth = 1;
    this.sheet.font(11);
    context.textBaseline = "middle";
    for (let us = Math.ceil(from / step) * step; us < until; us += step) {
      const x = Math.round(this.x(us)) + 0.5;
      context.beginPath();
      context.moveTo(x, TOP - 4);
      context.lineTo(x, height);
      context.stroke();
      this.sheet.text(clock(us).slice(0, step < 1e6 ? 10 : 8), x + 3, 8);
    }
  }

  lane(context, palette, lane, heat, { y, tall, rows }, from, until, isChosen) {
    if (isChosen) {
      context.fillStyle = palette.faint;
      context.fillRect(0, y - 2, this.sheet.width, tall);
    }
    context.strokeStyle = palette.line;
    context.beginPath();
    context.moveTo(0, y + tall - 2.5);
    context.lineTo(this.sheet.width, y + tall - 2.5);
    context.stroke();
    context.fillStyle = palette.ink;
    context.textBaseline = "middle";
    const count = heat > 0 ? `✕${heat}` : "";
    this.sheet.font(12, heat > 0 ? "bold" : "");
    const room = LABELS - 12 - (count.length + 1) * 7;
    // A long path is known by its end.
    const fits = Math.floor(room / this.sheet.advance);
    const path = lane.path.length > fits ? `…${lane.path.slice(-(fits - 1))}` : lane.path;
    this.sheet.text(path, 2, y + ROW / 2, room + 8);
    if (count) {
      context.fillStyle = palette.refused;
      this.sheet.font(11, "bold");
      context.textAlign = "right";
      this.sheet.text(count, LABELS - 8, y + ROW / 2);
      context.textAlign = "left";
    }
    context.save();
    context.beginPath();
    context.rect(LABELS, y - 2, this.sheet.width - LABELS, tall);
    context.clip();
    this.bars(context, palette, lane, y, rows, from, until);
    context.restore();
  }

  /** What is narrower than a pixel, and lies where something was drawn already, is left out. */
  bars(context, palette, lane, y, rows, from, until) {
    const drawn = new Map();
    const marks = [];
    lane.each(from, until, (bar) => {
      const left = this.x(Math.max(bar.from, from - 1e6)), right = this.x(Math.min(bar.until, until + 1e6));
      if (bar.state === "refused") { marks.push(bar); return; }
      const spot = bar.row * 4 + (bar.state === "waiting" ? 1 : 0);
      if (right - left < 1 && Math.floor(left) === drawn.get(spot)) return;
      drawn.set(spot, Math.floor(right));
      this.bar(context, palette, bar, left, right, y + bar.row * ROW);
    });
    this.marks(context, palette, marks, y + rows * ROW);
  }

  bar(context, palette, bar, left, right, y) {
    const tall = ROW - 2, wide = Math.max(right - left, 1);
    const isWaiting = bar.state === "waiting", isWhole = bar.claim.mode === "exclusive";
    if (isWaiting) context.fillStyle = wide < SHORT ? palette.waiting : this.sheet.hatch(palette.waitingFill, palette.waiting);
    else context.fillStyle = bar.moved ? palette.moved : isWhole ? palette.granted : palette.shared;
    context.fillRect(left, y, wide, tall);
    if (wide < SHORT) return;
    if (isWaiting) {
      context.strokeStyle = palette.waiting;
      context.setLineDash([4, 3]);
      context.strokeRect(left + 0.5, y + 0.5, wide - 1, tall - 1);
      context.setLineDash([]);
    } else {
      context.strokeStyle = isWhole ? palette.card : palette.granted;
      context.strokeRect(left + 0.5, y + 0.5, wide - 1, tall - 1);
    }
    if (wide < 26) return;
    const from = Math.max(left, LABELS) + 4;
    this.sheet.font(11);
    const sign = isWaiting ? "… " : bar.moved ? "➜ " : "";
    const units = bar.claim.mode === "units" ? ` ×${bar.claim.units}` : bar.claim.mode === "shared" ? " shared" : "";
    const label = `${sign}${bar.news.agent}${units}`;
    if (isWaiting) {
      // Letters on a ground of their own: the pattern would make them hard to read.
      context.fillStyle = palette.waitingFill;
      const width = Math.min(label.length * this.sheet.advance + 4, left + wide - from);
      context.fillRect(from - 2, y + 1.5, width, tall - 3);
    }
    context.fillStyle = isWaiting ? palette.waitingInk : bar.moved ? palette.movedInk : isWhole ? palette.grantedInk : palette.sharedInk;
    context.textBaseline = "middle";
    this.sheet.text(label, from, y + tall / 2 + 0.5, left + wide - from - 3);
    if (bar.ended === "revoked") {
      context.fillStyle = palette.refused;
      this.sheet.text("▼", left + wide - 9, y + tall / 2);
    }
  }

  /** Refusals, on a strip of their own: many in one place are one mark. */
  marks(context, palette, marks, y) {
    context.strokeStyle = palette.refused;
    context.lineWidth = 2;
    const drawn = new Set();
    context.beginPath();
    for (const bar of marks) {
      const x = Math.round(this.x(bar.news.at) / 4) * 4;
      if (drawn.has(x)) continue;
      drawn.add(x);
      context.moveTo(x - 3, y + 1); context.lineTo(x + 3, y + 7);
      context.moveTo(x + 3, y + 1); context.lineTo(x - 3, y + 7);
    }
    context.stroke();
    context.lineWidth = 1;
  }

  line(context, palette, at, height) {
    const x = Math.round(this.x(at));
    context.strokeStyle = context.fillStyle = palette.now;
    context.lineWidth = 2;
    context.beginPath();
    context.moveTo(x, 14);
    context.lineTo(x, height);
    context.stroke();
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(x - 5, 13); context.lineTo(x + 5, 13); context.lineTo(x, 19);
    context.fill();
    const label = this.time.isLive() ? "now" : "shown";
    this.sheet.font(11, "bold");
    const wide = label.length * this.sheet.advance + 8;
    context.fillRect(x - wide / 2, 0, wide, 14);
    context.fillStyle = palette.card;
    context.textAlign = "center";
    this.sheet.text(label, x, 7.5);
    context.textAlign = "left";
  }

  /** The bar at that place of the picture, or near it. */
  hit(x, y) {
    const spot = this.shown.find((it) => y >= it.y - 2 && y < it.y + it.tall - 2);
    if (!spot || !this.x || x < LABELS) return null;
    const { from } = this.range();
    const us = from + (x - LABELS) / this.px, reach = 5 / this.px;
    return this.nearest(spot.lane, us, reach, Math.floor((y - spot.y) / ROW), y >= spot.y + spot.rows * ROW);
  }

  nearest(lane, us, reach, row, onStrip) {
    let best = null, least = Infinity;
    lane.each(us - reach, us + reach, (bar) => {
      if ((bar.state === "refused") !== onStrip) return;
      const away = Math.max(bar.from - us, us - bar.until, 0) + (onStrip ? 0 : Math.abs(bar.row - row) * reach);
      if (away <= least && away <= 2 * reach) { best = bar; least = away; }
    });
    return best;
  }

  /** What lies on the chosen lane at the time shown: what waits there first. */
  onChosen() {
    const lane = this.order[this.chosen]?.lane;
    if (!lane) return null;
    const { holds, waits } = this.model.standing(lane, this.time.shown());
    const last = lane.conflicts.at(-1);
    return (waits[0] ?? holds[0])?.news ?? last ?? null;
  }

  choose(step) {
    if (this.order.length === 0) return;
    this.chosen = Math.max(0, Math.min(this.chosen + step, this.order.length - 1));
    if (this.chosen < this.top) this.top = this.chosen;
    const last = this.shown.at(-1)?.index ?? this.chosen;
    if (this.chosen > last) this.top += this.chosen - last;
  }

  /** Whether there were more lanes that way. */
  scroll(lanes) {
    const last = this.shown.at(-1);
    if (lanes > 0 && (!last || last.index >= this.order.length - 1)) return false;
    const before = this.top;
    this.top = Math.max(0, Math.min(this.top + lanes, this.order.length - 1));
    return this.top !== before;
  }

  note() {
    const count = this.order.length, first = this.top + 1, last = this.shown.at(-1)?.index + 1 || 0;
    if (count === 0) return this.filter ? "nothing on such a path, or of such an agent" : "nothing is claimed";
    const all = count === 1 ? "1 path" : `${count} paths`;
    return first === 1 && last >= count ? `${all}, those in demand first` : `${first} to ${last} of ${all}, those in demand first`;
  }

  describe() {
    const lane = this.order[this.chosen]?.lane;
    const base = `Timeline of claims over ${span(this.time.span)}, ${this.note()}.`;
    if (!lane) return `${base} Arrow keys choose a lane.`;
    const { holds, waits } = this.model.standing(lane, this.time.shown());
    return `${base} Lane ${this.chosen + 1}: ${lane.path}, held by ${holds.map((it) => it.news.agent).join(", ") || "nobody"}, ${waits.length} waiting.`;
  }
}

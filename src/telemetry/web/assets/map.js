// The regions of one frame, seen from above, at the time shown.

import { Sheet } from "./canvas.js";
import { visible } from "./words.js";

const MARGIN = 26;
/** Windows that begin within so long are drawn as what lies ahead. */
const AHEAD = 10e6;
/** For so long a refusal is shown. */
const REFUSED = 1.5e6;

export class FrameMap {
  constructor(section, canvas, select, model, time) {
    Object.assign(this, { section, canvas, select, model, time, sheet: new Sheet(canvas), frames: "", bounds: new Map(), drawn: [] });
  }

  /** The frames that have regions; the one with the most conflicts first. */
  choose() {
    const all = [...this.model.lanes.values()].filter((lane) => lane.frame).map((lane) => lane.path).sort();
    this.section.hidden = all.length === 0;
    const joined = all.join("\n");
    if (joined === this.frames) return;
    this.frames = joined;
    const kept = this.select.value;
    this.select.replaceChildren(...all.map((path) => {
      const option = document.createElement("option");
      option.value = path;
      option.textContent = visible(path);
      return option;
    }));
    if (all.includes(kept)) this.select.value = kept;
  }

  draw(palette) {
    if (this.section.hidden) return;
    const context = this.sheet.begin(palette);
    const lane = this.model.lanes.get(this.select.value);
    if (!context || !lane) return;
    const at = this.time.shown();
    const [held, ahead, waits, refused] = [[], [], [], []];
    lane.each(at - REFUSED, at + AHEAD, (bar) => {
      if (!bar.claim.shape || bar.at > at) return;
      this.grow(lane.path, bar.claim.shape);
      if (bar.state === "refused") refused.push(bar);
      else if (bar.until <= at) return;
      else if (bar.state === "waiting") waits.push(bar);
      else if (bar.from <= at) held.push(bar);
      else ahead.push(bar);
    });
    const box = this.bounds.get(lane.path);
    if (!box) return;
    this.fit(box);
    this.grid(context, palette);
    this.drawn = [];
    for (const bar of ahead) this.region(context, bar, { stroke: palette.granted, dash: [2, 4] });
    for (const bar of held) this.region(context, bar, { fill: bar.claim.mode === "exclusive" ? palette.granted : palette.shared, alpha: 0.75, stroke: palette.granted });
    for (const bar of waits) this.region(context, bar, { fill: this.sheet.hatch(palette.waitingFill, palette.waiting), alpha: 0.8, stroke: palette.waiting, dash: [5, 3] });
    for (const bar of refused) this.region(context, bar, { stroke: palette.refused, dash: [1, 3], cross: true });
    this.labels(context, palette, [[refused, "✕ ", palette.refused, 14], [waits, "… ", palette.waiting, 14], [held, "", palette.ink, 0]]);
  }

  grow(path, shape) {
    const box = this.bounds.get(path) ?? [Infinity, Infinity, -Infinity, -Infinity];
    for (const [x, y] of shape) {
      box[0] = Math.min(box[0], x); box[1] = Math.min(box[1], y);
      box[2] = Math.max(box[2], x); box[3] = Math.max(box[3], y);
    }
    this.bounds.set(path, box);
  }

  fit([left, low, right, high]) {
    const wide = this.sheet.width - 2 * MARGIN, tall = this.sheet.height - 2 * MARGIN;
    this.perMetre = Math.min(wide / (right - left), tall / (high - low));
    this.x = (x) => this.sheet.width / 2 + (x - (left + right) / 2) * this.perMetre;
    this.y = (y) => this.sheet.height / 2 - (y - (low + high) / 2) * this.perMetre;
    this.box = [left, low, right, high];
  }

  grid(context, palette) {
    const rough = 60 / this.perMetre, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
    const [left, low, right, high] = this.box;
    context.strokeStyle = palette.faint;
    context.lineWidth = 1;
    context.beginPath();
    const pad = MARGIN / this.perMetre;
    for (let x = Math.ceil((left - pad) / step) * step; x <= right + pad; x += step) {
      context.moveTo(Math.round(this.x(x)) + 0.5, 0); context.lineTo(Math.round(this.x(x)) + 0.5, this.sheet.height);
    }
    for (let y = Math.ceil((low - pad) / step) * step; y <= high + pad; y += step) {
      context.moveTo(0, Math.round(this.y(y)) + 0.5); context.lineTo(this.sheet.width, Math.round(this.y(y)) + 0.5);
    }
    context.stroke();
    context.fillStyle = context.strokeStyle = palette.dim;
    const y = this.sheet.height - 8, x = 10, long = step * this.perMetre;
    context.beginPath();
    context.moveTo(x, y - 4); context.lineTo(x, y); context.lineTo(x + long, y); context.lineTo(x + long, y - 4);
    context.stroke();
    this.sheet.font(11);
    context.textBaseline = "middle";
    this.sheet.text(`${Number(step.toPrecision(3))} m`, x + long + 6, y - 3);
  }

  region(context, bar, { fill, alpha = 1, stroke, dash = [], cross = false }) {
    const shape = bar.claim.shape;
    context.beginPath();
    shape.forEach(([x, y], corner) => (corner === 0 ? context.moveTo(this.x(x), this.y(y)) : context.lineTo(this.x(x), this.y(y))));
    context.closePath();
    if (fill) {
      context.globalAlpha = alpha;
      context.fillStyle = fill;
      context.fill();
      context.globalAlpha = 1;
    }
    context.strokeStyle = stroke;
    context.lineWidth = 1.5;
    context.setLineDash(dash);
    context.stroke();
    context.setLineDash([]);
    const [x, y] = this.middle(shape);
    if (cross) {
      context.lineWidth = 2.5;
      context.beginPath();
      context.moveTo(x - 5, y - 5); context.lineTo(x + 5, y + 5);
      context.moveTo(x + 5, y - 5); context.lineTo(x - 5, y + 5);
      context.stroke();
    }
    this.drawn.push({ bar, x, y });
  }

  middle(shape) {
    const sum = shape.reduce(([a, b], [x, y]) => [a + x, b + y], [0, 0]);
    return [this.x(sum[0] / shape.length), this.y(sum[1] / shape.length)];
  }

  /** Names, on a ground of their own; of one agent once, and where there is room for them. */
  labels(context, palette, groups) {
    this.sheet.font(11, "bold");
    context.textAlign = "center";
    context.textBaseline = "middle";
    const told = new Set(), placed = [];
    for (const [bars, sign, ink, below] of groups) {
      for (const bar of bars) {
        const label = `${sign}${bar.news.agent}`;
        if (told.has(label) || told.size > 60) continue;
        const [x, at] = this.middle(bar.claim.shape);
        const y = at + below, wide = Math.min(label.length * this.sheet.advance + 6, 130);
        if (placed.some((it) => Math.abs(it.y - y) < 14 && Math.abs(it.x - x) < (it.wide + wide) / 2)) continue;
        placed.push({ x, y, wide });
        told.add(label);
        context.fillStyle = palette.card;
        context.globalAlpha = 0.85;
        context.fillRect(x - wide / 2, y - 7, wide, 14);
        context.globalAlpha = 1;
        context.fillStyle = ink;
        this.sheet.text(label, x, y + 0.5, wide);
      }
    }
    context.textAlign = "left";
  }

  hit(x, y) {
    const near = this.drawn.map((it) => ({ bar: it.bar, away: Math.hypot(it.x - x, it.y - y) }));
    near.sort((a, b) => a.away - b.away);
    return near[0] && near[0].away < 60 ? near[0].bar : null;
  }
}

// The last slots: how late the loop woke for each, and what its work was made of.

import { Sheet } from "./canvas.js";
import { span } from "./words.js";

const SHOWN = 120, LEFT = 58, TOP = 14, BOTTOM = 6;
const PHASES = ["lag", "collect", "resolve", "persist", "publish"];

export class SlotBar {
  constructor(canvas, model) { Object.assign(this, { canvas, model, sheet: new Sheet(canvas), length: 10_000 }); }

  draw(palette) {
    const context = this.sheet.begin(palette);
    if (!context) return;
    const slots = this.model.slots.slice(-SHOWN);
    const { width, height } = this.sheet;
    const tall = height - TOP - BOTTOM, base = height - BOTTOM;
    // A few that took far longer would make all others flat: they reach beyond, and are marked.
    const spans = slots.map((slot) => slot.done_us).sort((a, b) => a - b);
    const top = this.scale((spans[Math.floor(spans.length * 0.95)] ?? 0) * 1.3);
    const y = (us) => base - Math.min(us / top, 1) * tall;
    this.axis(context, palette, top, y);
    const wide = (width - LEFT) / SHOWN;
    slots.forEach((slot, at) => {
      const x = LEFT + (at + SHOWN - slots.length) * wide;
      let sum = 0;
      for (const phase of PHASES) {
        const us = slot[`${phase}_us`];
        const [low, high] = [y(sum), y(sum + us)];
        context.fillStyle = this.fill(phase, palette);
        context.fillRect(x + 0.5, high, Math.max(wide - 1, 1), Math.max(low - high, us > 0 ? 0.5 : 0));
        sum += us;
      }
      const mark = slot.result !== "ok" ? "▲" : sum > top ? "↑" : "";
      if (mark) {
        context.fillStyle = mark === "▲" ? palette.refused : palette.ink;
        this.sheet.font(12, "bold");
        context.textAlign = "center";
        this.sheet.text(mark, x + wide / 2, 7);
        context.textAlign = "left";
      }
    });
  }

  /** The top of the scale: a round figure above all that is shown. */
  scale(most) {
    const rough = Math.max(most * 1.1, this.length / 50);
    const power = 10 ** Math.floor(Math.log10(rough));
    const round = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
    // Much later than a slot, only that counts.
    return Math.min(round, this.length * 2);
  }

  axis(context, palette, top, y) {
    this.sheet.font(11);
    context.textBaseline = "middle";
    context.lineWidth = 1;
    for (const part of [0, 0.5, 1]) {
      const at = Math.round(y(top * part)) + 0.5;
      context.strokeStyle = palette.faint;
      context.beginPath();
      context.moveTo(LEFT, at); context.lineTo(this.sheet.width, at);
      context.stroke();
      context.fillStyle = palette.dim;
      context.textAlign = "right";
      if (part > 0) this.sheet.text(span(top * part), LEFT - 6, at);
    }
    context.textAlign = "left";
    if (top >= this.length) {
      const at = Math.round(y(this.length)) + 0.5;
      context.strokeStyle = palette.ink;
      context.setLineDash([6, 3]);
      context.beginPath();
      context.moveTo(LEFT, at); context.lineTo(this.sheet.width, at);
      context.stroke();
      context.setLineDash([]);
      context.fillStyle = palette.ink;
      this.sheet.text("the next slot's turn", LEFT + 4, at - 8);
    }
  }

  fill(phase, palette) {
    if (phase === "persist") return this.sheet.hatch(palette.persist, palette.card);
    if (phase === "lag") {
      return this.sheet.pattern("lag", 4, (tile) => {
        tile.fillStyle = palette.lag;
        tile.fillRect(0, 0, 2, 4);
      });
    }
    if (phase === "publish") {
      return this.sheet.pattern("publish", 5, (tile) => {
        tile.fillStyle = palette.publish;
        tile.fillRect(0, 0, 5, 5);
        tile.fillStyle = palette.card;
        tile.fillRect(1, 1, 2, 2);
      });
    }
    return palette[phase];
  }

  note() {
    const slots = this.model.slots.slice(-SHOWN);
    const last = slots.at(-1);
    if (!last) return "no slot with work yet";
    const late = slots.filter((slot) => slot.result !== "ok").length;
    const worst = Math.max(...slots.map((slot) => slot.done_us));
    return `last ${span(last.done_us)} of ${span(this.length)} · worst of ${slots.length} ${span(worst)} · late ${late}`;
  }
}

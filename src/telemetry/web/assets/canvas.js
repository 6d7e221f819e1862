// What the pictures have in common: sharp at any scale, colours of the page, text that fits.

import { visible } from "./words.js";

const NAMES = ["paper", "card", "ink", "dim", "line", "faint", "focus", "granted", "granted-ink", "shared", "shared-ink", "moved",
  "moved-ink", "waiting", "waiting-fill", "waiting-ink", "refused", "now", "lag", "collect", "resolve", "persist", "publish"];

/** The page's colours, as they are now: light or dark. */
export function colours() {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(NAMES.map((name) => [name.replace(/-(\w)/g, (_, c) => c.toUpperCase()), style.getPropertyValue(`--${name}`).trim()]));
}

export class Sheet {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.patterns = new Map();
    new ResizeObserver(() => { this.width = 0; }).observe(canvas);
    this.width = 0;
  }

  /** A clean sheet, in CSS pixels. `null` where nothing of it is seen. */
  begin(palette) {
    const { canvas, context } = this;
    if (this.width === 0) {
      this.width = canvas.clientWidth;
      this.height = canvas.clientHeight;
      const scale = Math.min(window.devicePixelRatio || 1, 2);
      canvas.width = Math.round(this.width * scale);
      canvas.height = Math.round(this.height * scale);
      this.scale = scale;
    }
    if (this.width === 0) return null;
    if (this.palette !== palette) { this.palette = palette; this.patterns.clear(); }
    context.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    return context;
  }

  font(size, weight = "") {
    this.context.font = `${weight} ${size}px ui-monospace, "DejaVu Sans Mono", monospace`;
    this.advance = size * 0.602; // of a letter of these faces, all alike
  }

  /** Text, cut to `width`. Names of others are shown letter by letter, whatever is in them. */
  text(text, x, y, width = Infinity) {
    let shown = visible(text);
    const room = Math.floor(width / this.advance);
    if (shown.length > room) {
      if (room < 3) return;
      shown = `${shown.slice(0, room - 1)}…`;
    }
    this.context.fillText(shown, x, y, Number.isFinite(width) ? width : undefined);
  }

  /** A pattern of `draw` on a tile, kept until the colours change. */
  pattern(name, size, draw) {
    let pattern = this.patterns.get(name);
    if (!pattern) {
      const tile = document.createElement("canvas");
      tile.width = tile.height = size;
      draw(tile.getContext("2d"), size);
      pattern = this.context.createPattern(tile, "repeat");
      this.patterns.set(name, pattern);
    }
    return pattern;
  }

  /** Slanted lines: what waits. */
  hatch(ground, ink) {
    return this.pattern(`hatch ${ground} ${ink}`, 8, (tile, size) => {
      tile.fillStyle = ground;
      tile.fillRect(0, 0, size, size);
      tile.strokeStyle = ink;
      tile.lineWidth = 1.2;
      for (const x of [-size, 0, size]) {
        tile.beginPath();
        tile.moveTo(x, size);
        tile.lineTo(x + size, 0);
        tile.stroke();
      }
    });
  }
}

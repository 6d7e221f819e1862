// The time that is shown: the coordinator's, as it goes on, or one that was chosen.

/** Steps of the scrubber. */
const STEPS = 1000;

export class Clock {
  constructor() {
    this.offset = null; // coordinator time less the page's own, both in µs
    this.chosen = null; // a time that stands still, or null: live
    this.span = 30e6;
    this.part = null; // of a recorded log: [from, until]
    this.playing = null; // when playing began: [own time, shown time]
  }

  own() { return performance.now() * 1000; }

  /** The coordinator said what its time is. The least delayed word counts; slowly, older ones are forgotten. */
  hear(now) {
    const offset = now - this.own();
    this.offset = this.offset === null || offset > this.offset ? offset : this.offset - Math.min(this.offset - offset, 2000);
  }

  now() {
    if (this.part) return this.part[1];
    return this.offset === null ? 0 : this.own() + this.offset;
  }

  /** The time that is shown. */
  shown() {
    if (this.playing) {
      const at = this.playing[1] + this.own() - this.playing[0];
      if (at < this.now()) return at;
      this.chosen = this.now();
      this.playing = null;
    }
    return this.chosen ?? this.now();
  }

  isLive() { return this.chosen === null && !this.part; }

  choose(at, oldest) {
    this.playing = null;
    const now = this.now();
    this.chosen = Math.max(Math.min(at, now), Math.min(oldest, now));
    if (!this.part && this.chosen >= now - 50e3) this.chosen = null;
  }

  live() { this.playing = null; this.chosen = this.part ? this.part[1] : null; }

  play(oldest) {
    if (this.playing) { this.chosen = this.shown(); this.playing = null; return; }
    const from = this.shown() >= this.now() - 1000 ? oldest : this.shown();
    this.playing = [this.own(), from];
  }

  /** Where the scrubber stands, and what it means. */
  toStep(oldest) {
    const all = this.now() - oldest;
    return all <= 0 ? STEPS : Math.round(STEPS * (this.shown() - oldest) / all);
  }

  fromStep(step, oldest) { return oldest + (this.now() - oldest) * step / STEPS; }
}

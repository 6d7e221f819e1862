// The coordinator's events. They are read off in small parts, so that no part holds up the page.

/** Events that may wait; more are read at once, as they come. */
const WAITING = 64;
const RETRY_MS = 2000;

export class Stream {
  /** `take(name, data)` is given each event; `tell(text, isGood)` how the connection is. */
  constructor(place, take, tell) {
    Object.assign(this, { place, take, tell, queue: [], source: null, isDone: false });
    this.open();
  }

  open() {
    this.queue.length = 0;
    const source = this.source = new EventSource(this.place);
    for (const name of ["begin", "slots", "held", "settled"]) {
      source.addEventListener(name, (event) => {
        this.queue.push([name, event.data]);
        if (this.queue.length > WAITING) this.next();
      });
    }
    source.addEventListener("error", () => {
      source.close();
      if (this.isDone) return;
      this.tell("no connection; trying again", false);
      setTimeout(() => { if (!this.isDone) this.open(); }, RETRY_MS);
    });
  }

  /** All has been told: nothing more is asked for. */
  done() {
    this.isDone = true;
    this.source.close();
  }

  /** Reads what waits, for up to `budget` ms. */
  pump(budget) {
    const until = performance.now() + budget;
    while (this.queue.length > 0 && performance.now() < until) this.next();
  }

  next() {
    const [name, data] = this.queue.shift();
    this.take(name, JSON.parse(data));
  }
}

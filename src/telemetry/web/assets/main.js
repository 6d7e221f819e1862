// The page: what comes is read off and drawn in small parts, one a frame of the screen.

import { colours } from "./canvas.js";
import { Clock } from "./clock.js";
import { Demand, Feed, Story } from "./lists.js";
import { FrameMap } from "./map.js";
import { Model } from "./model.js";
import { SlotBar } from "./slots.js";
import { Stream } from "./stream.js";
import { Timeline } from "./timeline.js";
import { clock, seen } from "./words.js";

const get = (id) => document.getElementById(id);
const model = new Model(), time = new Clock();
const timeline = new Timeline(get("timeline"), model, time);
const map = new FrameMap(get("map-section"), get("map"), get("frame"), model, time);
const slots = new SlotBar(get("slots"), model);
const story = new Story(get("story"), get("story-title"), get("story-body"), get("story-close"), model, time);
const open = (news) => { if (news) story.open(news); };
const demand = new Demand(get("contended").tBodies[0], get("contended-note"), model, time, open);
const feed = new Feed(get("feed"), get("feed-note"), model, time, open);

/** What the top line says: how the connection and the coordinator are. */
const state = { connection: "connecting…", isGood: false, health: null, missed: 0, kind: "live", part: null };
let palette = colours();

function tell(text, isGood) { Object.assign(state, { connection: text, isGood }); }

function take(name, data) {
  if (data.now !== undefined && state.kind === "live") time.hear(data.now);
  switch (name) {
    case "begin":
      if (data.kind !== state.kind || data.missed === 0) model.reset();
      Object.assign(state, { kind: data.kind, part: data.part ?? null, health: null });
      state.missed += data.missed;
      slots.length = data.slot_us;
      model.begin();
      time.offset = null;
      if (data.part) beginRecorded(data.part);
      tell(data.part ? "reading the log…" : "live", true);
      break;
    case "held": model.held(data.held); break;
    case "slots":
      state.health = data.health ?? null;
      for (const line of data.slots) {
        if (line.left_out) state.missed += 1;
        model.slot(line);
      }
      break;
    case "settled":
      if (state.part) { stream.done(); tell("a recorded log", true); }
      else if (data.complete) model.settled(data.at);
      break;
  }
}

function beginRecorded(part) {
  time.part = [part.from, part.until];
  time.chosen = part.until;
  model.keepsAll = true;
  model.oldest = part.from;
  get("slots-section").hidden = true;
  get("live").lastChild.textContent = "End";
  get("play").hidden = false;
  const whole = (part.until - part.from) / 1e6;
  const fits = [...get("span").options].find((option) => Number(option.value) >= whole) ?? get("span").options[get("span").options.length - 1];
  get("span").value = fits.value;
  time.span = Number(fits.value) * 1e6;
}

const stream = new Stream("page/events", take, tell);

function say(node, text) { if (node.textContent !== text) node.textContent = text; }

function showTop() {
  const { part, health, missed } = state;
  const isBad = !state.isGood || health !== null;
  get("state").className = isBad ? "bad" : "good";
  say(get("state"), health ?? (part ? `${state.connection}${part.more_before ? ", more before" : ""}${part.more_after ? ", more after" : ""}` : state.connection));
  const at = time.shown();
  let granted = 0;
  for (const it of model.live.values()) if (it.bars.some((bar) => bar.from <= at && bar.until > at)) granted += 1;
  const rates = `${count(model.news, at - 1e6, at)} decisions and ${count(model.conflicts, at - 1e6, at)} conflicts within a second`;
  const standing = time.isLive() ? ` · ${granted} grants in force, ${model.waiting.size} wait` : "";
  const unseen = missed ? ` · ${missed} slots were not seen: read too slowly` : "";
  say(get("figures"), rates + standing + unseen);
  const oldest = model.oldest || at;
  say(get("clock"), at === 0 ? "" : time.isLive() ? clock(at).slice(0, 10) : `${clock(at)}, ${seen(at, time.now())}`);
  get("live").setAttribute("aria-pressed", String(time.chosen === null || (part !== null && at >= part.until)));
  get("play").setAttribute("aria-pressed", String(time.playing !== null));
  say(get("play"), time.playing ? "❚❚ Pause" : "▶ Play");
  if (document.activeElement !== get("scrub") || time.isLive() || time.playing) get("scrub").value = String(time.toStep(oldest));
  get("scrub").setAttribute("aria-valuetext", clock(at));
}

/** How many of a list, the latest last, are of (from, until]. */
const count = (list, from, until) => {
  let sum = 0;
  for (let at = list.length - 1; at >= 0 && list[at].at > from; at -= 1) if (list[at].at <= until) sum += 1;
  return sum;
};

function showNotes() {
  say(get("lanes-note"), timeline.note());
  say(get("slots-note"), slots.note());
  const described = timeline.describe();
  if (get("timeline").getAttribute("aria-label") !== described) get("timeline").setAttribute("aria-label", described);
}

/** Each part, and how often it is drawn, in ms. */
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const parts = [
  { every: 50, draw: () => timeline.draw(palette) },
  { every: 100, draw: () => map.draw(palette) },
  { every: 200, draw: () => slots.draw(palette) },
  { every: 250, draw: showTop },
  { every: 400, draw: () => demand.show() },
  { every: 400, draw: () => feed.show() },
  { every: 500, draw: () => story.show() },
  { every: 1000, draw: () => { map.choose(); showNotes(); } },
].map((part) => ({ ...part, due: 0 }));

/** Reads for a while, then draws the one part that is longest due: no frame does more. */
function frame(now) {
  stream.pump(6);
  const slow = calm.matches ? 10 : 1;
  let next = null;
  for (const part of parts) if (part.due <= now && (!next || part.due < next.due)) next = part;
  if (next) {
    next.due = now + next.every * slow;
    next.draw();
  }
  requestAnimationFrame(frame);
}
requestAnimationFrame(frame);

/** After something was done by hand, all is drawn anew. */
function anew() { for (const part of parts) part.due = 0; }

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { palette = colours(); anew(); });

function move(us) { time.choose(time.shown() + us, model.oldest); anew(); }

function zoom(step) {
  const select = get("span");
  const index = Math.max(0, Math.min(select.selectedIndex + step, select.options.length - 1));
  select.selectedIndex = index;
  time.span = Number(select.value) * 1e6;
  anew();
}

function toggle() {
  if (state.part) time.play(state.part.from);
  else if (time.isLive()) time.choose(time.now() - 60e3, model.oldest);
  else time.live();
  anew();
}

function showKeys(isShown) {
  get("help").hidden = !isShown;
  get("keys").setAttribute("aria-expanded", String(isShown));
}

get("live").addEventListener("click", () => { time.live(); anew(); });
get("play").addEventListener("click", toggle);
get("scrub").addEventListener("input", (event) => { time.choose(time.fromStep(Number(event.target.value), model.oldest), model.oldest); anew(); });
get("span").addEventListener("change", () => zoom(0));
get("filter").addEventListener("input", (event) => { timeline.filter = event.target.value; timeline.top = 0; timeline.chosen = -1; timeline.arrange(time.shown(), true); anew(); });
get("keys").addEventListener("click", () => showKeys(get("help").hidden));
get("frame").addEventListener("change", anew);

const place = (event) => { const box = event.target.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
get("timeline").addEventListener("click", (event) => open(timeline.hit(...place(event))?.news));
get("map").addEventListener("click", (event) => open(map.hit(...place(event))?.news));
get("timeline").addEventListener("wheel", (event) => {
  if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) move((event.deltaX || event.deltaY) / 600 * time.span);
  else if (!timeline.scroll(Math.sign(event.deltaY))) return; // the page itself scrolls on
  event.preventDefault();
  anew();
}, { passive: false });

const KEYS = {
  " ": toggle, ArrowLeft: () => move(-time.span / 20), ArrowRight: () => move(time.span / 20),
  ArrowUp: () => timeline.choose(-1), ArrowDown: () => timeline.choose(1), PageUp: () => timeline.scroll(-5), PageDown: () => timeline.scroll(5),
  Enter: () => open(timeline.onChosen()), "+": () => zoom(-1), "=": () => zoom(-1), "-": () => zoom(1), "/": () => get("filter").focus(),
  "?": () => showKeys(get("help").hidden),
};
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") {
    if (!story.close()) { showKeys(false); document.activeElement?.blur?.(); }
    return;
  }
  const on = event.target;
  const isOwn = on.matches("input, select, textarea") || (on.matches("button") && (event.key === " " || event.key === "Enter"));
  if (isOwn || !KEYS[event.key]) return;
  KEYS[event.key]();
  anew();
  event.preventDefault();
});

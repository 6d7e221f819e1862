// Drives the coordinator's web page in a real browser: what it shows, by keyboard too, whether names that look like
// markup stay texts, how long its tasks take under load, and what it looks like in light and dark.
//
//   npm ci && node check.mjs --preclaim ../../target/release/preclaim --seconds 60 --out shots
//
// Chromium is /usr/bin/chromium, or what CHROMIUM names. Ends with 1 where something is not as it should be.

import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { chromium } from "playwright-core";

const { values: options } = parseArgs({ options: {
  preclaim: { type: "string", default: "../../target/release/preclaim" },
  bench: { type: "string" }, // another build of it for the load
  seconds: { type: "string", default: "60" },
  out: { type: "string", default: "shots" },
} });
const preclaim = resolve(options.preclaim), bench = resolve(options.bench ?? options.preclaim);
const out = resolve(options.out), seconds = Number(options.seconds);
const AGENTS = 200, RATE = 5; // of each agent a second: 1,000 decisions
const LONGEST_MS = 50;
const HOSTILE = `<img src=x onerror="window.hit=1">\u202e"'&`;
const BROWSER = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync"];

const place = mkdtempSync(join(tmpdir(), "preclaim-page-"));
mkdirSync(out, { recursive: true });
const failures = [], ends = [];

function check(what, isRight, found = "") {
  console.log(`${isRight ? "ok  " : "FAIL"}  ${what}${found === "" ? "" : `: ${found}`}`);
  if (!isRight) failures.push(what);
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

/** Starts a program; resolves with what `wanted` finds in what it says. */
function start(program, args, wanted) {
  const child = spawn(program, args, { cwd: place, stdio: ["ignore", "ignore", "pipe"] });
  const ended = new Promise((done) => child.once("exit", done));
  const end = async (signal = "SIGTERM") => { child.kill(signal); await ended; };
  ends.push(end);
  return new Promise((found, lost) => {
    let said = "";
    child.stderr.on("data", (data) => {
      said += data;
      const all = wanted.map((pattern) => pattern.exec(said)?.[1]);
      if (all.every(Boolean)) found({ all, end });
    });
    ended.then((code) => lost(new Error(`${program} ${args.join(" ")} ended with ${code}: ${said}`)));
  });
}

/** A coordinator with a log, whose page is on. */
function coordinator() {
  execFileSync(preclaim, ["certs", "init"], { cwd: place, stdio: "ignore" });
  execFileSync(preclaim, ["certs", "server", "localhost", "127.0.0.1"], { cwd: place, stdio: "ignore" });
  writeFileSync(join(place, "preclaim.toml"), `[listen]\naddr = "127.0.0.1:0"\n[tls]\ncert = "certs/server.crt"\nkey = "certs/server.key"
[auth]\nmode = "open"\n[state]\ndir = "state"\ndurability = "interval"\n[metrics]\naddr = "127.0.0.1:0"\npage = true
[[resource]]\npath = "llm/acct1"\ncapacity = 10\n`);
  return start(preclaim, ["serve", "--config", "preclaim.toml", "--new"], [/listening on (\S+)/, /seen at (\S+)/]);
}

/** A small site at work: one schema that many want, an account of ten units, robots in a yard. */
async function work(addr) {
  let isOver = false;
  const children = new Set();
  const declare = (name, ...args) => new Promise((done) => {
    if (isOver) { done(); return; }
    const child = spawn(preclaim, ["declare", ...args, "--name", name, "--addr", addr, "--ca", "certs/ca.crt"], { cwd: place, stdio: "ignore" });
    children.add(child);
    child.once("exit", () => { children.delete(child); done(); });
  });
  const again = async (ms, what) => { for (let turn = 0; !isOver; turn += 1) { await what(turn); await pause(ms); } };
  const robot = (nth) => (turn) => {
    const x = (turn * 3 + nth * 9) % 48, y = nth * 4 + (turn % 3);
    return declare(`robot-${nth}`, `map/yard@${x},${y}..${x + 9},${y + 5}`, "--for", "3s");
  };
  const migrate = () => declare("planner-2", "db/schema", "--for", "20s", "--hold", "--note", "migration 41");
  await migrate(); // before all who want it too
  const all = [
    again(200, migrate),
    again(1500, () => declare("ci-runner", "db/schema", "--for", "4s")),
    again(2500, () => declare("analyst", "db/schema/orders", "--for", "2s")),
    again(500, () => declare("backup", "db/schema", "--for", "2s", "--wait", "25s")),
    again(1800, () => declare(HOSTILE, "file/<b>bold</b>", "--for", "2s")),
    again(1100, () => declare("writer-1", "file/<b>bold</b>", "--for", "1s")),
    ...[1, 2, 3].map((nth) => again(900, () => declare(`llm-${nth}`, "llm/acct1:4", "--for", "2500ms"))),
    ...[1, 2, 3, 4].map((nth) => again(700, robot(nth))),
  ];
  ends.push(async () => { isOver = true; children.forEach((child) => child.kill()); await Promise.all(all); });
  return ends.at(-1);
}

async function open(browser, url, colorScheme) {
  const page = await browser.newPage({ viewport: { width: 1400, height: 1080 }, colorScheme });
  const wrong = [];
  page.on("console", (message) => { if (["error", "warning"].includes(message.type())) wrong.push(message.text()); });
  page.on("pageerror", (error) => wrong.push(error.stack));
  page.on("request", (request) => { if (!request.url().startsWith(new URL(url).origin) && !request.url().startsWith("data:")) wrong.push(request.url()); });
  await page.addInitScript(() => {
    window.tasks = [];
    new PerformanceObserver((list) => window.tasks.push(...list.getEntries().map((it) => Math.round(it.duration)))).observe({ type: "longtask", buffered: true });
  });
  await page.goto(url);
  await page.waitForFunction(() => document.getElementById("state").className === "good" && document.getElementById("state").textContent !== "connecting…");
  return { page, wrong };
}

const text = (page, selector) => page.locator(selector).innerText();

/** What a reader sees within the first minute. */
async function plain(page) {
  await page.waitForFunction(() => /db\/schema/.test(document.querySelector("#contended tbody").innerText), null, { timeout: 20_000 });
  const row = page.locator("#contended tbody tr", { hasText: "db/schema" }).first();
  await page.waitForFunction(() => [...document.querySelectorAll("#contended tbody tr")].some((row) => /db\/schema/.test(row.innerText) && /planner-2/.test(row.innerText)), null, { timeout: 20_000 });
  check("the path in demand and who holds it", true, (await row.innerText()).replaceAll(/\s+/g, " "));
  check("who waits for it", /backup/.test(await row.innerText()));
  check("the map has its frame", await page.locator("#map-section").isVisible());
  check("the slots are told", /last .* of 10/.test(await text(page, "#slots-note")), await text(page, "#slots-note"));
}

/** Names are texts, whatever is in them. */
async function hostile(page) {
  await page.waitForFunction(() => /file\/<b>bold<\/b>/.test(document.getElementById("feed").textContent), null, { timeout: 30_000 });
  const found = await page.evaluate(() => ({
    images: document.images.length, bold: document.querySelectorAll("main b").length, hit: window.hit ?? 0,
    shown: document.getElementById("feed").textContent.includes("<img src=x onerror=\"window.hit=1\">\\u{202e}\"'&"),
  }));
  check("markup in names makes no elements and runs nothing", found.images === 0 && found.bold === 0 && found.hit === 0, JSON.stringify(found));
  check("such a name is shown letter by letter, with what turns a line round made visible", found.shown);
}

/** All of it by keyboard. */
async function keyboard(page) {
  await page.locator("body").press("/");
  check("/ goes to the search", await page.evaluate(() => document.activeElement.id === "filter"));
  await page.keyboard.type("db/schema");
  await page.keyboard.press("Escape");
  await pause(300);
  check("lanes are found", /^[12] paths?/.test(await text(page, "#lanes-note")) || /1 path/.test(await text(page, "#lanes-note")), await text(page, "#lanes-note"));
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.locator("#story").waitFor({ state: "visible" });
  const story = await text(page, "#story");
  check("a lane's story: who asked", /who asked/i.test(story) && /agent \S+, intent \d+/.test(story), (await text(page, "#story-title")));
  await page.keyboard.press("Escape");
  check("Esc closes it", !(await page.locator("#story").isVisible()));
  await page.locator("#filter").fill("");
  await page.locator("#filter").press("Escape");
  await page.keyboard.press("Space");
  await pause(1300);
  check("Space stops the time", /ago/.test(await text(page, "#clock")), await text(page, "#clock"));
  const before = await text(page, "#clock");
  await page.keyboard.press("ArrowLeft");
  await pause(400);
  check("← goes back", (await text(page, "#clock")) !== before);
  await page.keyboard.press("Space");
  await pause(400);
  check("Space goes on", !/ago/.test(await text(page, "#clock")));
}

/** From a conflict to who is in its way and until when. */
async function stories(page) {
  const entry = page.locator("#feed button", { hasText: "ci-runner" }).first();
  await entry.waitFor({ state: "visible", timeout: 20_000 });
  await entry.focus();
  await page.keyboard.press("Enter");
  const story = await text(page, "#story");
  check("a conflict's story: who is in the way, until when, what would be free",
    /Who is in the way\s+planner-2\/\d+ has db\/schema \(exclusive\), token \d+, until \d\d:\d\d:\d\d/i.test(story) && /a start at \d\d:\d\d/.test(story), story.replaceAll(/\s+/g, " ").slice(0, 400));
}

/** The longest tasks of the page's main thread by the processor's time that they took, in ms. */
function processorTimes(trace) {
  const { traceEvents: events } = JSON.parse(trace);
  const main = new Set(events.filter((it) => it.name === "thread_name" && it.args.name === "CrRendererMain").map((it) => `${it.pid} ${it.tid}`));
  const tasks = events.filter((it) => it.ph === "X" && it.tdur !== undefined && main.has(`${it.pid} ${it.tid}`));
  return tasks.map((it) => it.tdur / 1000).sort((a, b) => b - a);
}

async function measure(browser, page, addr) {
  const args = ["bench", "--addr", addr, "--ca", "certs/ca.crt", "--agents", String(AGENTS), "--rate", String(RATE), "--conflict", "30%",
    "--duration", `${seconds + 15}s`, "--warmup", "1s"];
  const child = spawn(bench, args, { cwd: place, stdio: "ignore" });
  ends.push(async () => { child.kill(); });
  await pause(8000);
  await page.evaluate(() => { window.tasks.length = 0; });
  await browser.startTracing(page, { categories: ["toplevel"] });
  const rates = [];
  for (let second = 0; second < seconds; second += 1) {
    await pause(1000);
    const said = /(\d+) decisions/.exec(await page.evaluate(() => document.getElementById("figures").textContent));
    if (said) rates.push(Number(said[1]));
  }
  const tasks = await page.evaluate(() => window.tasks);
  const spent = processorTimes(await browser.stopTracing());
  rates.sort((a, b) => a - b);
  check(`decisions a second, the median as the page saw it`, rates[rates.length >> 1] >= 900, rates[rates.length >> 1]);
  check(`no task over ${LONGEST_MS} ms in ${seconds} s`, tasks.every((ms) => ms <= LONGEST_MS), tasks.length === 0 ? "none" : tasks.join(" "));
  const longest = spent.slice(0, 5).map((ms) => ms.toFixed(1)).join(" ");
  check(`no task took over ${LONGEST_MS} ms of the processor's time`, spent.length > 1000 && spent[0] <= LONGEST_MS, `of ${spent.length} the longest ${longest}`);
  await page.screenshot({ path: join(out, "load.png") });
  child.kill();
}

async function recorded(browser) {
  const { all: [url] } = await start(preclaim, ["audit", "view", "state"], [/seen at (http\S+?);/]);
  const { page, wrong } = await open(browser, url, "light");
  await page.waitForFunction(() => /a recorded log/.test(document.getElementById("state").textContent), null, { timeout: 60_000 });
  const lanes = async () => { await pause(1200); return [await text(page, "#clock"), await text(page, "#contended tbody")]; };
  const late = await lanes();
  await page.locator("#scrub").fill("200");
  const early = await lanes();
  check("a recorded log opens, and its time can be moved", late[0] !== early[0], `${late[0]} | ${early[0]}`);
  check("what was in demand then", /db\/schema/.test(early[1]), early[1].replaceAll(/\s+/g, " ").slice(0, 160));
  await page.screenshot({ path: join(out, "recorded.png") });
  check("nothing went wrong with the recorded page", wrong.length === 0, wrong.join("; "));
}

async function run() {
  const { all: [addr, url], end } = await coordinator();
  const stop = await work(addr);
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: BROWSER });
  ends.push(() => browser.close());
  const { page, wrong } = await open(browser, url, "light");
  await plain(page);
  await hostile(page);
  await keyboard(page);
  await pause(8000);
  await page.screenshot({ path: join(out, "light.png") });
  await page.emulateMedia({ colorScheme: "dark" });
  await stories(page);
  await pause(1200);
  await page.screenshot({ path: join(out, "dark.png") });
  await page.keyboard.press("Escape");
  await page.keyboard.press("Escape"); // leaves the list, which stands still for who is in it
  await page.emulateMedia({ colorScheme: "light" });
  if (seconds > 0) await measure(browser, page, addr);
  check("nothing went wrong with the page, and it asked no other place", wrong.length === 0, wrong.join("; "));
  await stop();
  await end();
  await recorded(browser);
}

try {
  await run();
} catch (error) {
  console.log(error.stack);
  failures.push(error.message);
} finally {
  for (const end of ends.reverse()) await end();
  rmSync(place, { recursive: true, force: true });
}
console.log(failures.length === 0 ? "all is as it should be" : `${failures.length} not as they should be`);
process.exit(failures.length === 0 ? 0 : 1);

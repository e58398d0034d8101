// What a browser makes of the live page: live_page.mjs FOLDER LOCKSTEP ARGUMENT...
//
// Starts the run itself, with --ui, watches it, loses the connection, and stops it by the button.
import { strict as assert } from "node:assert";
import { spawn } from "node:child_process";
import { connect } from "node:net";
import { join } from "node:path";
import { launch } from "../support/browser.mjs";
import { blank, contrast, unnamed } from "../support/page_checks.mjs";

const [folder, program, ...words] = process.argv.slice(2);
const run = spawn(program, words, { stdio: ["ignore", "ignore", "pipe"] });
let said = "", code = null;
const ended = new Promise((resolve) => run.on("exit", (status) => { code = status; resolve(status); }));
const address = await new Promise((resolve, reject) => {
  run.stderr.on("data", (data) => {
    said += data;
    const found = /live page: (http:\S+)/.exec(said);
    if (found) resolve(found[1]);
  });
  ended.then(() => reject(new Error(`it ended: ${said}`)));
});
assert.match(address, /^http:\/\/127\.0\.0\.1:\d+\/[0-9a-f]{32}\/$/);

/* Somebody who asks for events and never reads one. */
const url = new URL(address);
const deaf = connect(Number(url.port), url.hostname, () => deaf.write(`GET ${url.pathname}events HTTP/1.1\r\nHost: ${url.host}\r\n\r\n`));
deaf.pause();
deaf.on("error", () => {});

const browser = await launch(folder);
try {
  const page = await browser.open(address, "document.documentElement?.dataset.ready === 'yes'");
  const text = (id) => page.evaluate(`document.getElementById("${id}").textContent`);

  await page.until("document.querySelectorAll('.plot canvas').length >= 2", "charts");
  await page.until(`(${blank}) === 0`, "something in every chart"); /* a trial that has just begun has nothing to show */
  assert.match(await text("where"), /^Trial \d+ of 40: one, steady, repetition \d+$/);
  assert.equal(await page.evaluate("document.querySelectorAll('#agents tbody tr').length"), 3);
  const figures = await page.evaluate("[...document.querySelectorAll('#now figcaption')].map((c) => c.textContent)");
  for (const title of ["Requests per second", "Latency", "Latency heat map", "Latency by percentile"]) assert.ok(figures.includes(title), `no ${title} in ${figures}`);
  /* Of each agent what is known of it: share, send lag and CPU of clients, CPU and memory of the server. */
  await page.until("[...document.querySelectorAll('#agents tbody tr')].filter((row) => row.cells[1].textContent === 'client').every((row) => [3, 4, 5, 6].every((i) => row.cells[i].textContent !== '–'))", "what clients are like");
  await page.until("[...document.querySelectorAll('#agents tbody tr')].filter((row) => row.cells[1].textContent === 'server').every((row) => [5, 7].every((i) => row.cells[i].textContent !== '–'))", "what the server is like");
  await page.until("document.querySelector('#results table') !== null", "results of the first trial");
  /* A trial that a busy machine has made invalid has its dots, and no bar. */
  const [counts, bars] = await page.evaluate(`[[...[...document.querySelectorAll("#results table")].find((t) => t.caption.textContent === "Trials").tBodies[0].rows].some((row) => !row.textContent.includes("invalid")),
    document.querySelectorAll("#results .bars").length]`);
  assert.equal(bars > 0, counts, "bars");
  const found = await page.evaluate("[...document.querySelectorAll('#results figcaption')].map((c) => c.textContent)");
  for (const title of ["requests/s", "Start offset of each client, trial by trial"]) assert.ok(found.includes(title), `no ${title} in ${found}`);
  await page.until("document.querySelectorAll('#now .plot canvas').length >= 4", "charts of the second trial");
  await page.settle();
  assert.deepEqual(await page.evaluate(unnamed), []);
  for (const dark of [false, true]) {
    await page.look({ width: 1100, dark });
    assert.deepEqual(await page.evaluate(contrast), [], dark ? "dark" : "light");
    await page.shoot(join(folder, dark ? "dark.png" : "light.png"), { whole: true });
  }
  await page.look({ width: 360 });
  assert.ok(await page.evaluate("document.documentElement.scrollWidth") <= 360, "it is wider than a telephone");
  await page.shoot(join(folder, "narrow.png"), { whole: true });

  /* All that it has talked to is the server, and nothing complained. */
  assert.deepEqual(page.complaints, []);
  assert.deepEqual(page.requests.filter((one) => !one.startsWith(address)), []);

  /* The connection is cut: it comes again, and goes on where it was. */
  const before = Number(await page.evaluate("document.documentElement.dataset.seen"));
  await page.call("Network.emulateNetworkConditions", { offline: true, latency: 0, downloadThroughput: -1, uploadThroughput: -1 });
  await page.evaluate("new Promise((done) => setTimeout(done, 300))");
  await page.call("Network.emulateNetworkConditions", { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput: -1 });
  await page.until(`Number(document.documentElement.dataset.seen) > ${before}`, "news after the connection was cut");
  page.complaints.length = 0;

  /* A second window, and what is there for who comes late. */
  const late = await browser.open(address, "document.documentElement?.dataset.ready === 'yes'");
  assert.match(await late.evaluate("document.getElementById('where').textContent"), /^Trial \d+ of 40/);
  assert.ok(await late.evaluate("document.querySelectorAll('#results table').length") > 0);

  /* Pressed once nothing happens, twice it ends, with everybody looking on. */
  await page.evaluate("document.querySelector('button.stop').click()");
  assert.equal(await page.evaluate("document.querySelector('button.stop').textContent"), "Press again to stop");
  assert.equal(code, null);
  await page.evaluate("document.querySelector('button.stop').click()");
  assert.equal(await ended, 130, said);
  for (const one of [page, late]) await one.until("document.getElementById('link').textContent.startsWith('The run has ended: interrupted')");
  assert.deepEqual(page.complaints, []);
} finally {
  deaf.destroy();
  await browser.close();
  if (code === null) run.kill("SIGKILL");
}
console.log("ok");

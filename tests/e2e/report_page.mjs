// What a browser makes of a report: report_page.mjs FILE MARKDOWN FOLDER
//
// FILE is report.html, MARKDOWN what the same result is in Markdown, FOLDER a place for the browser.
import { strict as assert } from "node:assert";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { launch } from "../support/browser.mjs";

const [file, markdown, folder] = process.argv.slice(2);
const order = ["comparison", "percentiles", "throughput", "heat", "agents", "server", "repetitions", "environment", "method", "raw"];

/* The cells of the Markdown table below a heading. */
function markdownTable(text, heading) {
  const lines = text.split("\n"), from = lines.indexOf(heading);
  assert.notEqual(from, -1, `no ${heading} in the Markdown`);
  const rows = lines.slice(from + 4);
  return rows.slice(0, rows.findIndex((line) => !line.startsWith("|"))).map((line) =>
    line.slice(2, -2).split(/ \| /).map((cell) => cell.replace(/\\(.)/g, "$1").replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&")));
}

/* WCAG 2: relative luminance, contrast of each text with what is behind it. */
const contrast = `(() => {
  const parse = (c) => { const m = c.match(/[\\d.]+/g).map(Number); return m.length < 4 ? [...m, 1] : m; };
  const over = (top, under) => top[3] >= 1 ? top : [0, 1, 2].map((i) => top[i] * top[3] + under[i] * (1 - top[3])).concat(1);
  const light = (c) => { const [r, g, b] = c.map((v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = (e) => { const stack = []; for (let p = e; p; p = p.parentElement) stack.unshift(parse(getComputedStyle(p).backgroundColor)); return stack.reduce((under, top) => over(top, under), [255, 255, 255, 1]); };
  const bad = [];
  for (const e of document.querySelectorAll("body *")) {
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()) || !e.checkVisibility() || e.closest("script, noscript, option, .skip")) continue;
    const back = behind(e), [a, b] = [light(over(parse(getComputedStyle(e).color), back)), light(back)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) bad.push(e.tagName + "." + e.className + " " + ratio.toFixed(2) + ": " + e.textContent.slice(0, 40));
  }
  return bad;
})()`;

/* What nobody could use without seeing, or without a mouse. */
const unnamed = `[
  ...[...document.querySelectorAll("select")].filter((e) => !e.closest("label")).map(() => "a select without a label"),
  ...[...document.querySelectorAll("[role=img], .scroll, pre[tabindex]")].filter((e) => !e.getAttribute("aria-label") && !e.closest("details")).map((e) => e.className + " without a name"),
  ...[...document.querySelectorAll("table")].filter((e) => !e.querySelector("th[scope=col]")).map(() => "a table without a head"),
  ...[...document.querySelectorAll(".scroll")].filter((e) => e.scrollWidth > e.clientWidth + 1 && e.tabIndex !== 0).map(() => "a table that no key scrolls"),
  ...[...document.querySelectorAll("section")].filter((s) => s.querySelector("figure") && !s.querySelector("table, details")).map((s) => s.id + ": a plot without a table"),
]`;

const blank = `[...document.querySelectorAll(".plot canvas")].filter((c) => {
  const d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
  for (let i = 3; i < d.length; i += 4) if (d[i] !== 0) return false;
  return true;
}).length`;

assert.ok(statSync(file).size < 2e6, `${statSync(file).size} bytes`);
const browser = await launch(folder);
try {
  const page = await browser.open(`file://${file}`, "document.documentElement?.dataset.ready === 'yes'");

  assert.deepEqual(page.complaints, []);
  assert.equal(page.requests.length, 1, `something is loaded: ${page.requests}`);
  const ids = await page.evaluate("[...document.querySelectorAll('main section')].map((s) => s.id)");
  assert.deepEqual(ids.filter((id) => id !== "capacity"), order);
  assert.equal(await page.evaluate("document.querySelector('main > :first-child').id"), "verdict");
  assert.equal(await page.evaluate("document.querySelectorAll('img, iframe, object, link, [onerror], a[href^=javascript]').length"), 0);
  assert.equal(await page.evaluate("typeof uPlot"), "function", "this build has no charts");
  assert.ok(await page.evaluate("document.querySelectorAll('.plot canvas').length") >= 6);
  assert.equal(await page.evaluate(blank), 0);

  /* The same figures as in Markdown, to the letter. */
  await page.evaluate("document.querySelectorAll('#repetitions details').forEach((d) => { d.open = true; })");
  await page.settle();
  const shown = await page.evaluate(`[...[...document.querySelectorAll("#repetitions table")].find((t) => t.caption.textContent.startsWith("Trials")).tBodies[0].rows]
    .map((row) => [...row.cells].map((cell) => cell.textContent))`);
  const told = markdownTable(readFileSync(markdown, "utf8"), "## Trials");
  assert.ok(told.length > 1);
  assert.deepEqual(shown.map((row) => row.map((cell) => cell === "–" ? "-" : cell)), told);

  /* Everything can be picked, and each table unfolded. */
  assert.equal(await page.evaluate(`(() => {
    for (const select of document.querySelectorAll("select")) for (const i of [select.options.length - 1, 0]) { select.value = String(i); select.dispatchEvent(new Event("change")); }
    for (let n = 0; n < 3; n++) for (const d of document.querySelectorAll("details")) d.open = true;
    return document.querySelectorAll("details").length; })()`) > 3, true);
  await page.settle();
  assert.deepEqual(await page.evaluate(unnamed), []);
  await page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = false; })");

  for (const dark of [false, true]) {
    await page.look({ width: 1200, dark });
    assert.deepEqual(await page.evaluate(contrast), [], dark ? "dark" : "light");
    await page.shoot(join(folder, dark ? "dark.png" : "light.png"), { whole: true });
  }
  await page.look({ width: 360 });
  assert.ok(await page.evaluate("document.documentElement.scrollWidth") <= 360, "it is wider than a telephone");
  assert.equal(await page.evaluate(blank), 0);
  await page.shoot(join(folder, "narrow.png"), { whole: true });
  await page.look({ width: 1000, print: true });
  assert.deepEqual(await page.evaluate(contrast), [], "print");
  await page.shoot(join(folder, "print.png"), { whole: true });
  await page.pdf(join(folder, "print.pdf"));
  assert.deepEqual(page.complaints, []);
} finally {
  await browser.close();
}
console.log("ok");

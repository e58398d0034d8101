// What a browser makes of a report: report_page.mjs FILE MARKDOWN FOLDER
//
// FILE is report.html, MARKDOWN what the same result is in Markdown, FOLDER a place for the browser.
import { strict as assert } from "node:assert";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { launch } from "../support/browser.mjs";
import { blank, contrast, unnamed } from "../support/page_checks.mjs";

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

assert.ok(statSync(file).size < 2e6, `${statSync(file).size} bytes`);
const browser = await launch(folder);
try {
  const page = await browser.open(`file://${file}`, "document.documentElement?.dataset.ready === 'yes'");

  const opened = await page.evaluate("performance.getEntriesByType('navigation')[0].domComplete");
  assert.deepEqual(page.complaints, []);
  assert.equal(page.requests.length, 1, `something is loaded: ${page.requests}`);
  const ids = await page.evaluate("[...document.querySelectorAll('main section')].map((s) => s.id)");
  assert.deepEqual(ids.filter((id) => !["capacity", "ladder"].includes(id)), order);
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
  console.log(`${statSync(file).size} bytes, opened in ${Math.round(opened)} ms`);
} finally {
  await browser.close();
}

// A real browser without a window, for tests and screenshots: Chromium by its debugging protocol
// over a pair of pipes, so that nothing listens anywhere. CHROMIUM names another one.
//
//   const browser = await launch(folder);            its profile goes below folder
//   const page = await browser.open(url);            when it has loaded, and is quiet
//   page.complaints                                  what its console said at level warning or error
//   await page.evaluate("document.title")            a value that JSON can carry
//   await page.look({ width, height, dark, print })  as what it shall be seen
//   await page.shoot(file, { selector, whole })      a picture
//   await browser.close()
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const patienceMs = 60000; /* on however crowded a machine */

export async function launch(folder) {
  const profile = mkdtempSync(join(folder, "chromium-"));
  const child = spawn(process.env.CHROMIUM || "chromium", [
    "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-extensions",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage", "--force-device-scale-factor=1",
    `--user-data-dir=${profile}`, "--remote-debugging-pipe", "about:blank",
  ], { stdio: ["ignore", "ignore", "pipe", "pipe", "pipe"], detached: false });
  const waiting = new Map(), listeners = new Set();
  let last = 0, rest = "", said = "", ended = false;

  child.stderr.on("data", (data) => { said = (said + data).slice(-4000); });
  const gone = new Promise((resolve) => child.once("exit", () => {
    ended = true;
    for (const { reject } of waiting.values()) reject(new Error(`the browser has ended: ${said}`));
    resolve();
  }));
  child.stdio[4].on("data", (data) => {
    const pieces = (rest + data.toString("utf8")).split("\0");
    rest = pieces.pop();
    for (const piece of pieces) {
      const message = JSON.parse(piece);
      if (message.id === undefined) {
        for (const listener of listeners) listener(message);
      } else {
        const one = waiting.get(message.id);
        waiting.delete(message.id);
        if (message.error) one.reject(new Error(`${one.method}: ${message.error.message}`));
        else one.resolve(message.result);
      }
    }
  });

  function send(method, params = {}, sessionId = undefined) {
    if (ended) return Promise.reject(new Error(`the browser has ended: ${said}`));
    const id = ++last;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`${method}: no answer in ${patienceMs} ms`)), patienceMs);
      const settle = (f) => (x) => { clearTimeout(timer); f(x); };
      waiting.set(id, { resolve: settle(resolve), reject: settle(reject), method });
      child.stdio[3].write(JSON.stringify({ id, method, params, sessionId }) + "\0");
    });
  }

  async function open(url, ready = "document.readyState === 'complete'") {
    const { targetId } = await send("Target.createTarget", { url: "about:blank" });
    const { sessionId } = await send("Target.attachToTarget", { targetId, flatten: true });
    const page = { complaints: [], requests: [] };
    const call = (method, params) => send(method, params, sessionId);
    let media = {};
    listeners.add(({ method, params, sessionId: from }) => {
      if (from !== sessionId) return;
      if (method === "Runtime.exceptionThrown") page.complaints.push(params.exceptionDetails.exception?.description || params.exceptionDetails.text);
      if (method === "Runtime.consoleAPICalled" && ["error", "warning", "assert"].includes(params.type))
        page.complaints.push(params.args.map((arg) => arg.value ?? arg.description).join(" "));
      if (method === "Log.entryAdded" && ["error", "warning"].includes(params.entry.level)) page.complaints.push(`${params.entry.text} ${params.entry.url || ""}`);
      if (method === "Network.requestWillBeSent") page.requests.push(params.request.url);
    });
    page.evaluate = async (expression) => {
      const { result, exceptionDetails } = await call("Runtime.evaluate", { expression, returnByValue: true, awaitPromise: true });
      if (exceptionDetails) throw new Error(exceptionDetails.exception?.description || exceptionDetails.text);
      return result.value;
    };
    page.until = async (expression, what = expression) => {
      const deadline = Date.now() + patienceMs;
      while (!(await page.evaluate(expression))) {
        if (Date.now() > deadline) throw new Error(`waited in vain for: ${what}; the console: ${page.complaints.join("; ")}`);
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    };
    /* Two frames: charts are drawn in the first. */
    page.settle = () => page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 50))))");
    page.look = async ({ width = 1200, height = 900, dark = false, print = false }) => {
      await call("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile: false });
      media = { media: print ? "print" : "", features: [{ name: "prefers-color-scheme", value: dark ? "dark" : "light" }] };
      await call("Emulation.setEmulatedMedia", media);
      if (print) await page.evaluate("dispatchEvent(new Event('beforeprint')), 0");
      await page.settle();
    };
    page.shoot = async (file, { selector = null, whole = false } = {}) => {
      const box = selector === null ? null : await page.evaluate(`(() => { const b = document.querySelector(${JSON.stringify(selector)}).getBoundingClientRect();
        return { x: b.x + scrollX, y: b.y + scrollY, width: b.width, height: b.height }; })()`);
      const size = whole ? (await call("Page.getLayoutMetrics")).cssContentSize : null;
      const clip = box ? { ...box, scale: 1 } : size ? { x: 0, y: 0, width: size.width, height: Math.min(size.height, 16000), scale: 1 } : undefined;
      const { data } = await call("Page.captureScreenshot", { format: "png", clip, captureBeyondViewport: true });
      writeFileSync(file, Buffer.from(data, "base64"));
    };
    page.pdf = async (file) => {
      const { data } = await call("Page.printToPDF", { printBackground: true });
      writeFileSync(file, Buffer.from(data, "base64"));
    };
    page.call = call;
    page.close = () => send("Target.closeTarget", { targetId });
    for (const domain of ["Page", "Runtime", "Log", "Network"]) await call(`${domain}.enable`);
    const navigated = await call("Page.navigate", { url });
    if (navigated.errorText) throw new Error(`${url}: ${navigated.errorText}`);
    await page.until(ready);
    await page.settle();
    return page;
  }

  async function close() {
    await send("Browser.close").catch(() => {}); /* it may hang up before it has answered */
    const timer = setTimeout(() => child.kill("SIGKILL"), 10000);
    await gone;
    clearTimeout(timer);
    rmSync(profile, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  }

  return { open, close, send };
}

"use strict";
/* The live page: a snapshot of the run, and from then on what happens. */
(() => {
  const { el, human, table, said, paragraphs, charts, section } = LS;
  const D = JSON.parse(document.getElementById("data").textContent);
  const state = { trial: null, now: null, agents: [], result: null, points: [], said: [], end: null, stopping: false };

  const link = el("p", { class: "soft", role: "status", id: "link" }, "connecting");
  const campaign = el("progress", { max: 1, value: 0, "aria-label": "trials" });
  const where = el("p", { id: "where" }, "The run has not begun a trial yet.");
  const cards = el("div", { class: "cards" });
  const values = new Map();
  for (const [key, name] of [["phase", "phase"], ["left", "left"], ["rate", "requests/s"], ["p50", "p50"], ["p99", "p99"], ["errors", "errors in the trial"]]) {
    const n = el("div", { class: "n", id: key }, "–");
    values.set(key, n);
    cards.append(el("div", { class: "card" }, n, el("div", { class: "k" }, name)));
  }
  const plots = el("div"), agents = el("div"), results = el("div"), notes = el("div"), banner = el("div");
  const stop = el("button", { class: "stop", type: "button", click: askToStop }, "Stop the run");
  let sure = 0;

  /* Twice within five seconds: a slip of the hand ends no campaign. */
  async function askToStop() {
    if (Date.now() - sure > 5000) {
      sure = Date.now();
      stop.textContent = "Press again to stop";
      setTimeout(() => { if (!state.stopping) stop.textContent = "Stop the run"; }, 5000);
      return;
    }
    stop.disabled = true;
    try {
      const answer = await fetch("stop", { method: "POST" });
      if (!answer.ok) throw new Error(String(answer.status));
      state.stopping = true;
    } catch {
      stop.disabled = false;
    }
    showStop();
  }

  function showStop() {
    stop.disabled = state.stopping || state.end !== null;
    stop.textContent = state.end !== null ? "The run has ended" : state.stopping ? "Stopping: finished trials are kept" : "Stop the run";
  }

  function showTrial() {
    const t = state.trial;
    if (!t) return;
    campaign.max = t.total;
    campaign.value = t.index - 1;
    where.textContent = `Trial ${t.index} of ${t.total}: ${t.target}, ${t.workload}, repetition ${t.repetition}`;
  }

  function set(key, text) {
    if (values.get(key).textContent !== text) values.get(key).textContent = text;
  }

  function showNow() {
    const now = state.now, last = state.points.at(-1);
    if (now) {
      set("phase", now.phase);
      set("left", now.left_s < 0 ? "–" : `${Math.ceil(now.left_s)} s`);
    }
    set("rate", last ? human(last[1], "per_s") : "–");
    set("p50", last && last[4] ? human(last[4], "ns") : "–");
    set("p99", last && last[5] ? human(last[5], "ns") : "–");
    set("errors", last ? human(state.points.reduce((sum, p) => sum + p[3], 0), "count") : "–");
  }

  /* Charts are made anew for a trial, and then only get data: at most twice a second. */
  let made = null, due = false;
  const column = (i) => state.points.map((p) => p[i]);
  function makePlots() {
    const open = state.now?.open;
    const lines = [{ label: "achieved", colour: 0, values: column(1) }, ...(open ? [{ label: "offered", colour: 6, dash: 6, values: column(2) }] : [])];
    const rate = charts.chart({ title: "Requests per second", label: "requests per second of this trial, over time", xs: column(0), lines,
      x: { unit: "s", name: "time" }, y: { unit: "per_s" }, height: 240 });
    const latency = charts.chart({ title: "Latency", label: "latency of this trial, over time", xs: column(0),
      lines: [{ label: "p50", colour: 2, values: column(4).map((v) => v || null) }, { label: "p99", colour: 1, values: column(5).map((v) => v || null) }, { label: "max", colour: 3, values: column(6).map((v) => v || null) }],
      x: { unit: "s", name: "time" }, y: { unit: "ns", log: true }, height: 240 });
    made = { rate, latency, open };
    plots.replaceChildren(rate, latency, LS.folded("As a table", () => table({
      columns: [["from", false], ["achieved/s", false], ["errors", false], ["p50", false], ["p99", false], ["max", false]],
      rows: state.points.map((p) => [[human(p[0], "s"), p[0]], [human(p[1], "per_s"), p[1]], [String(p[3]), p[3]], ...[4, 5, 6].map((i) => [human(p[i], "ns"), p[i]])]),
    }, "This trial so far")));
  }
  function drawPlots() {
    due = false;
    if (state.points.length < 2) {
      plots.replaceChildren(el("p", { class: "soft" }, "Nothing was measured in this trial yet."));
      return;
    }
    if (!made || made.open !== state.now?.open) return makePlots();
    if (!made.rate.chart || !made.rate.chart.plot) return;
    const latency = [4, 5, 6].map((i) => column(i).map((v) => v || null));
    made.rate.chart.data = [column(0), column(1), ...(made.open ? [column(2)] : [])];
    made.latency.chart.data = [column(0), ...latency];
    made.rate.chart.plot.setData(made.rate.chart.data);
    made.latency.chart.plot.setData(made.latency.chart.data);
  }
  function planPlots() {
    if (due) return;
    due = true;
    setTimeout(drawPlots, 500);
  }

  function showAgents() {
    agents.replaceChildren(table({
      columns: [["agent", true], ["role", true], ["state", true], ["clock +-", false]],
      rows: state.agents.map(([name, role, what, error]) => [name, role, [what, what === "here" ? "good" : what === "lost" ? "bad" : "warn"], error < 0 ? null : [human(error, "ns"), error]]),
    }, "Agents"));
  }

  function showResult() {
    const r = state.result;
    if (!r) return;
    results.replaceChildren(...[r.workloads.map((w) => [el("h3", null, w.name), paragraphs(w.load), table(w.summary, `Summary of ${w.name}, so far`), w.ratios.rows.length > 0 ? table(w.ratios, `Beside the best of ${w.name}, so far`) : null, said(w.comparisons), said(w.notes)]),
      r.trials.rows.length > 0 ? table(r.trials, r.left_out > 0 ? `The newest ${r.trials.rows.length} trials` : "Trials") : null].flat(Infinity).filter((x) => x));
    banner.replaceChildren(...r.verdict.map(([style, text]) => el("div", { class: `banner ${style || "good"}` }, el("p", { class: "word" }, text), said(r.reasons))));
  }

  function showSaid() {
    notes.replaceChildren(el("ul", { class: "said" }, [...state.said].reverse().map(([style, text]) => el("li", { class: style || null }, text))));
  }

  function showEnd() {
    if (state.end === null) return;
    const [status, dir] = state.end;
    set("phase", "ended");
    set("left", "–");
    campaign.value = campaign.max;
    link.textContent = `The run has ended: ${status}.${dir ? ` The report is in ${dir}/report.html.` : ""}`;
    showStop();
    source.close();
  }

  function showAll() {
    made = null;
    showTrial();
    showNow();
    drawPlots();
    showAgents();
    showResult();
    showSaid();
    showStop();
    showEnd();
  }

  document.body.append(el("header", null, el("h1", null, D.title), link, el("p", null, stop)),
    el("main", null, section("progress", "Progress", campaign, where, cards, charts.here ? null : el("p", { class: "warn" }, "This build of lockstep was made without the charts.")),
      section("now", "This trial", plots), section("notes-section", "What was said", notes), section("agents", "Agents", agents), section("results", "So far", banner, results)),
    el("footer", null, `lockstep ${D.version}. `, charts.here ? "Charts by uPlot (MIT)." : null));

  const source = new EventSource("events");
  const on = (type, take) => source.addEventListener(type, (event) => {
    take(JSON.parse(event.data));
    document.documentElement.dataset.ready = "yes";
    document.documentElement.dataset.seen = event.lastEventId;
  });
  source.onopen = () => { link.textContent = "live"; };
  source.onerror = () => { link.textContent = source.readyState === EventSource.CLOSED ? "The run is not there any more." : "The connection was lost; trying again."; };
  on("snapshot", (all) => { Object.assign(state, all, { agents: all.agents || [], said: all.said || [] }); showAll(); });
  on("trial", (trial) => { Object.assign(state, { trial, points: [], now: null }); made = null; drawPlots(); showTrial(); showNow(); });
  on("now", (now) => {
    state.now = now;
    if (now.point) {
      state.points.push(now.point);
      if (state.points.length > 1200) state.points.splice(0, state.points.length - 1200);
      planPlots();
    }
    showNow();
  });
  on("agents", (list) => { state.agents = list; showAgents(); });
  on("result", (result) => { state.result = result; campaign.value = state.trial ? state.trial.index : 0; showResult(); });
  on("said", (one) => { state.said.push(one); if (state.said.length > 100) state.said.shift(); showSaid(); });
  on("end", (end) => { state.end = end; showEnd(); });
})();

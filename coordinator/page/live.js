"use strict";
/* The live page: a snapshot of the run, and from then on what happens. */
(() => {
  const { el, human, table, said, paragraphs, charts, figures, section } = LS;
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
  const picked = { at: 0 }; /* which figure of the repetitions is shown */
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

  /* A point: [0 from, 1 achieved/s, 2 offered/s, 3 errors, 4 p50, 5 p99, 6 max, 7 requests by latency,
   * 8 cores, 9 memory, 10 switches/s]. */
  const column = (i) => state.points.map((p) => p[i]);
  const positive = (i) => column(i).map((v) => v || null);
  const has = (i) => state.points.some((p) => p[i]);
  const heatMap = () => charts.fewerColumns({ at: column(0), columns: column(7) }, 240);

  /* What the sum of the columns says of percentiles: upper ends of rows, so none is too low. */
  function curve() {
    const rows = [], xs = [], values = [];
    for (const [first, ...counts] of column(7)) counts.forEach((n, k) => { rows[first + k] = (rows[first + k] || 0) + n; });
    const count = rows.reduce((sum, n) => sum + n, 0);
    let row = 0, below = rows[0] || 0;
    for (let i = 0; count > 0; i++) {
      const x = Math.min(10 ** (i / 12), count);
      while (below < Math.max(1, Math.ceil(count * (1 - 1 / x) - 1e-6)) && row < rows.length - 1) below += rows[++row] || 0;
      xs.push(x);
      values.push(charts.edge(row + 1));
      if (x === count) break;
    }
    return { xs, values };
  }

  /* Charts are made anew for a trial, and when there is something new to show; then they only get data:
   * at most twice a second. */
  let made = null, due = false;
  const kind = () => [state.now?.open, ...[3, 8, 9, 10].map(has)].join();
  function lineChart(title, unit, of, more) {
    return { data: () => [column(0), ...of.map((one) => one.values())],
      figure: charts.chart({ title, label: `${title} of this trial, over time`, xs: column(0), lines: of.map((one) => ({ ...one, values: one.values() })),
        x: { unit: "s", name: "time" }, y: { unit, ...more }, height: 240 }) };
  }
  function makePlots() {
    const open = state.now?.open;
    const lines = [
      lineChart("Requests per second", "per_s", [{ label: "achieved", colour: 0, values: () => column(1) }, ...(open ? [{ label: "offered", colour: 6, dash: 6, values: () => column(2) }] : [])]),
      has(3) ? lineChart("Errors", "count", [{ label: "errors", colour: 1, values: () => column(3) }]) : null,
      lineChart("Latency", "ns", [{ label: "p50", colour: 2, values: () => positive(4) }, { label: "p99", colour: 1, values: () => positive(5) }, { label: "max", colour: 3, values: () => positive(6) }], { log: true }),
      ...[[8, "Server: cores used", "cores"], [9, "Server: memory", "bytes"], [10, "Server: context switches per second", "per_s"]]
        .map(([i, title, unit]) => has(i) ? lineChart(title, unit, [{ label: title, colour: 0, values: () => column(i) }]) : null),
    ].filter((x) => x);
    const heat = charts.heat({ title: "Latency heat map", label: "latency of this trial over time: the stronger the colour, the more requests", name: "latency", map: heatMap(),
      hint: "Each column is a stretch of time, each row a range of latencies; the stronger its colour, the more requests (logarithmic)." });
    const { xs, values } = curve();
    const percentiles = charts.chart({ title: "Latency by percentile", label: "latency by percentile of this trial so far", xs, lines: [{ label: "latency", colour: 0, values }],
      hint: "Of this trial so far, to the upper end of a row of the heat map; the report has it from the histograms.",
      x: { unit: "count", log: true, name: "of the requests were faster:", filter: (u, splits) => splits.map((v) => Math.abs(Math.log10(v) % 1) < 1e-6 ? v : null),
        values: (u, splits) => splits.map((v) => v === null ? "" : charts.percentile(v)), read: charts.percentile, range: (u, low, high) => [1, Math.max(high, 10)] },
      y: { unit: "ns", log: true, name: "latency" }, height: 240 });
    made = { lines, heat, percentiles, kind: kind() };
    const names = ["from", "achieved/s", "offered/s", "errors", "p50", "p99", "max", null, "cores", "memory", "switches/s"];
    const units = ["s", "per_s", "per_s", "count", "ns", "ns", "ns", null, "cores", "bytes", "per_s"];
    const shown = units.map((_, i) => i).filter((i) => names[i] && (i !== 2 || open) && (i < 8 || has(i)));
    plots.replaceChildren(...lines.slice(0, has(3) ? 3 : 2).map((one) => one.figure), heat, percentiles, ...lines.slice(has(3) ? 3 : 2).map((one) => one.figure),
      LS.folded("As a table", () => table({
        columns: shown.map((i) => [names[i], false]),
        rows: state.points.map((p) => shown.map((i) => p[i] === null ? null : [human(p[i], units[i]), p[i]])),
      }, "This trial so far")),
      LS.folded("The heat map as a table", () => charts.heatTable(heatMap(), "This trial so far: requests by latency")));
  }
  function drawPlots() {
    due = false;
    if (state.points.length < 2) {
      plots.replaceChildren(el("p", { class: "soft" }, "Nothing was measured in this trial yet."));
      return;
    }
    if (!made || made.kind !== kind()) return makePlots();
    if (!charts.here) return;
    made.heat.update(heatMap());
    const { xs, values } = curve();
    for (const [figure, data] of [...made.lines.map((one) => [one.figure, one.data()]), [made.percentiles, [xs, values]]]) {
      figure.chart.data = data;
      if (figure.chart.plot) figure.chart.plot.setData(data);
    }
  }
  function planPlots() {
    if (due) return;
    due = true;
    setTimeout(drawPlots, 500);
  }

  function showAgents() {
    const known = (value, unit) => value === null || value === undefined ? null : [human(value, unit), value];
    agents.replaceChildren(table({
      columns: [["agent", true], ["role", true], ["state", true], ["share", false], ["send lag p99", false], ["cores used", false], ["busiest worker", false], ["memory", false], ["clock +-", false]],
      rows: state.agents.map(([name, role, what, error, share, cores, busiest, lag, rss]) => [name, role, [what, what === "here" ? "good" : what === "lost" ? "bad" : "warn"],
        known(share, "share"), known(lag, "ns"), known(cores, "cores"), known(busiest, "share"), known(rss, "bytes"), known(error, "ns")]),
    }, "Agents, as of their newest reports"));
  }

  function showResult() {
    const r = state.result;
    if (!r) return;
    const newest = r.left_out > 0 ? `The newest ${r.trials.rows.length} trials` : "Trials";
    results.replaceChildren(...[r.workloads.map((w) => [el("h3", null, w.name), paragraphs(w.load), table(w.summary, `Summary of ${w.name}, so far`), w.ratios.rows.length > 0 ? table(w.ratios, `Beside the best of ${w.name}, so far`) : null, said(w.comparisons), said(w.notes), w.bars.map((of) => figures.bars(of, r.targets))]),
      r.trials.rows.length > 0 ? [el("h3", null, "Repetitions"), figures.repetitions(r, picked), LS.longTable(r.trials, newest)] : null,
      r.agents.rows.length > 0 ? [el("h3", null, "Clients of the trials so far"), figures.startOffsets(r.agents.rows), LS.longTable(r.agents, "Clients, trial by trial")] : null].flat(Infinity).filter((x) => x));
    banner.replaceChildren(...r.verdict.map(([style, text]) => el("div", { class: `banner ${style || "good"}` }, el("p", { class: "word" }, text), figures.reasons(r.reasons))));
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

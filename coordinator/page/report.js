"use strict";
/* The report: the sections in their order, made of the data in #data. */
(() => {
  const { el, human, table, longTable, said, paragraphs, folded, section } = LS;
  const { charts, figures } = LS;
  const D = JSON.parse(document.getElementById("data").textContent);

  const trialOf = (i) => { /* by its place in the result */
    const [index, target, workload, repetition, counts] = D.dots.trials[i];
    return { place: i, index, target, workload, repetition, counts };
  };
  const trialName = (t) => `trial ${t.index}: ${D.targets[t.target]}, ${D.workloads[t.workload].name}, repetition ${t.repetition}`;

  /* ---- 1: the verdict */

  function banner() {
    const [style, text] = D.verdict[0] || ["bad", "Verdict: nothing was measured"];
    const mark = { good: "✓ ", warn: "! ", bad: "✗ " }[style] || "";
    return el("div", { class: `banner ${style || "good"}`, role: "status", id: "verdict" },
      el("p", { class: "word" }, mark + text),
      D.run_status === "complete" ? null : el("p", { class: "bad" }, `This run is ${D.run_status}.`),
      figures.reasons(D.reasons));
  }

  /* ---- 2: comparison */

  function comparison() {
    const parts = D.workloads.map((w) => [
      el("h3", null, w.name), paragraphs(w.load), table(w.summary, `Summary of ${w.name}`),
      w.scripts.rows.length > 0 ? table(w.scripts, `What the programs of ${w.name} said`) : null,
      w.ratios.rows.length > 0 ? table(w.ratios, `Beside the best of ${w.name}`) : null,
      said(w.capacity), said(w.comparisons), said(w.notes),
      w.bars.map((of) => figures.bars(of, D.targets)),
      folded("All metrics as a table, with intervals", () => table(w.metrics, `Medians of ${w.name}, with 95 % intervals and extremes`)),
    ]);
    const rest = D.standings.rows.length > 1
      ? [el("h3", null, "Places, by the medians of all metrics that are ranked"), table(D.standings, "Places")] : [];
    return section("comparison", "Comparison", el("p", { class: "hint" }, "Bars are medians of the trials that count; the line across is the 95 % interval, or the range where there are too few runs."), D.pages.map((page) => [el("h3", null, page.title), table(page.table, page.title), said(page.notes)]), parts, rest);
  }

  /* ---- 3: latency by percentile */

  function curveTable(curves) {
    const wanted = [0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999, 0.99999];
    const at = (curve, p) => { /* the first point at or above it: never low */
      const x = 1 / (1 - p), i = curve.points[0].findIndex((v) => v >= x * 0.9999);
      return i < 0 || x > curve.count ? null : [human(curve.points[1][i], "ns"), curve.points[1][i]];
    };
    return {
      columns: [["target", true], ["trials", false], ["requests", false], ...wanted.map((p) => [charts.percentile(1 / (1 - p)), false]), ["max", false]],
      rows: curves.map((curve) => [D.targets[curve.target], [String(curve.trials), curve.trials], [String(curve.count), curve.count],
        ...wanted.map((p) => at(curve, p)), [human(curve.points[1].at(-1), "ns"), curve.points[1].at(-1)]]),
    };
  }

  function percentiles() {
    const parts = D.workloads.map((w, i) => {
      const curves = D.curves.filter((curve) => curve.workload === i);
      if (curves.length === 0) return [el("h3", null, w.name), el("p", { class: "soft" }, "No histogram files were there to draw this from; percentiles of each trial are in the tables.")];
      const lines = charts.aligned(curves.map((curve) => ({ xs: curve.points[0], values: curve.points[1] })));
      return [el("h3", null, w.name), charts.chart({
        title: "Latency by percentile", label: `Latency by percentile of ${w.name}, a line for each target`,
        xs: lines.xs, lines: curves.map((curve, k) => ({ label: D.targets[curve.target], colour: curve.target, values: lines.values[k] })),
        x: { unit: "count", log: true, name: "of the requests were faster:", filter: (u, splits) => { /* decades, and where there is little room every second one */
            const every = u.width / Math.log10(lines.xs.at(-1) || 10) < 75 ? 2 : 1;
            return splits.map((v) => Math.abs(Math.log10(v) % every) < 1e-6 ? v : null);
          },
          values: (u, splits) => splits.map((v) => v === null ? "" : charts.percentile(v)), read: charts.percentile, range: [1, lines.xs.at(-1)] },
        y: { unit: "ns", log: true, name: "latency" }, height: 320,
      }), table(curveTable(curves), `Latency by percentile of ${w.name}: all trials that count, their histograms added`)];
    });
    return section("percentiles", "Latency by percentile", el("p", { class: "hint" },
      "The histograms of all trials of a target that count, added up: one curve each. The axis is logarithmic in 1/(1-p): each step to the right is ten times rarer."), parts);
  }

  /* ---- 4 to 7: over time. A group is one repetition of a workload: all targets beside each other */

  const groups = [];
  for (const one of D.series) {
    const t = trialOf(one.trial);
    let group = groups.find((g) => g.workload === t.workload && g.repetition === t.repetition);
    if (!group) groups.push(group = { workload: t.workload, repetition: t.repetition, of: [] });
    group.of.push({ ...t, ...one });
  }
  const groupNames = groups.map((g) => `${D.workloads[g.workload].name}, repetition ${g.repetition}`);

  function overTime(group, title, unit, get, more) {
    const picked = group.of.map((t) => ({ t, got: get(t) })).filter(({ got }) => got.values && got.values.length > 0);
    if (picked.length === 0) return null;
    const lines = picked.map(({ t, got }) => ({ xs: got.xs, values: got.values, t }));
    const joined = charts.aligned(lines);
    return charts.chart({
      title, label: `${title} over time, ${groupNames[groups.indexOf(group)]}`, xs: joined.xs,
      lines: lines.map((line, i) => ({ label: line.label || D.targets[line.t.target], colour: line.t.target, values: joined.values[i] })),
      x: { unit: "s", name: "time" }, y: { unit, ...(more || {}) }, height: 240,
    });
  }

  function throughputChart(group) {
    const lines = [], bands = [];
    for (const t of group.of) {
      const v = t.intervals, label = D.targets[t.target];
      lines.push({ label: `${label}: achieved`, colour: t.target, dash: t.target, xs: v.at, values: v.rate });
      if (v.offered) lines.push({ label: `${label}: offered`, colour: t.target, dash: 6, width: 1.5, xs: v.at, values: v.offered });
      if (v.low) {
        bands.push([lines.length, lines.length + 1, t.target]);
        lines.push({ label: "", unnamed: true, only: true, colour: t.target, xs: v.at, values: v.high });
        lines.push({ label: "", unnamed: true, only: true, colour: t.target, xs: v.at, values: v.low });
      }
    }
    const joined = charts.aligned(lines);
    lines.forEach((line, i) => { line.values = joined.values[i]; });
    return charts.chart({
      title: "Requests per second", label: `Requests per second over time, ${groupNames[groups.indexOf(group)]}`, xs: joined.xs, lines, bands,
      x: { unit: "s", name: "time" }, y: { unit: "per_s", name: "requests/s" },
      hint: bands.length > 0 ? "The shade is from the lowest to the highest of the intervals that a point stands for." : null,
    });
  }

  function intervalTable(t) {
    const v = t.intervals;
    const columns = [["from", "at", "s"], ["offered/s", "offered", "per_s"], ["achieved/s", "rate", "per_s"], ["lowest", "low", "per_s"],
      ["highest", "high", "per_s"], ["errors", "errors", "count"], ["p50", "p50", "ns"], ["p99", "p99", "ns"], ["max", "max", "ns"]].filter(([, key]) => v[key]);
    return table({
      columns: columns.map(([title]) => [title, false]),
      rows: v.at.map((_, i) => columns.map(([, key, unit]) => [human(v[key][i], unit), v[key][i]])),
    }, trialName(t));
  }

  const rule = () => {
    const widest = Math.max(1, ...D.series.map((one) => one.intervals.every));
    const some = D.series.length < D.dots.trials.length ? ` Of ${D.dots.trials.length} trials ${D.series.length} are shown over time: the first that counts of each target and workload.` : "";
    const kept = Math.max(1, ...D.series.map((one) => one.intervals.kept));
    return (widest > 1 ? `A point stands for up to ${widest} intervals: counts are added, latencies, memory and cores are the highest of them.` : "A point for each interval; nothing was left out.") +
      (kept > 1 ? ` In result.json a point stands for up to ${kept}; intervals.csv, server.csv and merged.hlog have each.` : "") + some;
  };

  function throughput() {
    return section("throughput", "Throughput and errors over time", el("p", { class: "hint" }, rule()), figures.chosen(groupNames, "Show", (i) => {
      const group = groups[i], errors = group.of.some((t) => t.intervals.errors.some((n) => n > 0));
      return [throughputChart(group),
        errors ? overTime(group, "Errors", "count", (t) => ({ xs: t.intervals.at, values: t.intervals.errors })) : el("p", null, "No errors in these trials."),
        overTime(group, "p99 latency", "ns", (t) => ({ xs: t.intervals.at, values: t.intervals.p99.map((v) => v || null) }), { log: true }),
        folded("As tables", () => el("div", null, group.of.map(intervalTable)))];
    }));
  }

  function heatMaps() {
    const maps = D.heat.filter((one) => one.map && one.map.columns.length > 0).map((one) => ({ t: trialOf(one.trial), map: one.map }));
    const broken = D.heat.filter((one) => one.error);
    return section("heat", "Latency over time", el("p", { class: "hint" }, "Each column is a stretch of time, each row a range of latencies; the stronger its colour, the more requests (logarithmic). Made of the histograms themselves."),
      broken.map((one) => el("p", { class: "warn" }, `${trialName(trialOf(one.trial))}: ${one.error}`)),
      figures.chosen(maps.map((one) => trialName(one.t)), "Show", (i) => {
        const { t, map } = maps[i];
        return [charts.heat({ title: "Latency heat map", label: `Latency over time, ${trialName(t)}`, name: "latency", map }),
          folded("As a table", () => charts.heatTable(map, `${trialName(t)}: requests by latency`))];
      }));
  }

  function agents() {
    const rows = D.agents.rows;
    return section("agents", "Agents", el("p", { class: "hint" }, "When each client began, how late it sent, its share of the requests, and how busy it was itself."),
      figures.startOffsets(rows), longTable(D.agents, rows.length >= D.agent_rows_max ? `Clients: the first ${D.agent_rows_max} rows` : "Clients"), said(D.clocks));
  }

  function servers() {
    const parts = D.servers.rows.length > 0 ? [figures.chosen(groupNames, "Show", (i) => {
      const group = groups[i], of = (key) => (t) => ({ xs: t.server.at, values: t.server[key] });
      return [overTime(group, "Cores used", "cores", of("cores")), overTime(group, "Memory", "bytes", of("rss")),
        overTime(group, "Context switches per second", "per_s", of("switches")),
        folded("As tables", () => el("div", null, group.of.filter((t) => t.server.at.length > 0).map((t) => table({
          columns: [["from", false], ["cores", false], ["memory", false], ["switches/s", false]],
          rows: t.server.at.map((s, k) => [[human(s, "s"), s], [human(t.server.cores[k], "cores"), t.server.cores[k]], [human(t.server.rss[k], "bytes"), t.server.rss[k]], [human(t.server.switches[k], "per_s"), t.server.switches[k]]]),
        }, trialName(t)))))];
    }), longTable(D.servers, "What the server's processes used in the measure window, trial by trial")] : [el("p", { class: "soft" }, "No server was watched.")];
    return section("server", "Server: CPU, memory, context switches", parts);
  }

  /* ---- 8 */

  function repetitions() {
    return section("repetitions", "Repetitions", figures.repetitions(D), longTable(D.trials, "Trials"));
  }

  /* ---- a search's curve */

  function limitOf(text) {
    const found = /^p[0-9.]+ ([0-9.]+)(ns|us|ms|s)$/.exec(text || "");
    return found ? Number(found[1]) * { ns: 1, us: 1e3, ms: 1e6, s: 1e9 }[found[2]] : null;
  }

  function searches() {
    if (D.searches.length === 0) return null;
    return section("capacity", "Capacity: latency over load", D.searches.map((one) => {
      const t = trialOf(one.trial);
      const column = (name) => one.probes.columns.findIndex(([title]) => title === name);
      const rate = column("offered/s"), p99 = column("p99"), finding = column("finding");
      const probes = one.probes.rows.filter((row) => row[rate] && row[p99] && row[p99][1] > 0).sort((a, b) => a[rate][1] - b[rate][1]);
      const word = (row) => Array.isArray(row[finding]) ? row[finding][0] : row[finding];
      const kinds = [["holds", 2, false], ["unclear", 4, true], ["useless", 6, true], ["breaks", 1, false]];
      const limit = one.limits.map(limitOf).find((x) => x !== null) || null;
      const lines = kinds.filter(([kind]) => probes.some((row) => word(row) === kind)).map(([kind, tint, hollow]) => ({
        label: `limits: ${kind}`, colour: tint, points: "dot", hollow, values: probes.map((row) => word(row) === kind ? row[p99][1] : null) }));
      const values = probes.map((row) => row[p99][1]).concat(limit || []);
      return [el("h3", null, trialName(t)), charts.chart({
        title: "p99 response time over the offered rate", label: `p99 over the offered rate, ${trialName(t)}`, xs: probes.map((row) => row[rate][1]), lines, height: 300,
        hint: `The shaded stretch is the 95 % interval of where the limits begin to break${limit ? ", the dashed line the limit" : ""}.`,
        x: { unit: "per_s", name: "offered/s", range: (u, low, high) => [Math.max(0, low - (high - low) * 0.03), high + (high - low) * 0.03 || 1] },
        y: { unit: "ns", log: true, name: "p99", range: [Math.min(...values) / 1.3, Math.max(...values) * 1.3] },
        hooks: { drawAxes: [(u) => {
          const c = u.ctx, at = (v) => u.valToPos(v, "x", true);
          c.save();
          c.beginPath();
          c.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
          c.clip();
          if (one.rate > 0) {
            const high = one.high > 0 ? at(one.high) : u.bbox.left + u.bbox.width;
            c.fillStyle = `rgba(${charts.variable("--heat")}, 0.15)`;
            c.fillRect(at(one.low), u.bbox.top, Math.max(2, high - at(one.low)), u.bbox.height);
            c.fillStyle = LS.variable("--fg");
            c.fillRect(at(one.rate) - 1, u.bbox.top, 2, u.bbox.height);
          }
          if (limit) {
            c.strokeStyle = LS.variable("--fg");
            c.setLineDash([8, 5]);
            c.beginPath();
            c.moveTo(u.bbox.left, u.valToPos(limit, "y", true));
            c.lineTo(u.bbox.left + u.bbox.width, u.valToPos(limit, "y", true));
            c.stroke();
          }
          c.restore();
        }] },
      }), table(one.probes, `Probes of ${trialName(t)}, by rate`)];
    }));
  }

  function ladders() {
    if (D.ladders.length === 0) return null;
    return section("ladder", "Throughput over connections", D.ladders.map((one) => {
      const t = trialOf(one.trial);
      const column = (name) => one.rungs.columns.findIndex(([title]) => title === name);
      const connections = column("connections"), pass = column("pass"), rate = column("requests/s");
      const rungs = one.rungs.rows.filter((row) => row[connections] && row[rate]).sort((a, b) => a[connections][1] - b[connections][1]);
      const passes = [...new Set(rungs.map((row) => row[pass][1]))].sort((a, b) => a - b);
      return [el("h3", null, trialName(t)), charts.chart({
        title: "Requests per second over connections", label: `requests per second over connections, ${trialName(t)}`, xs: rungs.map((row) => row[connections][1]),
        lines: passes.map((n, i) => ({ label: `${n % 2 === 1 ? "up" : "down"}, pass ${n}`, colour: i, points: "dot", hollow: n % 2 === 0, values: rungs.map((row) => row[pass][1] === n ? row[rate][1] : null) })),
        x: { unit: "count", log: true, name: "connections" }, y: { unit: "per_s", name: "requests/s" },
      }), table(one.rungs, `Rungs of ${trialName(t)}, as they were climbed`)];
    }));
  }

  /* ---- 9 to 11 */

  function environment() {
    const shown = (value) => Array.isArray(value) ? value[0] : value;
    const differs = (spec, skip) => spec.columns.map(([title], i) => !skip.includes(title) && new Set(spec.rows.map((row) => shown(row[i]))).size > 1);
    const hosts = differs(D.hosts, ["agent", "role", "CPUs", "clock +-"]), programs = differs(D.programs, ["target", "version", "program", "SHA-256", "run by"]);
    const names = (spec, flags) => spec.columns.filter((_, i) => flags[i]).map(([title]) => title).join(", ");
    return section("environment", "Environment",
      el("h3", null, "Targets"), D.programs.rows.length > 0 ? table(D.programs, "What was tested", programs) : el("p", { class: "soft" }, "Nothing is known of the targets' programs."),
      el("p", null, D.programs.rows.length < 2 ? null : programs.some((x) => x) ? `Beside their programs, the targets differ in: ${names(D.programs, programs)}.` : "The targets ran on the same host, on the same CPUs."),
      el("h3", null, "Hosts"), longTable(D.hosts, "Hosts of the agents", hosts),
      D.hosts.rows.length < 2 ? null : el("p", null, hosts.some((x) => x) ? `The hosts differ in: ${names(D.hosts, hosts)}.` : "The hosts are equal in all that is listed here."));
  }

  function method() {
    const words = (list) => list.map((word) => /^[A-Za-z0-9_.,:\/=\[\]-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`).join(" ");
    const again = ["lockstep", "run", "plan.yaml", "--seed", String(D.seed), ...(D.only ? ["--only", D.only] : []), ...D.changes.flatMap((c) => ["--set", c])];
    return section("method", "Method, plan, how to reproduce", said(D.method),
      el("ul", { class: "said" },
        el("li", null, "Every answer was compared with what the plan expects; wrong ones are errors, and make a trial invalid."),
        el("li", null, "Histograms are added, percentiles never averaged. Figures are rounded to three digits; hover a cell for the whole number."),
        el("li", null, rule()), el("li", null, "Names longer than 200 bytes are cut; what a reader could not see in a name is shown as \\x1b or \\u202e.")),
      el("h3", null, "Once more"), el("pre", { tabindex: "0", "aria-label": "commands" }, `${words(again)}\nsha256sum -c SHA256SUMS\nlockstep report . --format text\n`),
      el("ul", { class: "said" }, el("li", null, `run ${D.run_id}, seed ${D.seed}, lockstep ${D.version}`), el("li", null, `started ${D.started}, finished ${D.finished || "never"}`),
        el("li", null, "SHA-256 of the plan: ", el("code", null, D.plan_sha256))),
      D.plan ? folded("The plan", () => el("pre", { tabindex: "0", "aria-label": "plan" }, D.plan.join("\n"))) : null);
  }

  function raw() {
    const files = D.files && D.files.length > 0 ? folded("Files, with their SHA-256", () => el("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": "files" }, el("table", null,
      el("thead", null, el("tr", null, el("th", { scope: "col", class: "left" }, "file"), el("th", { scope: "col", class: "left" }, "SHA-256"))),
      el("tbody", null, D.files.map(([path, hash]) => el("tr", null, el("td", { class: "left" }, el("a", { href: "./" + path.split("/").map(encodeURIComponent).join("/") }, path)), el("td", { class: "left" }, el("code", null, hash)))))),
      D.files_left_out > 0 ? el("p", null, `${D.files_left_out} more are in SHA256SUMS.`) : null)) : null;
    return section("raw", "Raw data", el("p", null, "Where this page lies in its result folder: ",
      ["result.json", "plan.yaml", "environment.json", "SHA256SUMS"].flatMap((name, i) => [i > 0 ? ", " : "", el("a", { href: name }, name)]),
      ". The .hlog files are HdrHistogram logs, a line for each interval."), files,
      D.csv ? folded("Every figure of every trial, as CSV", () => el("pre", { tabindex: "0", "aria-label": "CSV" }, D.csv.join("\n"))) : null);
  }

  /* ---- the page */

  const sections = [comparison(), percentiles(), throughput(), heatMaps(), agents(), servers(), repetitions(), searches(), ladders(), environment(), method(), raw()].filter((x) => x);
  const nav = el("nav", { "aria-label": "Contents" }, el("ul", null, sections.map((s) => el("li", null, el("a", { href: `#${s.id}` }, s.querySelector("h2").textContent)))));
  document.body.append(el("a", { class: "skip", href: "#verdict" }, "To the verdict"),
    el("header", null, el("h1", null, D.title), D.description ? el("p", null, D.description) : null, paragraphs(D.status)),
    el("main", null, banner(), nav,
      charts.here ? null : el("p", { class: "warn" }, "This build of lockstep was made without the charts: every figure is in the tables."), sections),
    el("footer", null, `lockstep ${D.version}. `, charts.here ? "Charts by uPlot (MIT). " : null, "This file loads nothing and sends nothing."));
  document.documentElement.dataset.ready = "yes";
})();

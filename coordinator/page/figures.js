"use strict";
/* What both pages show of trials: reasons, bars, repetitions as dots, start offsets. */
LS.figures = (() => {
  const { el, human, table, picker, folded, charts } = LS;

  /* Of a verdict: the gravest, which come first; a long campaign may have hundreds. */
  function reasons(all) {
    const most = 8, list = (some) => el("ul", null, some.map(([kind, why]) => el("li", null, el("span", { class: kind || null }, why))));
    return [all.length > 0 ? list(all.slice(0, most)) : null, all.length > most ? folded(`${all.length - most} more reasons`, () => list(all.slice(most))) : null];
  }

  function bars(of, targets) {
    const most = Math.max(...of.rows.map((row) => Math.max(row[2], row[4], row[6]))) || 1;
    const box = el("div", { class: "bars", role: "img", "aria-label": `${of.title}: ${of.rows.map((row) => `${targets[row[0]]} ${row[7]}`).join(", ")}` });
    for (const [target, n, median, low, high, , , text] of of.rows) {
      const fill = el("div", { class: `fill h${target % 5}` });
      fill.style.width = `${100 * median / most}%`;
      fill.style.backgroundColor = `var(--c${target % 8})`;
      const whisker = n > 1 && high > low ? el("div", { class: "whisker" }) : null;
      if (whisker) {
        whisker.style.left = `${100 * low / most}%`;
        whisker.style.width = `${100 * (high - low) / most}%`;
      }
      box.append(el("div", { class: "bar" }, el("div", { class: "name" }, targets[target]), el("div", { class: "track" }, fill, whisker),
        el("div", { class: "value" }, text)));
    }
    return el("figure", null, el("figcaption", null, `${of.title} (${of.higher ? "more" : "less"} is better)`), box);
  }

  /* A picker and what it picks; kept.at is the choice, for who makes it anew. */
  function chosen(names, label, show, kept = { at: 0 }) {
    if (names.length === 0) return el("p", { class: "soft" }, "Nothing was measured over time.");
    const place = el("div");
    const fill = (i) => {
      kept.at = i;
      place.replaceChildren(...[show(i)].flat(3).filter((x) => x));
    };
    fill(Math.min(kept.at, names.length - 1));
    return [names.length > 1 ? picker(label, names, fill, kept.at) : el("p", { class: "soft" }, names[0]), place];
  }

  /* Theil and Sen: the median of all slopes; few figures, and an outlier does not matter. */
  function drift(points) {
    const slopes = [];
    for (let i = 0; i < points.length; i++)
      for (let k = i + 1; k < points.length; k++) slopes.push((points[k][1] - points[i][1]) / (points[k][0] - points[i][0]));
    const middle = (list) => { const s = [...list].sort((a, b) => a - b), n = s.length; return n % 2 ? s[(n - 1) / 2] : (s[n / 2 - 1] + s[n / 2]) / 2; };
    const median = middle(points.map((p) => p[1]));
    return median ? middle(slopes) * (points.at(-1)[0] - points[0][0]) / median : 0;
  }

  /* D: {targets, workloads: [{name}], dots}, as the report and the live page have them. */
  function repetitions(D, kept) {
    const choices = [];
    D.workloads.forEach((w, wi) => D.dots.metrics.forEach(([title, unit], m) => {
      if (D.dots.trials.some((row) => row[2] === wi && row[5 + m] !== null)) choices.push({ w, wi, title, unit, m });
    }));
    return [el("p", { class: "hint" }, "Every trial in the order in which it ran, the hollow ones do not count. Drift is the change from the first to the last, by the median of all slopes (Theil and Sen): what it shows was not the target."),
      chosen(choices.map((c) => `${c.title}, ${c.w.name}`), "Show", (i) => {
        const { wi, title, unit, m } = choices[i];
        const mine = D.dots.trials.map((row, place) => ({ row, place })).filter(({ row }) => row[2] === wi && row[5 + m] !== null);
        const xs = mine.map(({ place }) => place + 1), lines = [], drifts = [];
        D.targets.forEach((name, target) => {
          const own = mine.filter(({ row }) => row[1] === target);
          if (own.length === 0) return;
          for (const counts of [1, 0]) {
            const values = mine.map(({ row }) => row[1] === target && row[4] === counts ? row[5 + m] : null);
            if (values.some((v) => v !== null)) lines.push({ label: counts ? name : `${name}: does not count`, colour: target, points: "dot", hollow: !counts, values });
          }
          const points = own.filter(({ row }) => row[4]).map(({ row, place }) => [place + 1, row[5 + m]]);
          if (points.length > 2) drifts.push([name, [String(points.length), points.length], [human(points[0][1], unit), points[0][1]], [human(points.at(-1)[1], unit), points.at(-1)[1]], [human(drift(points), "share"), drift(points)]]);
        });
        return [charts.chart({ title, label: `${title} of every trial, in order`, xs, lines, height: 260, x: { unit: "count", name: "order", range: [xs[0] - 0.5, xs.at(-1) + 0.5] }, y: { unit, free: true },
            readout: (k) => `trial ${mine[k].row[0]}, ${D.targets[mine[k].row[1]]}: ${human(mine[k].row[5 + m], unit)}` }),
          drifts.length > 0 ? table({ columns: [["target", true], ["trials", false], ["first", false], ["last", false], ["drift", false]], rows: drifts }, `Drift of ${title}`) : null];
      }, kept)];
  }

  /* rows: of the agents' table. */
  function startOffsets(rows) {
    const offsets = rows.filter((row) => row[2] !== null);
    const lanes = offsets.slice(0, 400);
    return lanes.length > 1 && charts.here ? charts.chart({
      title: "Start offset of each client, trial by trial", label: "Start offset of each client, in the order of the table", xs: lanes.map((_, i) => i + 1),
      lines: [
        { label: "start offset", colour: 0, points: "dot", values: lanes.map((row) => row[2][1]) },
        { label: "bound above", unnamed: true, only: true, colour: 0, values: lanes.map((row) => row[2][1] + (row[3] ? row[3][1] : 0)) },
        { label: "bound below", unnamed: true, only: true, colour: 0, values: lanes.map((row) => row[2][1] - (row[3] ? row[3][1] : 0)) },
      ], bars: [1, 2], height: 200,
      x: { unit: "count", name: "row of the table", range: [0.5, lanes.length + 0.5] }, y: { unit: "ns", free: true, name: "late" },
      hint: "The bars are the bounds of what the clocks allow to know.",
    }) : null;
  }

  return { reasons, bars, chosen, repetitions, startOffsets };
})();

"use strict";
/* Charts, by uPlot where the build has it. A chart belongs to a figure that names it, with a line
 * under it that says what is below the pointer; beside it is always a table. */
LS.charts = (() => {
  const { el, human, colour, variable, dash, legend } = LS;
  const here = typeof uPlot === "function";
  const all = new Set();
  const paper = 680; /* what fits between the margins of A4 and of Letter */
  let printing = false;

  /* Colours are read when a chart is drawn: it is drawn again when they change. */
  function draw(chart) {
    if (chart.plot) chart.plot.destroy();
    const room = Math.max(240, Math.floor(chart.box.clientWidth || 640));
    const width = printing ? Math.min(room, paper) : room;
    chart.width = width;
    chart.plot = new uPlot(chart.options(width), chart.data, chart.box);
  }

  function redraw() {
    for (const chart of all) if (chart.box.isConnected) draw(chart);
  }

  const resized = typeof ResizeObserver === "function" ? new ResizeObserver((entries) => {
    for (const entry of entries) {
      const chart = entry.target.chart;
      const width = Math.max(240, Math.floor(entry.contentRect.width));
      if (chart && chart.plot && Math.abs(width - chart.width) > 1 && !printing) {
        chart.width = width;
        chart.plot.setSize({ width, height: chart.height });
      }
    }
  }) : null;

  if (here) {
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
    addEventListener("beforeprint", () => { printing = true; redraw(); });
    addEventListener("afterprint", () => { printing = false; redraw(); });
  }

  /* Where ticks may be: whole ones, and of bytes powers of two. */
  const steps = {
    count: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9].flatMap((p) => [1, 2, 5].map((n) => n * 10 ** p)),
    s: [...[-3, -2, -1, 0].flatMap((p) => [1, 2, 5].map((n) => n * 10 ** p)), 10, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800, 86400],
    bytes: Array.from({ length: 50 }, (_, i) => 2 ** i),
  };

  function axis(unit, more) {
    return {
      stroke: variable("--fg"), font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif", labelSize: 18,
      grid: { stroke: variable("--line"), width: 1 }, ticks: { stroke: variable("--line"), width: 1 },
      values: (u, splits) => splits.map((v) => v === null ? "" : human(v, unit)), ...(steps[unit] ? { incrs: steps[unit] } : {}), ...more,
    };
  }

  /* Ticks of a logarithmic axis: as many as there is room for. */
  function decades(u, splits) {
    if (splits.length === 0) return splits;
    const range = Math.log10(splits.at(-1) / splits[0]);
    return splits.map((v) => {
      const lead = Math.round(v / 10 ** Math.floor(Math.log10(v) + 1e-9));
      return lead === 1 || (range < 2.5 && (lead === 2 || lead === 5)) || (range < 0.9 && lead < 7) || range < 0.4 ? v : null;
    });
  }

  /* Whole numbers, wherever the range begins: uPlot counts on from its lower end. */
  function logSplits(u, index, low, high) {
    const splits = [], steps = high / low > 1e3 ? [1, 2, 5] : [1, 2, 3, 4, 5, 6, 7, 8, 9];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++)
      for (const step of steps) {
        const value = Number(`${step}e${power}`);
        if (value >= low && value <= high) splits.push(value);
      }
    return splits;
  }

  /* Around what is there, with a little room; a logarithmic one never ends at zero. */
  function spread(log, zero) {
    return (u, low, high) => {
      if (low === null || high === null || !Number.isFinite(low)) return [log ? 1 : 0, log ? 10 : 1];
      if (log) {
        const from = Math.max(low, 1e-9);
        return [from / 1.15, Math.max(high, from) * 1.15];
      }
      if (zero) return [0, high > 0 ? high * 1.08 : 1];
      const room = (high - low) * 0.08 || Math.abs(high) * 0.05 || 1;
      return [low - room, high + room];
    };
  }

  /* All of what is there. One point alone, which uPlot would put at the edge of a hundred seconds, gets one. */
  function wide(u, low, high) {
    const xs = u.data[0];
    return xs.length === 0 ? [0, 1] : xs.length === 1 ? [xs[0], xs[0] + 1] : [low, high];
  }

  /* chart({title, hint, label, x: {unit, log, name}, y: {unit, log, name}, lines: [{label, colour,
   * dash, values, points, only}], xs, bands, hooks, height, readout}): a figure. Values have one entry for
   * each of xs. */
  function chart(spec) {
    const box = el("div", { class: "plot", role: "img", "aria-label": spec.label || spec.title });
    const readout = el("p", { class: "readout", "aria-hidden": "true" }, " ");
    const made = {
      box, height: spec.height || 280, data: [spec.xs, ...spec.lines.map((line) => line.values)],
      options: (width) => ({
        width, height: spec.height || 280, legend: { show: false },
        cursor: { drag: { x: false, y: false }, points: spec.bare ? { show: false } : { size: 7 } },
        scales: {
          x: { time: false, distr: spec.x.log ? 3 : 1, range: spec.x.range || (spec.x.log ? spread(true) : wide) },
          y: { distr: spec.y.log ? 3 : 1, range: spec.y.range || spread(spec.y.log, !spec.y.free) },
        },
        axes: [
          axis(spec.x.unit, { label: spec.x.name, size: 34, space: spec.x.space || 60, filter: spec.x.log ? spec.x.filter || decades : undefined, splits: spec.x.log ? logSplits : undefined,
            ...(spec.x.values ? { values: spec.x.values } : {}) }),
          axis(spec.y.unit, { label: spec.y.name, size: 76, space: 28, filter: spec.y.log ? decades : undefined, splits: spec.y.log ? logSplits : undefined }),
        ],
        series: [{}, ...spec.lines.map((line) => ({
          label: line.label, stroke: line.only ? "transparent" : colour(line.colour), width: line.width ?? 2,
          dash: dash(line.dash ?? line.colour), spanGaps: false, show: true,
          paths: line.points || line.hidden ? () => null : undefined,
          points: { show: !line.points && !line.hidden && line.values.length <= 2, size: 6, stroke: colour(line.colour), fill: colour(line.colour) },
        }))],
        bands: (spec.bands || []).map(([high, low, of]) => ({ series: [high + 1, low + 1], fill: faded(colour(of)) })),
        hooks: {
          draw: [(u) => {
            if (spec.bars) uncertainty(u, spec.bars);
            spec.lines.forEach((line, i) => { if (line.points) dots(u, line, i + 1); });
          }],
          ...(spec.hooks || {}),
          setCursor: [(u) => { readout.textContent = u.cursor.idx === null || u.cursor.idx === undefined ? " " : spec.readout ? spec.readout(u.cursor.idx, u) : read(spec, u.cursor.idx); }],
        },
      }),
    };
    const items = spec.legend || spec.lines.filter((line) => !line.unnamed).map((line) => ({ label: line.label, colour: line.colour, dash: line.dash, points: line.points, hollow: line.hollow }));
    const figure = el("figure", null, el("figcaption", null, spec.title), spec.hint ? el("p", { class: "hint" }, spec.hint) : null,
      items.length > 1 || spec.legend ? legend(items) : null, box, readout);
    if (!here) {
      box.remove();
      readout.remove();
      return el("div", null);
    }
    for (const old of all) {
      if (!old.plot || old.box.isConnected) continue;
      old.plot.destroy(); /* another one is shown in its place */
      all.delete(old);
    }
    box.chart = made;
    all.add(made);
    figure.chart = made;
    if (resized) resized.observe(box);
    /* It needs its width: drawn as soon as it is in the page. */
    requestAnimationFrame(() => { if (box.isConnected) draw(made); });
    return figure;
  }

  /* A vertical bar from one line's value to another's, at each x. */
  function uncertainty(u, [high, low]) {
    const c = u.ctx;
    c.save();
    c.fillStyle = variable("--soft");
    u.data[0].forEach((x, i) => {
      const top = u.valToPos(u.data[high + 1][i], "y", true), bottom = u.valToPos(u.data[low + 1][i], "y", true);
      const middle = u.valToPos(x, "x", true);
      c.fillRect(middle - 1, top, 2, bottom - top);
      c.fillRect(middle - 4, top, 8, 2);
      c.fillRect(middle - 4, bottom - 2, 8, 2);
    });
    c.restore();
  }

  /* Points have shapes as lines have dashes. */
  function dots(u, line, series) {
    const c = u.ctx, size = 5 * devicePixelRatio;
    c.save();
    c.strokeStyle = colour(line.colour);
    c.fillStyle = line.hollow ? variable("--bg") : colour(line.colour);
    c.lineWidth = 2 * devicePixelRatio;
    u.data[series].forEach((y, i) => {
      if (y === null || y === undefined) return;
      const at = new Path2D();
      LS.shape(line.colour, u.valToPos(u.data[0][i], "x", true), u.valToPos(y, "y", true), size, at);
      c.fill(at);
      c.stroke(at);
    });
    c.restore();
  }

  function faded(text) {
    const n = Number.parseInt(text.slice(1), 16);
    return text.length === 7 ? `rgba(${n >> 16}, ${(n >> 8) & 255}, ${n & 255}, 0.18)` : "rgba(128, 128, 128, 0.18)";
  }

  function read(spec, i) {
    const parts = spec.lines.filter((line) => !line.unnamed && line.values[i] !== null && line.values[i] !== undefined)
      .map((line) => `${line.label} ${human(line.values[i], spec.y.unit)}`);
    return `${spec.x.name ? spec.x.name + " " : ""}${spec.x.read ? spec.x.read(spec.xs[i]) : human(spec.xs[i], spec.x.unit)}: ${parts.join(", ")}`;
  }

  /* Several lines with their own xs on one axis: [{xs, values}]; null where a line has no value. */
  function aligned(lines) {
    const xs = [...new Set(lines.flatMap((line) => line.xs))].sort((a, b) => a - b);
    const places = new Map(xs.map((x, i) => [x, i]));
    return {
      xs,
      values: lines.map((line) => {
        const values = Array(xs.length).fill(undefined); /* undefined: a line goes on across it */
        line.xs.forEach((x, i) => { values[places.get(x)] = line.values[i]; });
        return values;
      }),
    };
  }

  /* "99.9 %" of 1 / (1 - p). */
  function percentile(x) {
    const p = 100 * (1 - 1 / x);
    return `${Number(p.toFixed(Math.max(0, Math.ceil(Math.log10(x)) - 1)))} %`;
  }

  /* Rows of a heat map, as coord_heat_row(): the lowest latency of one, and the one of a latency. */
  const edge = (row) => 100 * 10 ** (row / 8);
  const rowOf = (value) => Math.floor(Math.log10(value / 100) * 8);

  /* What is in a map {at, columns: [[first row, count ...]]}: rows from low up to high, the smallest and
   * the largest count, and where the last column ends. */
  function measureMap({ at, columns }) {
    const filled = columns.filter((column) => column.length > 1);
    const low = filled.length > 0 ? Math.min(...filled.map((column) => column[0])) : 0;
    const high = filled.length > 0 ? Math.max(...filled.map((column) => column[0] + column.length - 1)) : 1;
    const most = Math.max(1, ...filled.map((column) => Math.max(...column.slice(1))));
    const least = Math.min(most, ...filled.map((column) => Math.min(...column.slice(1).filter((n) => n > 0))));
    const step = at.length > 1 ? (at.at(-1) - at[0]) / (at.length - 1) : 1;
    return { at, columns, low, high, least, most, end: at.at(-1) + step };
  }

  /* A figure; its update(map) shows another map. */
  function heat(spec) {
    let map = measureMap(spec.map);
    /* From the rarest to the most frequent that there is: of a long run no count is small. */
    const strength = (count) => 0.12 + 0.88 * (map.most > map.least ? Math.log(count / map.least) / Math.log(map.most / map.least) : 1);
    const edges = () => [...map.at, map.end];
    const figure = chart({
      title: spec.title, label: spec.label, hint: spec.hint, height: 280, bare: true,
      xs: edges(), lines: [{ label: "", values: edges().map(() => edge(map.low)), colour: 0, unnamed: true, hidden: true }],
      x: { unit: "s", name: "time", range: () => [map.at[0], map.end] },
      y: { unit: "ns", log: true, name: spec.name, range: () => [edge(map.low), edge(map.high)] },
      hooks: {
        draw: [(u) => {
          const c = u.ctx, rgb = variable("--heat");
          const across = edges().map((x) => Math.round(u.valToPos(x, "x", true)));
          const down = Array.from({ length: map.high - map.low + 1 }, (_, k) => Math.round(u.valToPos(edge(map.low + k), "y", true)));
          c.save();
          c.beginPath();
          c.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
          c.clip();
          map.columns.forEach((column, i) => {
            for (let k = 1; k < column.length; k++) {
              if (column[k] === 0) continue;
              const row = column[0] + k - 1 - map.low;
              c.fillStyle = `rgba(${rgb}, ${strength(column[k])})`;
              c.fillRect(across[i], down[row + 1], Math.max(1, across[i + 1] - across[i]), Math.max(1, down[row] - down[row + 1]));
            }
          });
          c.restore();
        }],
      },
      readout: (i, u) => {
        const column = map.columns[Math.min(i, map.columns.length - 1)];
        const row = rowOf(u.posToVal(u.cursor.top, "y")), count = column[row - column[0] + 1];
        return `${human(map.at[Math.min(i, map.at.length - 1)], "s")}, ${human(edge(row), "ns")} to ${human(edge(row + 1), "ns")}: ${count === undefined || row < column[0] ? 0 : human(count, "count")} requests`;
      },
    });
    figure.update = (next) => {
      map = measureMap(next);
      if (!figure.chart) return;
      figure.chart.data = [edges(), edges().map(() => edge(map.low))];
      if (figure.chart.plot) figure.chart.plot.setData(figure.chart.data);
    };
    return figure;
  }

  /* The same as a table. */
  function heatTable(map, caption) {
    const { low, high, at, columns } = measureMap(map);
    const rows = Array.from({ length: high - low }, (_, k) => low + k);
    return LS.table({
      columns: [["from", false], ...rows.map((row) => [`< ${human(edge(row + 1), "ns")}`, false])],
      rows: columns.map((column, i) => [[human(at[i], "s"), at[i]],
        ...rows.map((row) => { const n = row < column[0] ? 0 : column[row - column[0] + 1] || 0; return n === 0 ? null : [human(n, "count"), n]; })]),
    }, caption);
  }

  /* Not more columns than that: neighbours are added. */
  function fewerColumns(map, most) {
    const every = Math.ceil(map.at.length / most), made = { at: [], columns: [] };
    for (let i = 0; i < map.at.length; i += every) {
      const some = map.columns.slice(i, i + every).filter((column) => column.length > 1);
      const low = Math.min(...some.map((column) => column[0]));
      const high = Math.max(...some.map((column) => column[0] + column.length - 1));
      const sum = some.length > 0 ? Array(high - low).fill(0) : [];
      for (const column of some) column.slice(1).forEach((n, k) => { sum[column[0] - low + k] += n; });
      made.at.push(map.at[i]);
      made.columns.push(some.length > 0 ? [low, ...sum] : [0]);
    }
    return made;
  }

  return { here, chart, heat, heatTable, fewerColumns, edge, aligned, percentile, variable };
})();

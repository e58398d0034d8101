"use strict";
/* What the report and the live page share: elements, tables, numbers. Everything that comes from
 * the data becomes a text node; nothing is ever parsed as markup. */
const LS = (() => {
  /* el("p", {class: "soft"}, "text", child): null children are left out. */
  function el(name, attributes, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (typeof value === "function") made.addEventListener(key, value);
      else made.setAttribute(key, value === true ? "" : String(value));
    }
    for (const child of children.flat(Infinity)) {
      if (child === null || child === undefined) continue;
      made.append(child); /* strings become text nodes */
    }
    return made;
  }

  const svgNames = "http://www.w3.org/2000/svg";
  function svg(name, attributes, ...children) {
    const made = document.createElementNS(svgNames, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
    made.append(...children);
    return made;
  }

  /* Three significant digits, as the program rounds them. */
  function digits(value) {
    const size = Math.abs(value);
    if (size === 0) return "0";
    return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2);
  }

  function scaled(value, steps) {
    const size = Math.abs(value);
    for (const [least, name] of steps) if (size >= least) return digits(value / least) + name;
    return digits(value / steps.at(-1)[0]) + steps.at(-1)[1];
  }

  const formats = {
    ns: (v) => v === 0 ? "0" : scaled(v, [[1e9, " s"], [1e6, " ms"], [1e3, " us"], [1, " ns"]]),
    per_s: (v) => scaled(v, [[1e9, " G"], [1e6, " M"], [1e3, " k"], [1, ""]]),
    count: (v) => Math.abs(v) < 1e4 ? String(Math.round(v)) : scaled(v, [[1e9, " G"], [1e6, " M"], [1e3, " k"]]),
    bytes: (v) => v === 0 ? "0" : scaled(v, [[2 ** 30, " GiB"], [2 ** 20, " MiB"], [2 ** 10, " KiB"], [1, " B"]]),
    share: (v) => (v * 100).toFixed(1) + " %",
    cores: (v) => v.toFixed(v !== 0 && Math.abs(v) < 0.1 ? 3 : 2),
    s: (v) => {
      if (v < 120) return Number(v.toFixed(v < 10 ? 2 : 1)) + " s";
      const minutes = Math.floor(v / 60) % 60, hours = Math.floor(v / 3600);
      if (hours > 0) return minutes > 0 ? `${hours} h ${minutes} min` : `${hours} h`;
      return Math.round(v % 60) > 0 ? `${minutes} min ${Math.round(v % 60)} s` : `${minutes} min`;
    },
  };
  function human(value, unit) {
    return value === null || value === undefined || Number.isNaN(value) ? "–" : formats[unit](value);
  }

  /* A cell: null, text, [text, style], [rounded, exact]. */
  function cell(value, left) {
    if (value === null) return el("td", { class: left ? "left" : null }, "–");
    if (typeof value === "string") return el("td", { class: left ? "left" : null, title: left ? value : null }, value);
    if (typeof value[1] === "number") return el("td", { class: left ? "left" : null, title: String(value[1]) }, value[0]);
    return el("td", { class: (left ? "left " : "") + value[1], title: value[0] }, value[0]);
  }

  /* {columns: [[title, left]], rows: [[cell]]}. A wide one scrolls by itself, by keyboard as well. */
  function table(spec, caption, differs) {
    const head = el("tr", null, spec.columns.map(([title, left], i) =>
      el("th", { scope: "col", class: (left ? "left" : "") + (differs && differs[i] ? " differs" : "") }, title)));
    const rows = spec.rows.map((row) => el("tr", null, row.map((value, i) => cell(value, spec.columns[i][1]))));
    return el("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": caption },
      el("table", null, el("caption", null, caption), el("thead", null, head), el("tbody", null, rows)));
  }

  /* A long one only when it is asked for: thousands of cells make a page slow to open. */
  function longTable(spec, caption, differs) {
    if (spec.rows.length <= 200) return table(spec, caption, differs);
    return folded(`${caption}: ${spec.rows.length} rows`, () => table(spec, caption, differs));
  }

  /* [[style, text]] as a list; nothing for none. */
  function said(list) {
    if (!list || list.length === 0) return null;
    return el("ul", { class: "said" }, list.map(([style, text]) => el("li", { class: style || null }, text)));
  }

  function paragraphs(list) {
    return list.map(([style, text]) => el("p", { class: style || null }, text));
  }

  /* What is only made when somebody wants to see it. */
  function folded(title, make) {
    const box = el("details", null, el("summary", null, title));
    let made = false;
    box.addEventListener("toggle", () => {
      if (!box.open || made) return;
      made = true;
      box.append(make());
    });
    return box;
  }

  function section(id, title, ...children) {
    return el("section", { id, "aria-labelledby": `${id}-title` }, el("h2", { id: `${id}-title` }, title), children);
  }

  function picker(label, options, change, at = 0) {
    const select = el("select", { change: () => change(Number(select.value)) },
      options.map((text, i) => el("option", { value: i, selected: i === at }, text)));
    return el("label", { class: "picker" }, label, select);
  }

  /* Colours and dashes go together, so that either tells lines apart. */
  const dashes = [[], [9, 4], [2, 3], [12, 3, 2, 3], [5, 3], [14, 5], [2, 6], [8, 2, 2, 2, 2, 2]];
  function colour(i) {
    return getComputedStyle(document.documentElement).getPropertyValue(`--c${i % 8}`).trim();
  }
  function variable(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }
  function dash(i) {
    return dashes[i % dashes.length];
  }

  /* Circle, square, triangle, diamond: added to a path that has moveTo and lineTo, or to a list. */
  function shape(i, x, y, size, path) {
    const corners = [Array.from({ length: 20 }, (_, k) => [Math.cos(k * Math.PI / 10), Math.sin(k * Math.PI / 10)]),
      [[-0.9, -0.9], [0.9, -0.9], [0.9, 0.9], [-0.9, 0.9]], [[0, -1.15], [1.1, 0.85], [-1.1, 0.85]], [[0, -1.25], [1.25, 0], [0, 1.25], [-1.25, 0]]][i % 4];
    corners.forEach(([dx, dy], k) => path[k === 0 ? "moveTo" : "lineTo"](x + dx * size, y + dy * size));
    path.closePath();
  }

  function shapeIcon(item) {
    const steps = [];
    shape(item.colour, 8, 6, 4.5, { moveTo: (x, y) => steps.push(`M${x} ${y}`), lineTo: (x, y) => steps.push(`L${x} ${y}`), closePath: () => steps.push("Z") });
    const mark = svg("path", { d: steps.join(""), "stroke-width": 2 });
    mark.style.stroke = `var(--c${item.colour % 8})`;
    mark.style.fill = item.hollow ? "none" : `var(--c${item.colour % 8})`;
    return svg("svg", { width: 16, height: 13, "aria-hidden": "true" }, mark);
  }

  /* items: [{label, colour: index, dash: index, points, hollow}] */
  function legend(items) {
    return el("ul", { class: "legend" }, items.map((item) => {
      if (item.points) return el("li", null, shapeIcon(item), el("span", null, item.label));
      const line = svg("line", { x1: 0, y1: 6, x2: 30, y2: 6, "stroke-width": 3, "stroke-dasharray": dash(item.dash ?? item.colour).join(" ") });
      line.style.stroke = `var(--c${item.colour % 8})`;
      return el("li", null, svg("svg", { width: 30, height: 12, "aria-hidden": "true" }, line), el("span", null, item.label));
    }));
  }

  return { el, svg, human, table, longTable, said, paragraphs, folded, section, picker, colour, variable, dash, shape, legend };
})();

// What has to hold of every page, as expressions for browser.mjs: lists of what is wrong.

/* WCAG 2: relative luminance, contrast of each text with what is behind it. */
export const contrast = `(() => {
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
export const unnamed = `[
  ...[...document.querySelectorAll("select")].filter((e) => !e.closest("label")).map(() => "a select without a label"),
  ...[...document.querySelectorAll("[role=img], .scroll, pre[tabindex]")].filter((e) => !e.getAttribute("aria-label") && !e.closest("details")).map((e) => e.className + " without a name"),
  ...[...document.querySelectorAll("table")].filter((e) => !e.querySelector("th[scope=col]")).map(() => "a table without a head"),
  ...[...document.querySelectorAll(".scroll")].filter((e) => e.scrollWidth > e.clientWidth + 1 && e.tabIndex !== 0).map(() => "a table that no key scrolls"),
  ...[...document.querySelectorAll("section")].filter((s) => s.querySelector("figure") && !s.querySelector("table, details")).map((s) => s.id + ": a plot without a table"),
]`;

export const blank = `[...document.querySelectorAll(".plot canvas")].filter((c) => {
  const d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
  for (let i = 3; i < d.length; i += 4) if (d[i] !== 0) return false;
  return true;
}).length`;

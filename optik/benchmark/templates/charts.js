// Line charts and limit strips as SVG text, and the charts that read out what is under the pointer.
// The text is parsed by the page itself, so that no namespace address has to be written anywhere.

// ---------------------------------------------------------------- scales

/** A scale from values to pixels: linear or logarithmic. */
optik.scale = function (kind, low, high, from, to) {
  const f = kind === "log" ? Math.log10 : (v) => v;
  const a = f(low), b = f(high) === a ? a + 1 : f(high);
  const scale = (v) => from + ((f(v) - a) / (b - a)) * (to - from);
  scale.invert = (p) => {
    const v = a + ((p - from) / (to - from)) * (b - a);
    return kind === "log" ? 10 ** v : v;
  };
  return scale;
};

/** Tick values: decades on a log scale, steps of 1, 2, 5 on a linear one. */
optik.ticks = function (kind, low, high, most = 6) {
  const out = [];
  if (kind === "log") {
    const first = Math.ceil(Math.log10(low) - 1e-9), last = Math.floor(Math.log10(high) + 1e-9);
    const every = Math.max(1, Math.ceil((last - first + 1) / most));
    for (let p = first; p <= last; p += every) out.push(10 ** p);
    // Less than two decades: let 2 and 5 speak too.
    if (last - first < 2)
      for (let p = first - 1; p <= last; p++)
        for (const m of [2, 5]) if (m * 10 ** p >= low * 0.999 && m * 10 ** p <= high * 1.001) out.push(m * 10 ** p);
    return out.sort((a, b) => a - b);
  }
  const raw = (high - low) / most, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw * 0.999);
  for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + 1e-9 * step; v += step) out.push(Number(v.toPrecision(12)));
  return out;
};

optik.tickText = function (value, axis) {
  if (axis.percent) return `${Number((100 * value).toPrecision(6))} %`;
  if (axis.scale === "log" && (value >= 1e4 || value < 1e-2)) {
    const power = Math.round(Math.log10(value));
    return Math.abs(10 ** power / value - 1) < 1e-6 ? `10${optik.superscript(power)}` : optik.digits(value);
  }
  return optik.digits(value);
};

// ---------------------------------------------------------------- line charts

const near = (v) => Math.round(v * 10) / 10;

/** One chart as SVG text.  x and y: {scale, min, max, label}; series: {x, y, colour, dash, step}. */
optik.lineChart = function ({ width, height, left = 58, right = 14, top = 12, bottom = 36, x, y, series, rules = [] }) {
  const sx = optik.scale(x.scale, x.min, x.max, left, width - right);
  const sy = optik.scale(y.scale, y.min, y.max, height - bottom, top);
  const out = [`<svg class="chart" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img" aria-label="${optik.escape(y.label ?? "")} against ${optik.escape(x.label ?? "")}">`];
  for (const v of optik.ticks(y.scale, y.min, y.max, Math.max(2, Math.floor((height - top - bottom) / 26)))) {
    const at = near(sy(v));
    out.push(`<line class="grid" x1="${left}" x2="${width - right}" y1="${at}" y2="${at}"/><text class="tick" x="${left - 8}" y="${at + 4}" text-anchor="end">${optik.tickText(v, y)}</text>`);
  }
  if (bottom > 20)
    for (const v of optik.ticks(x.scale, x.min, x.max, Math.max(2, Math.floor((width - left - right) / 70)))) {
      const at = near(sx(v));
      out.push(`<line class="notch" x1="${at}" x2="${at}" y1="${height - bottom}" y2="${height - bottom + 4}"/><text class="tick" x="${at}" y="${height - bottom + 17}" text-anchor="middle">${optik.tickText(v, x)}</text>`);
    }
  out.push(`<line class="axis" x1="${left}" x2="${width - right}" y1="${height - bottom}" y2="${height - bottom}"/>`);
  if (x.label && bottom > 30) out.push(`<text class="label" x="${(left + width - right) / 2}" y="${height - 3}" text-anchor="middle">${optik.escape(x.label)}</text>`);
  if (y.label) out.push(`<text class="label" x="${left}" y="${top - 1}">${optik.escape(y.label)}</text>`);
  for (const rule of rules) {
    const at = near(sy(rule.y));
    out.push(`<line class="rule" x1="${left}" x2="${width - right}" y1="${at}" y2="${at}"/><text class="note" x="${width - right}" y="${at - 5}" text-anchor="end">${optik.escape(rule.text)}</text>`);
  }
  for (const s of series) {
    const d = optik.linePath(s, sx, sy, x, y);
    if (d) out.push(`<path class="line" d="${d}" style="stroke:${s.colour}${s.dash ? `;stroke-dasharray:${s.dash}` : ""}"/>`);
    if (s.end !== undefined && s.x[s.end] <= x.max) {
      const v = Math.max(y.min, Math.min(y.max, s.y[s.end] || y.min));
      out.push(`<circle cx="${near(sx(s.x[s.end]))}" cy="${near(sy(v))}" r="3.6" style="fill:${s.colour}"/>`);
    }
  }
  out.push("</svg>");
  return { svg: out.join(""), sx, sy };
};

/** The path of one series, cut at the ends of the x axis; a gap where a value is missing. */
optik.linePath = function (s, sx, sy, x, y) {
  let d = "", open = false, before = null;
  for (let i = 0; i < s.x.length; i++) {
    if (s.y[i] === null || s.x[i] < x.min || s.x[i] > x.max * (1 + 1e-9)) {
      open = false;
      continue;
    }
    const px = near(sx(s.x[i])), py = near(sy(Math.max(y.min, Math.min(y.max, s.y[i]))));
    if (s.step && open) d += `H${px}`;
    d += `${open ? "L" : "M"}${px} ${py}`;
    open = true;
    before = py;
  }
  return before === null ? "" : d;
};

/** Value of a series at x: the last point at or before it. */
optik.valueAt = function (s, x) {
  let low = 0, high = s.x.length - 1;
  if (high < 0 || x < s.x[0]) return null;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (s.x[middle] <= x) low = middle;
    else high = middle - 1;
  }
  return s.y[low];
};

// ---------------------------------------------------------------- the limit strip

/** Stays on a limit as runs of equal letters: [{joint, letter, first, last}]. */
optik.stays = function (limits) {
  const out = [];
  const joints = limits.length ? limits[0].length : 0;
  for (let j = 0; j < joints; j++)
    for (let k = 0, begin = 0; k < limits.length; k++) {
      const letter = limits[k][j];
      if (k + 1 < limits.length && limits[k + 1][j] === letter) continue;
      if (letter !== ".") out.push({ joint: j, letter, first: begin, last: k });
      begin = k + 1;
    }
  return out;
};

/** The strip of one run as SVG text: a row a joint, a coloured bar while it sits on a limit. */
optik.limitStrip = function ({ width, left, right, rows, names, run, x, row = 15, colour }) {
  const sx = optik.scale("linear", x.min, x.max, left, width - right);
  const height = rows.length * row + 4;
  const out = [`<svg class="chart" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img" aria-label="joints on a limit at every iteration">`];
  const end = Math.min(sx(run.steps) + 0.5, width - right);
  rows.forEach((joint, i) => {
    const at = 2 + i * row;
    out.push(`<text class="tick" x="${left - 8}" y="${at + row - 4}" text-anchor="end">${optik.escape(names[joint])}</text>`);
    out.push(`<rect class="track" x="${left}" y="${at + 1}" width="${near(Math.max(0, end - left))}" height="${row - 3}"/>`);
  });
  for (const stay of optik.stays(run.limits)) {
    const i = rows.indexOf(stay.joint);
    if (i < 0 || stay.first > x.max) continue;
    const a = Math.max(left, sx(stay.first - 0.5)), b = Math.min(sx(stay.last + 0.5), end);
    const low = stay.letter.toUpperCase() === "L", pressed = stay.letter !== stay.letter.toLowerCase();
    out.push(`<rect class="${low ? "lower" : "upper"}${pressed ? "" : " loose"}" x="${near(a)}" y="${3 + i * row}" width="${near(Math.max(1.5, b - a))}" height="${row - 3}" rx="1.5"/>`);
  }
  if (end < width - right - 4) out.push(`<circle cx="${near(end)}" cy="${near(height / 2)}" r="3.6" style="fill:${colour}"/>`);
  out.push("</svg>");
  return out.join("");
};

// ---------------------------------------------------------------- the charts of the whole run

/** Axes that hold all the series: x from the data, y from 0 to 1. */
optik.shareAxes = function (chart) {
  const xs = chart.x;
  return {
    x: { scale: "log", min: xs[0], max: xs[xs.length - 1], label: chart.label },
    y: { scale: "linear", min: 0, max: 1, percent: true, label: "share of the targets" },
  };
};

/** Draws one chart of the run into an element and reads out what is under the pointer. */
optik.showShare = function (element, chart, solvers, hidden) {
  const width = element.clientWidth || 600, height = 300;
  const axes = optik.shareAxes(chart);
  const series = [];
  solvers.forEach((s, i) => {
    const y = chart.y[i];
    if (y && !hidden.has(i)) series.push({ x: chart.x, y, colour: `var(--s${i % 8})`, dash: s.dash, step: true, name: s.name });
  });
  const drawn = optik.lineChart({ width, height, top: 22, bottom: 42, ...axes, series, rules: [] });
  element.innerHTML = `${drawn.svg}<div class="cursor" hidden></div><div class="readout" hidden></div>`;
  const [, cursor, readout] = element.children;
  const leave = () => (cursor.hidden = readout.hidden = true);
  element.onpointerleave = leave;
  element.onpointermove = (event) => {
    const px = event.clientX - element.getBoundingClientRect().left;
    const x = drawn.sx.invert(px);
    if (x < axes.x.min || x > axes.x.max) return leave();
    cursor.hidden = readout.hidden = false;
    cursor.style.left = `${px}px`;
    readout.style.left = `${Math.min(px + 14, width - 210)}px`;
    readout.innerHTML = `<b>${optik.tickText(Number(x.toPrecision(3)), { scale: "linear" })}</b> ${optik.escape(chart.unit)}` +
      series
        .map((s) => ({ s, v: optik.valueAt(s, x) }))
        .sort((a, b) => b.v - a.v)
        .map(({ s, v }) => `<span><i style="background:${s.colour}"></i>${optik.escape(s.name)}<em>${optik.percent(v)}</em></span>`)
        .join("");
  };
};

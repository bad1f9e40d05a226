// Puts the page together.

optik.main = function (document) {
  const find = (id) => document.getElementById(id);
  const data = (optik.data = JSON.parse(find("data").textContent));

  // Colours come from the style sheet, so that dark and light have one source.
  let colours = null;
  optik.palette = function () {
    if (colours) return colours;
    const style = getComputedStyle(document.documentElement);
    const text = (name) => style.getPropertyValue(name).trim();
    const rgb = (name) => optik.parseColour(text(name));
    return (colours = {
      dark: rgb("--arm-dark"), light: rgb("--arm-light"), target: rgb("--target"),
      targetLine: text("--target"), lower: rgb("--lower"), upper: rgb("--upper"),
      grid: text("--floor"), paper: text("--paper"), ink: text("--ink"),
      shadow: Number(text("--shadow")) || 1, sides: [text("--side0"), text("--side1")],
      css: (c) => `rgb(${c.map(Math.round).join(",")})`,
    });
  };

  for (const table of document.querySelectorAll("table.sortable")) optik.sortable(table);

  // The charts of the whole run.
  const hidden = new Set();
  const setPick = find("chart-set"), costPick = find("chart-cost");
  const charts = () => {
    if (!setPick) return;
    const group = data.charts[setPick.value];
    for (const name of ["tolerance", "budget", "performance", "data"]) {
      const element = find(`chart-${name}`);
      const chart = group[name][costPick.value] ?? group[name].evaluations;
      optik.showShare(element, chart, data.solvers, hidden);
    }
  };
  if (setPick) {
    setPick.addEventListener("change", charts);
    costPick.addEventListener("change", charts);
    data.solvers.forEach((_, i) => {
      const key = find(`key-${i}`);
      key.addEventListener("click", () => {
        hidden.has(i) ? hidden.delete(i) : hidden.add(i);
        key.setAttribute("aria-pressed", String(!hidden.has(i)));
        charts();
      });
    });
    charts();
  }

  // The explorer.
  if (data.cases.length) {
    const explorer = (optik.explorer = new optik.Explorer(data, find));
    const chips = data.cases.map((_, i) => find(`case-${i}`));
    const show = (i) => {
      chips.forEach((chip, j) => chip.setAttribute("aria-pressed", String(i === j)));
      explorer.show(i);
    };
    chips.forEach((chip, i) => chip.addEventListener("click", () => show(i)));
    for (const link of document.querySelectorAll("[data-case]"))
      link.addEventListener("click", () => {
        show(Number(link.getAttribute("data-case")));
        find("explorer").scrollIntoView({ behavior: "smooth" });
      });
    show(0);
  }

  globalThis.addEventListener?.("resize", () => {
    charts();
    if (optik.explorer) {
      optik.explorer.refit();
      optik.explorer.layout();
    }
  });
  globalThis.matchMedia?.("(prefers-color-scheme: dark)").addEventListener?.("change", () => {
    colours = null;
    optik.explorer?.layout();
  });
};

if (globalThis.document) optik.main(globalThis.document);

// Tables sort by a click on a heading: first the better end, then the other, then as printed.

/** Orders row numbers by their keys; equal keys keep their order, missing ones go last. */
optik.order = function (keys, descending) {
  const numeric = keys.every((k) => k === "" || !Number.isNaN(Number(k)));
  const sign = descending ? -1 : 1;
  return keys
    .map((key, i) => ({ key: numeric && key !== "" ? Number(key) : key, i }))
    .sort((a, b) => {
      if (a.key === "" || b.key === "") return (a.key === "") - (b.key === "") || a.i - b.i;
      const by = numeric ? a.key - b.key : optik.compareText(String(a.key), String(b.key));
      return sign * by || a.i - b.i;
    })
    .map((entry) => entry.i);
};

/** Compares texts as people do: numbers in them by their size, so that a9 comes before a10. */
optik.compareText = function (a, b) {
  const parts = [a, b].map((text) => text.split(/(\d+)/));
  for (let i = 0; i < Math.min(parts[0].length, parts[1].length); i++) {
    const [x, y] = [parts[0][i], parts[1][i]];
    const by = i % 2 ? Number(x) - Number(y) : x < y ? -1 : x > y ? 1 : 0;
    if (by) return by;
  }
  return parts[0].length - parts[1].length;
};

/** The key by which a cell is sorted: its data-v, else its text. */
optik.cellKey = (cell) => cell.getAttribute("data-v") ?? cell.textContent.trim();

optik.sortable = function (table) {
  const headings = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  const printed = [...body.rows];
  headings.forEach((heading, column) => {
    const button = heading.firstElementChild;
    if (!button) return;
    button.addEventListener("click", () => {
      const first = heading.getAttribute("data-first") ?? "ascending";
      const other = first === "ascending" ? "descending" : "ascending";
      const next = { [first]: other, [other]: "none" }[heading.getAttribute("aria-sort")] ?? first;
      for (const h of headings) h.setAttribute("aria-sort", "none");
      heading.setAttribute("aria-sort", next);
      const keys = printed.map((row) => optik.cellKey(row.cells[column]));
      const rows = next === "none" ? printed : optik.order(keys, next === "descending").map((i) => printed[i]);
      body.append(...rows);
    });
  });
};

"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { showTip, hideTip, stepped, makeChart } = charts;

  document.querySelectorAll("svg.chart").forEach(makeChart);

  // ---- tables, and their rows as a file

  function exported(cell) {
    if ("csv" in cell.dataset) { return cell.dataset.csv; }
    if ("value" in cell.dataset) { return cell.dataset.value; }
    const copy = cell.cloneNode(true);
    for (const sign of copy.querySelectorAll("[aria-hidden]")) { sign.remove(); }
    const items = [...copy.querySelectorAll("li")];
    return (items.length ? items : [copy]).map((item) => item.textContent).join("; ");
  }

  function saveText(name, text) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  }

  function makeTable(table) {
    const key = table.id.replace(/-table$/, "");
    const body = table.tBodies[0];
    const rows = [...body.rows];
    const few = Number(table.dataset.few);
    const heads = [...table.tHead.rows[0].cells];
    const search = document.querySelector(`[data-search="${key}"]`);
    const count = document.querySelector(`[data-found="${key}"]`);
    const more = document.querySelector(`[data-more="${key}"]`);
    const download = document.querySelector(`[data-download="${key}"]`);
    const texts = rows.map((row) => row.textContent);
    let order = [...rows.keys()];
    let shownRows = rows;
    let all = rows.length <= few;

    function update() {
      const found = new Set(tables.matching(texts, search.value));
      shownRows = order.filter((at) => found.has(at)).map((at) => rows[at]);
      const shown = new Set(all ? shownRows : shownRows.slice(0, few));
      for (const row of rows) { row.hidden = !shown.has(row); }
      count.textContent = search.value.trim() ? `${shownRows.length} of ${rows.length} rows` : "";
      more.hidden = shown.size === shownRows.length;
      more.textContent = `Show all ${shownRows.length}`;
      download.hidden = false;
      download.disabled = !shownRows.length;
      download.textContent = `Download ${shownRows.length} ${shownRows.length === 1 ? "row" : "rows"} as CSV`;
    }

    function valueOf(row, at, kind) {
      const cell = row.cells[at];
      return kind === "number" ? Number(cell.dataset.value || NaN) : cell.textContent;
    }

    function sortBy(at, kind) {
      const head = heads[at];
      const before = head.getAttribute("aria-sort");
      const falling = before ? before === "ascending" : kind === "number" && at > 0;
      for (const other of heads) { other.removeAttribute("aria-sort"); }
      head.setAttribute("aria-sort", falling ? "descending" : "ascending");
      order = tables.sorted(rows.map((row) => valueOf(row, at, kind)), kind, falling);
      body.append(...order.map((at) => rows[at]));
      update();
    }

    heads.forEach((head, at) => {
      const button = head.querySelector("button");
      if (button) { button.addEventListener("click", () => sortBy(at, button.dataset.kind)); }
    });
    download.addEventListener("click", () => {
      const cells = [heads.map((head) => head.textContent), ...shownRows.map((row) => [...row.cells].map(exported))];
      saveText(`${key}.csv`, tables.asCsv(cells));
    });
    search.addEventListener("input", update);
    more.addEventListener("click", () => { all = true; update(); });
    addEventListener("beforeprint", () => { all = true; update(); });
    update();
  }

  document.querySelectorAll("table.list").forEach(makeTable);

  // ---- roles, which browsers drop where a narrow screen changes how a table is displayed

  const roles = { "": "table", "thead, .list tbody": "rowgroup", tr: "row", th: "columnheader", td: "cell" };
  for (const [tag, role] of Object.entries(roles)) {
    for (const part of document.querySelectorAll(`.list ${tag}`)) { part.setAttribute("role", role); }
  }

  // ---- dots

  const SIZE = 3.4;
  const draws = {
    circle: (c, x, y, s) => { c.arc(x, y, s, 0, 2 * Math.PI); },
    triangle: (c, x, y, s) => { c.moveTo(x, y - 1.25 * s); c.lineTo(x + 1.15 * s, y + 0.9 * s); c.lineTo(x - 1.15 * s, y + 0.9 * s); c.closePath(); },
    square: (c, x, y, s) => { c.rect(x - 0.9 * s, y - 0.9 * s, 1.8 * s, 1.8 * s); },
    diamond: (c, x, y, s) => { c.moveTo(x, y - 1.3 * s); c.lineTo(x + 1.3 * s, y); c.lineTo(x, y + 1.3 * s); c.lineTo(x - 1.3 * s, y); c.closePath(); },
    plus: (c, x, y, s) => { c.moveTo(x - 1.2 * s, y); c.lineTo(x + 1.2 * s, y); c.moveTo(x, y - 1.2 * s); c.lineTo(x, y + 1.2 * s); },
    cross: (c, x, y, s) => { c.moveTo(x - s, y - s); c.lineTo(x + s, y + s); c.moveTo(x + s, y - s); c.lineTo(x - s, y + s); },
  };
  const shapes = ["circle", "triangle", "circle", "square", "diamond", "plus", "cross"];

  function makeScatter(frame) {
    const dots = data[frame.dataset.scatter];
    if (!dots) { frame.hidden = true; return; }
    const canvas = frame.querySelector("canvas");
    const context = canvas.getContext("2d");
    const margin = { left: 42, right: 14, top: 12, bottom: 30 };
    const byRank = (a, b) => rankOf(a) - rankOf(b) || dots.score[a] - dots.score[b];
    const rankOf = (at) => (dots.group[at] === 1 ? 2 : dots.group[at] === 0 ? 0 : 1);
    const painted = [...dots.x.keys()].sort(byRank);
    const walk = [...dots.x.keys()].sort((a, b) => dots.x[a] - dots.x[b] || dots.y[a] - dots.y[b]);
    let chosen = -1;
    let places = [];

    canvas.setAttribute("aria-label", `${dots.n} interactions as marks. Arrow keys go from one to the next.`);

    function place() {
      const { width, height } = canvas.getBoundingClientRect();
      const [[x0, x1], [y0, y1]] = dots.range;
      const toX = (x) => margin.left + (x - x0) / (x1 - x0) * (width - margin.left - margin.right);
      const toY = (y) => height - margin.bottom - (y - y0) / (y1 - y0) * (height - margin.top - margin.bottom);
      return { width, height, toX, toY };
    }

    function paint() {
      const { width, height, toX, toY } = place();
      const ratio = devicePixelRatio || 1;
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      const style = getComputedStyle(document.documentElement);
      const colour = (name) => style.getPropertyValue(`--${name}`).trim();
      const colours = [0, 1, 2, 3, 4, 5, 6].map((at) => colour(`g${at}`));
      paintAxes(width, height, toX, toY, colour);
      places = dots.x.map((x, at) => [toX(x), toY(dots.y[at])]);
      context.lineWidth = 1.4;
      for (const at of painted) {
        const group = dots.group[at];
        const [x, y] = places[at];
        context.globalAlpha = group === 1 ? 0.9 : 0.6;
        context.beginPath();
        draws[shapes[group]](context, x, y, SIZE);
        context.fillStyle = context.strokeStyle = colours[group];
        if (group > 4) { context.stroke(); } else { context.fill(); }
      }
      context.globalAlpha = 1;
      if (chosen >= 0) {
        context.beginPath();
        context.arc(...places[chosen], 2.6 * SIZE, 0, 2 * Math.PI);
        context.lineWidth = 2;
        context.strokeStyle = colour("ink");
        context.stroke();
      }
    }

    function paintAxes(width, height, toX, toY, colour) {
      context.font = `12px ${getComputedStyle(document.body).fontFamily}`;
      context.fillStyle = colour("muted");
      context.strokeStyle = colour("hair");
      context.lineWidth = 1;
      for (const [value, text] of dots.yTicks) {
        const y = Math.round(toY(value)) + 0.5;
        context.beginPath();
        context.moveTo(margin.left, y);
        context.lineTo(width - margin.right, y);
        context.stroke();
        context.textAlign = "right";
        context.fillText(text, margin.left - 7, y + 4);
      }
      let free = -Infinity;
      for (const [value, text] of dots.xTicks) {
        const x = toX(value);
        const wide = context.measureText(text).width;
        const left = Math.min(Math.max(x - wide / 2, margin.left - 10), width - wide - 4);
        if (left < free) { continue; }
        free = left + wide + 10;
        context.textAlign = "left";
        context.fillText(text, left, height - 9);
      }
    }

    function choose(at, x, y) {
      if (at !== chosen) { chosen = at; paint(); }
      if (at < 0) { hideTip(); return; }
      showTip([
        `${dots.src[at]} → ${dots.dst[at]}`, dots.when[at], `label: ${dots.label[at]}`, `probability: ${dots.said[at]}`,
      ], x, y);
    }

    function nearest(x, y) {
      let best = -1;
      let least = 16 * 16;
      for (const at of painted) {
        const away = (places[at][0] - x) ** 2 + (places[at][1] - y) ** 2;
        if (away <= least) { best = at; least = away; }
      }
      return best;
    }

    function point(event) {
      const box = canvas.getBoundingClientRect();
      choose(nearest(event.clientX - box.left, event.clientY - box.top), event.clientX, event.clientY);
    }

    function step(event) {
      if (event.key === "Escape") { choose(-1); return; }
      const at = stepped(event.key, walk.indexOf(chosen), walk.length);
      if (at === null) { return; }
      event.preventDefault();
      const to = walk[at];
      const box = canvas.getBoundingClientRect();
      choose(to, box.left + places[to][0], box.top + places[to][1]);
    }

    canvas.addEventListener("pointermove", point);
    canvas.addEventListener("pointerdown", point);
    canvas.addEventListener("pointerleave", () => choose(-1));
    canvas.addEventListener("keydown", step);
    canvas.addEventListener("blur", () => choose(-1));
    new ResizeObserver(paint).observe(frame);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
    paint();
  }

  document.querySelectorAll("[data-scatter]").forEach(makeScatter);

  // ---- where one is on the page

  const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
  const watch = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) {
        for (const link of links.values()) { link.removeAttribute("aria-current"); }
        links.get(entry.target.id).setAttribute("aria-current", "true");
      }
    }
  }, { rootMargin: "-20% 0px -75% 0px" });
  for (const key of links.keys()) { watch.observe(document.getElementById(key)); }
})();

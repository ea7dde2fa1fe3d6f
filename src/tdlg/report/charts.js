"use strict";
// What the report and the desk share: the words beside the pointer, and charts by keyboard.
const charts = (() => {
  const tip = document.getElementById("tip");

  // ---- the words beside the pointer

  function showTip(lines, x, y, live = "polite") {
    tip.replaceChildren(...lines.map((line, at) => {
      const element = document.createElement(at ? "span" : "b");
      element.textContent = line;
      return element;
    }).flatMap((element, at) => (at > 1 ? [document.createElement("br"), element] : [element])));
    tip.setAttribute("aria-live", live);
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    const left = Math.min(Math.max(4, x + 14), innerWidth - width - 4);
    const top = y + 18 + height > innerHeight ? y - height - 12 : y + 18;
    tip.style.left = `${left}px`;
    tip.style.top = `${Math.max(4, top)}px`;
  }

  function hideTip() { tip.hidden = true; }

  // ---- marks by keyboard: the one after or before this one, round and round; null for keys that do not move

  function stepped(key, from, n) {
    const moves = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 };
    return key in moves ? (Math.max(from, moves[key] < 0 ? 0 : -1) + moves[key] + n) % n : null;
  }

  // ---- charts: each is one tab stop, and each mark in it an image with its words

  function makeChart(chart) {
    const marks = [...chart.querySelectorAll("[data-tip]")];
    if (!marks.length) { return; }
    chart.setAttribute("role", "group");
    marks.forEach((mark, at) => {
      const [head, ...rest] = mark.dataset.tip.split(": ");
      const show = (...place) => showTip([head, rest.join(": ")], ...place);
      mark.setAttribute("role", "img");
      mark.setAttribute("aria-label", mark.dataset.tip);
      mark.setAttribute("tabindex", at ? -1 : 0);
      mark.addEventListener("pointermove", (event) => show(event.clientX, event.clientY));
      mark.addEventListener("pointerdown", (event) => show(event.clientX, event.clientY));
      mark.addEventListener("pointerleave", hideTip);
      mark.addEventListener("focus", () => {
        for (const other of marks) { other.setAttribute("tabindex", other === mark ? 0 : -1); }
        const box = mark.getBoundingClientRect();
        // "off", because a screen reader says the label of what has the focus already
        show(box.x + box.width / 2, box.y + box.height / 2, "off");
      });
      mark.addEventListener("blur", hideTip);
    });
    chart.addEventListener("keydown", (event) => {
      if (event.key === "Escape") { hideTip(); return; }
      const to = stepped(event.key, marks.indexOf(event.target), marks.length);
      if (to === null) { return; }
      event.preventDefault();
      marks[to].focus();
    });
  }

  return { showTip, hideTip, stepped, makeChart };
})();

// What sorting, searching and saving a table do to its values: functions without a page.
const tables = (() => {
  // the places of the texts that hold all words of a search
  function matching(texts, search) {
    const words = search.toLocaleLowerCase().split(/\s+/).filter(Boolean);
    return [...texts.keys()].filter((at) => words.every((word) => texts[at].toLocaleLowerCase().includes(word)));
  }

  // the places of the values in their order; missing numbers (NaN) come last, up or down
  function sorted(values, kind, falling) {
    const compare = kind === "number"
      ? (a, b) => a - b
      : (a, b) => a.localeCompare(b, undefined, { numeric: true });
    const missing = (value) => Number(Number.isNaN(value));
    return [...values.keys()].sort((a, b) => {
      const [x, y] = [values[a], values[b]];
      return missing(x) - missing(y) || (missing(x) ? 0 : (falling ? -1 : 1) * compare(x, y));
    });
  }

  function quoted(text) { return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text; }

  function asCsv(lines) { return lines.map((line) => `${line.map(quoted).join(",")}\r\n`).join(""); }

  return { matching, sorted, asCsv };
})();

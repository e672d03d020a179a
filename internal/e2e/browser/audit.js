// Returns what keeps people from using the page: an array of sentences. What axe
// would find, as far as it can matter here.
(() => {
  const found = [];
  const tell = (what, e) => found.push(what + ": " + e.outerHTML.replace(/\s+/g, " ").slice(0, 120));
  const seen = (e) => {
    const box = e.getBoundingClientRect();
    const style = getComputedStyle(e);
    return box.width > 1 && box.height > 1 && style.visibility === "visible" && e.checkVisibility();
  };

  if (!document.documentElement.lang) found.push("no language");
  if (!document.title.trim()) found.push("no title");
  if (document.querySelectorAll("main").length !== 1) found.push("not exactly one main");
  if (document.querySelectorAll("h1").length !== 1) found.push("not exactly one h1");
  let level = 0;
  for (const h of document.querySelectorAll("h1, h2, h3, h4, h5, h6")) {
    if (!seen(h)) continue;
    const own = Number(h.tagName[1]);
    if (own > level + 1) tell("a heading leaves out a level", h);
    if (!h.textContent.trim()) tell("empty heading", h);
    level = own;
  }
  const ids = new Set();
  for (const e of document.querySelectorAll("[id]")) {
    if (ids.has(e.id)) tell("identifier twice", e);
    ids.add(e.id);
  }
  for (const e of document.querySelectorAll("a, button, input:not([type=hidden]), select, textarea, summary, progress, [role=img], [role=region], nav, section")) {
    const label = e.getAttribute("aria-label") || (e.labels && [...e.labels].map((l) => l.textContent).join("")) ||
      (e.tagName === "SECTION" ? "" : e.textContent);
    if (!(label || "").trim()) tell("no name", e);
  }
  for (const t of document.querySelectorAll("table")) {
    if (!t.caption || !t.caption.textContent.trim()) tell("table without a caption", t);
    for (const th of t.querySelectorAll("th")) if (!th.scope) tell("head without a scope", th);
    for (const tr of t.tBodies[0].rows) {
      if (tr.cells.length !== t.tHead.rows[0].cells.length) tell("row with a different number of cells", tr);
      if (!tr.querySelector("th[scope=row]")) tell("row without a head", tr);
    }
  }
  for (const e of document.querySelectorAll("[tabindex]")) if (e.tabIndex > 0) tell("order of focus is not that of the page", e);
  for (const e of document.querySelectorAll("button, input:not([type=hidden]), nav a, .button, summary")) {
    if (seen(e) && !e.closest(".skip") && e.getBoundingClientRect().height < 24) tell("too small to hit", e);
  }

  // Contrast of text, by what the browser has computed.
  const rgba = (text) => {
    const m = /^rgba?\(([\d.]+), ([\d.]+), ([\d.]+)(?:, ([\d.]+))?\)$/.exec(text);
    if (!m) throw new Error("colour " + text);
    return [Number(m[1]), Number(m[2]), Number(m[3]), m[4] === undefined ? 1 : Number(m[4])];
  };
  const over = (top, under) => [0, 1, 2].map((i) => top[i] * top[3] + under[i] * (1 - top[3])).concat(1);
  const behind = (e) => {
    const layers = [];
    for (let at = e; at; at = at.parentElement) {
      const c = rgba(getComputedStyle(at).backgroundColor);
      layers.push(c);
      if (c[3] === 1) break;
    }
    return layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255, 1]);
  };
  const light = (c) => {
    const [r, g, b] = c.map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let texts = 0;
  for (let n = walker.nextNode(); n; n = walker.nextNode()) {
    const e = n.parentElement;
    if (!n.textContent.trim() || !seen(e) || e.closest(".hidden, .skip, svg, noscript, script")) continue;
    const style = getComputedStyle(e);
    const back = behind(e);
    const a = light(over(rgba(style.color), back));
    const b = light(back);
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    texts++;
    if (ratio < 4.5) tell("contrast " + ratio.toFixed(2), e);
    if (parseFloat(style.fontSize) < 12) tell("text of " + style.fontSize, e);
  }
  if (texts < 3) found.push("only " + texts + " texts looked at");
  // A phone makes innerWidth as wide as a page that is too wide.
  const { scrollWidth, clientWidth } = document.documentElement;
  if (scrollWidth > clientWidth + 1) found.push("wider than the screen: " + scrollWidth + " of " + clientWidth);
  return found;
})()

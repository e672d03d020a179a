// Keeps a page up to date. The server sends the elements that have changed, and this script
// counts the times. Pages work also without the script: the browser then loads them again.
"use strict";
(() => {
  const feed = document.body.dataset.feed;
  if (!feed) return;
  const byId = (id) => document.getElementById(id);
  const rows = byId("rows");
  let last = 0; // number of the last frame
  let ahead = 0; // by how many ms the server's clock is ahead of ours
  let heard = Date.now(); // when the server last sent something
  let paused = false;
  let waiting = null; // the last frame that came during a pause; the whole page is loaded after it
  let source = null;
  let failures = 0;
  let retry = null; // the timer of the next attempt

  const two = (n) => String(n).padStart(2, "0");
  const clock = (ms) => {
    const t = new Date(ms);
    return two(t.getHours()) + ":" + two(t.getMinutes()) + ":" + two(t.getSeconds());
  };
  const span = (ms) => {
    const s = Math.max(0, Math.round(ms / 1000));
    if (s < 60) return s + "s";
    if (s < 3600) return Math.floor(s / 60) + "m " + two(s % 60) + "s";
    if (s < 86400) return Math.floor(s / 3600) + "h " + two(Math.floor(s / 60) % 60) + "m";
    return Math.floor(s / 86400) + "d " + two(Math.floor(s / 3600) % 24) + "h";
  };
  const put = (element, text) => {
    if (element.textContent !== text) element.textContent = text;
  };

  // count writes the present values of all times that pass, within the element root.
  const count = (root) => {
    const now = Date.now() + ahead;
    for (const e of root.querySelectorAll("[data-since]")) {
      put(e, ("least" in e.dataset ? "≥ " : "") + span(now - e.dataset.since));
    }
    for (const e of root.querySelectorAll("[data-until]")) put(e, span(e.dataset.until - now));
    for (const e of root.querySelectorAll("time[data-at]")) {
      const ms = Number(e.dataset.at);
      const day = new Date(ms).toDateString() === new Date(now).toDateString();
      put(e, (day ? "" : new Date(ms).toLocaleDateString() + " ") + clock(ms));
    }
    for (const e of root.querySelectorAll("[data-ends]")) {
      const left = Math.max(0, e.dataset.ends - now);
      const soon = "soon" in e.dataset && now > e.dataset.soon;
      e.querySelector("progress").value = left;
      put(e.querySelector(".left"), span(left));
      e.classList.toggle("soon", soon);
      const why = e.querySelector(".why");
      if (why) why.hidden = !soon;
    }
  };

  const parse = (html) => {
    const t = document.createElement("template");
    t.innerHTML = html.trim();
    return t.content.firstElementChild;
  };

  // replace puts the element next in the place of the element old. A link or button with the
  // focus keeps it, and details that were open stay open.
  const replace = (old, next) => {
    const focused = old.contains(document.activeElement) ? document.activeElement : null;
    const place = focused ? [...old.querySelectorAll("a, button, summary, [tabindex]")].indexOf(focused) : -1;
    const open = [...old.querySelectorAll("details")].map((d) => d.open);
    next.querySelectorAll("details").forEach((d, i) => { d.open = Boolean(open[i]); });
    old.replaceWith(next);
    if (place >= 0) {
      const same = next.querySelectorAll("a, button, summary, [tabindex]")[place];
      if (same) same.focus({ preventScroll: true });
    }
  };

  const order = (ids, first) => {
    const keep = new Set(ids);
    for (const row of [...rows.children]) if (!keep.has(row.id)) row.remove();
    ids.forEach((id, i) => {
      const row = byId(id);
      const there = rows.children[i];
      if (row && row !== there) rows.insertBefore(row, there || null);
    });
  };

  const apply = (f) => {
    heard = Date.now();
    ahead = f.now - heard;
    last = f.id;
    if (f.asOf) put(byId("asof"), clock(f.asOf));
    let missing = false;
    for (const [id, html] of Object.entries(f.html || {})) {
      const next = parse(html);
      const old = byId(id);
      count(next.parentNode || next);
      if (old) {
        replace(old, next);
      } else if (rows && (f.order || []).includes(id)) {
        if (!f.full) next.classList.add("fresh");
        rows.append(next);
      }
      count(byId(id) ? byId(id).parentNode : document);
    }
    if (rows) {
      order(f.order || [], f.full);
      missing = (f.order || []).some((id) => !byId(id));
    }
    if (missing && !f.full) restart();
  };

  const take = (f) => {
    failures = 0;
    byId("cut").hidden = true;
    if (paused) {
      heard = Date.now();
      waiting = f;
      return;
    }
    apply(f);
  };

  const cut = () => {
    const note = byId("cut");
    if (!note.hidden) return;
    put(byId("cutsince"), clock(heard));
    note.hidden = false;
  };

  // connect opens the stream. If the stream breaks, the browser connects again by itself, and
  // sends the number of the last frame. After an error status this script connects again.
  const connect = () => {
    clearTimeout(retry);
    if (source) source.close();
    source = new EventSource("events?" + feed + "&since=" + last);
    source.onmessage = (m) => take(JSON.parse(m.data));
    source.onerror = () => {
      if (source.readyState !== EventSource.CLOSED) return;
      failures++;
      if (Date.now() - heard > 1500) cut();
      clearTimeout(retry);
      retry = setTimeout(failures > 2 ? poll : reconnect, 2000);
    };
  };
  const reconnect = () => { if (!document.hidden) connect(); };
  const restart = () => {
    last = 0;
    if (source) connect(); // without a stream, the next poll asks for the whole page
  };

  // turn closes the stream of a hidden tab, and opens the stream of a shown one. All tabs of a
  // browser together have only six connections to a server.
  const turn = () => {
    if (!source) return;
    source.close();
    if (!document.hidden) {
      heard = Date.now();
      connect();
      count(document);
    }
  };

  // poll asks for frames again and again. It is used if the browser gets no stream.
  const poll = async () => {
    source = null;
    if (document.hidden) {
      setTimeout(poll, 3000);
      return;
    }
    try {
      const answer = await fetch("frame?" + feed + "&since=" + last, { cache: "no-store" });
      if (!answer.ok) throw new Error(answer.status);
      const f = await answer.json();
      if (f.id) take(f);
      setTimeout(poll, 1000);
    } catch {
      cut();
      setTimeout(poll, 3000);
    }
  };

  const pause = byId("pause");
  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    put(pause, paused ? "Resume" : "Pause");
    if (!paused && waiting) {
      waiting = null;
      restart();
    }
  });

  setInterval(() => {
    if (document.hidden) return;
    if (Date.now() - heard > 3500) cut();
    if (!paused) count(document);
  }, 250);
  document.addEventListener("visibilitychange", turn);
  count(document);
  if ("EventSource" in window) connect(); else poll();
})();

// Keeps a page up to date: the server sends elements that have changed, and times
// are counted here. Everything works without it; then the page is loaded anew.
"use strict";
(() => {
  const feed = document.body.dataset.feed;
  if (!feed) return;
  const byId = (id) => document.getElementById(id);
  const rows = byId("rows");
  let last = 0; // number of the last frame
  let ahead = 0; // by how many ms the server's clock is ahead of ours
  let heard = Date.now();
  let paused = false;
  let waiting = null; // what came while paused: everything comes anew afterwards
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

  // count shows all times that pass, within root.
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
      const late = "late" in e.dataset && now > e.dataset.late;
      e.querySelector("progress").value = left;
      put(e.querySelector(".left"), span(left));
      e.classList.toggle("late", late);
      const why = e.querySelector(".why");
      if (why) why.hidden = !late;
    }
  };

  const parse = (html) => {
    const t = document.createElement("template");
    t.innerHTML = html.trim();
    return t.content.firstElementChild;
  };

  // replace puts one element in the place of another; what has the focus keeps it,
  // and what was unfolded stays so.
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

  // connect listens to the stream. A browser comes back by itself after a stream
  // that breaks, with the number of the last frame; not after an error status.
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
    if (source) connect(); // without one, poll asks for everything next
  };

  // A browser keeps six connections to a server, for all its tabs together: those
  // that nobody looks at give theirs back.
  const turn = () => {
    if (!source) return;
    source.close();
    if (!document.hidden) {
      heard = Date.now();
      connect();
      count(document);
    }
  };

  // poll asks again and again, where a stream does not get through.
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

// Keeps the page up to date: the server sends parts that have changed, and times
// are counted here. Everything works without it; then the page is loaded anew.
"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  let ahead = 0; // by how many ms the server's clock is ahead of ours
  let heard = Date.now();

  const short = (ms) => {
    if (ms < 1000) return Math.max(0, Math.floor(ms / 100) * 100) + " ms";
    if (ms < 60000) return (ms / 1000).toFixed(1) + " s";
    const s = Math.floor(ms / 1000);
    return Math.floor(s / 60) + "m" + (s % 60) + "s";
  };
  const put = (e, text) => {
    if (e.textContent !== text) e.textContent = text;
  };

  // count shows all times that pass.
  const count = () => {
    const now = Date.now() + ahead;
    for (const e of document.querySelectorAll("[data-since]")) put(e, short(now - e.dataset.since));
    for (const e of document.querySelectorAll("[data-until]")) put(e, short(e.dataset.until - now));
    for (const e of document.querySelectorAll("[data-from]")) e.value = now - e.dataset.from;
    for (const e of document.querySelectorAll("[data-ends]")) e.value = Math.max(0, e.dataset.ends - now);
  };

  // replace puts a part in the place of the old one; what has the focus keeps it.
  const replace = (id, html) => {
    const old = byId(id);
    if (!old) return;
    const focused = old.contains(document.activeElement) ? document.activeElement.id : "";
    const t = document.createElement("template");
    t.innerHTML = html.trim();
    old.replaceWith(t.content.firstElementChild);
    if (focused) byId(focused)?.focus({ preventScroll: true });
  };

  const source = new EventSource("events");
  source.onopen = () => { heard = Date.now(); byId("cut").hidden = true; };
  source.onerror = () => { byId("cut").hidden = false; };
  source.onmessage = (event) => {
    const frame = JSON.parse(event.data);
    ahead = frame.now - Date.now();
    heard = Date.now();
    byId("cut").hidden = true;
    for (const [id, html] of Object.entries(frame.parts)) replace(id, html);
    count();
  };

  // Forms are sent without loading the page anew: what comes of it is sent by the
  // server. An answer that is an error is shown as the browser would.
  document.addEventListener("submit", async (event) => {
    const form = event.target;
    event.preventDefault();
    const data = new URLSearchParams(new FormData(form, event.submitter));
    try {
      const answer = await fetch(form.action, { method: "POST", body: data, redirect: "manual" });
      if (answer.type !== "opaqueredirect" && !answer.ok) alert(await answer.text());
    } catch {
      byId("cut").hidden = false;
    }
  });

  setInterval(() => {
    if (document.hidden) return;
    if (Date.now() - heard > 12000) byId("cut").hidden = false;
    count();
  }, 100);
  count();
})();

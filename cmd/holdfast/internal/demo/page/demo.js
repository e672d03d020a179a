// Sends the forms without leaving the page, and shows what has changed: it loads the page
// again and replaces the elements with data-live. dash.js keeps the locks up to date.
"use strict";
(() => {
  const byId = (id) => document.getElementById(id);

  const refresh = async () => {
    const answer = await fetch("demo", { cache: "no-store" });
    const next = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const old of document.querySelectorAll("[data-live]")) {
      const now = next.getElementById(old.id);
      if (!now || now.outerHTML === old.outerHTML) continue;
      const focused = old.contains(document.activeElement) ? document.activeElement.id : "";
      old.replaceWith(now);
      if (focused) byId(focused)?.focus({ preventScroll: true });
    }
  };

  document.addEventListener("submit", async (event) => {
    event.preventDefault();
    const form = event.target;
    const body = new URLSearchParams(new FormData(form, event.submitter));
    try {
      const answer = await fetch(form.action, { method: "POST", body, redirect: "manual" });
      const done = answer.ok || answer.type === "opaqueredirect";
      byId("refused").textContent = done ? "" : await answer.text();
      byId("refused").hidden = done;
      await refresh();
    } catch {
      // dash.js says that there is no connection.
    }
  });

  const again = async () => {
    if (!document.hidden) await refresh().catch(() => {}); // dash.js shows that there is no connection
    setTimeout(again, 500);
  };
  again();
})();

// Sends the forms without leaving the page, and shows what has changed: it loads the page
// again and changes the elements with data-live. Between two answers it moves the present
// moment of the pictures. dash.js keeps the locks up to date.
"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  let shown = performance.now(); // when the page last got an answer

  // change makes the node old like the node next. What stays the same stays in place, and so
  // does the focus, and a title under the pointer.
  const change = (old, next) => {
    if (old.nodeName !== next.nodeName || old.id !== next.id) {
      old.replaceWith(next);
      return;
    }
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.data !== next.data) old.data = next.data;
      return;
    }
    for (const a of [...old.attributes]) if (!next.hasAttribute(a.name)) old.removeAttribute(a.name);
    for (const a of next.attributes) if (old.getAttribute(a.name) !== a.value) old.setAttribute(a.name, a.value);
    const before = [...old.childNodes];
    const after = [...next.childNodes];
    before.slice(after.length).forEach((n) => n.remove());
    after.forEach((n, i) => { if (before[i]) change(before[i], n); else old.append(n); });
  };

  const isPaused = () => byId("pause").getAttribute("aria-pressed") === "true";
  const places = "button, input, [tabindex]";
  const refresh = async () => {
    const answer = await fetch("demo", { cache: "no-store" });
    const next = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const old of document.querySelectorAll("[data-live]")) {
      const now = next.getElementById(old.id);
      if (!now) continue;
      const focused = old.contains(document.activeElement) ? document.activeElement : null;
      const place = focused ? [...old.querySelectorAll(places)].indexOf(focused) : -1;
      change(old, now);
      if (focused && !focused.isConnected) (old.querySelectorAll(places)[place] || old).focus({ preventScroll: true });
    }
    shown = performance.now();
    move();
  };

  // move draws the present moment, as axisOf in picture.go does.
  const move = () => {
    const data = byId("plot-scale").dataset;
    const passed = Number(data.passed);
    const whole = Number(data.whole);
    const future = Number(data.future);
    const frozen = "still" in data || still.matches;
    const now = passed + (frozen ? 0 : Math.min(performance.now() - shown, 1000));
    const wholeNow = Math.min(Math.max(now + future, whole), 60000);
    const left = Math.max(0, passed + future - whole);
    const leftNow = Math.max(0, now + future - wholeNow);
    for (const picture of document.querySelectorAll(".time")) {
      const width = picture.clientWidth;
      const at = (ms) => (ms - leftNow) / wholeNow * width;
      for (const g of picture.querySelectorAll(":scope > .moves")) {
        g.setAttribute("transform", "translate(" + at(left).toFixed(2) + " 0) scale(" + (whole / wholeNow).toFixed(5) + " 1)");
      }
      const edge = picture.querySelector(":scope > .edge");
      edge.setAttribute("transform", "translate(" + (at(now) - (passed - left) / whole * width).toFixed(2) + " 0)");
    }
  };
  const animate = () => {
    if (!isPaused() && !still.matches && !("still" in byId("plot-scale").dataset)) move();
    requestAnimationFrame(animate);
  };

  document.addEventListener("submit", async (event) => {
    event.preventDefault();
    const form = event.target;
    const button = event.submitter;
    if (button?.getAttribute("aria-disabled") === "true") return;
    const body = new URLSearchParams(new FormData(form, button));
    const address = button?.hasAttribute("formaction") ? button.formAction : form.action;
    try {
      const answer = await fetch(address, { method: "POST", body, redirect: "manual" });
      const done = answer.ok || answer.type === "opaqueredirect";
      byId("refused").textContent = done ? "" : await answer.text();
      byId("refused").hidden = done;
      await refresh();
    } catch {
      // dash.js says that there is no connection.
    }
  });

  const again = async () => {
    if (!document.hidden && !isPaused()) await refresh().catch(() => {}); // dash.js shows that there is no connection
    setTimeout(again, 500);
  };
  again();
  animate();
})();

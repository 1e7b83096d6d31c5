// Replaces the figures of the page every two seconds. It changes only what differs, so that focus, scroll position, open
// details and selected text stay. Without it the page has a link that reloads it.
"use strict";
(() => {
  const INTERVAL_MS = 2000;
  const TIMEOUT_MS = 10000;
  const live = document.getElementById("live");
  const connection = document.getElementById("connection");
  const gone = document.getElementById("gone");
  const pause = document.getElementById("pause");
  let paused = false;
  let over = false;
  let asking = false;
  let timer = 0;
  let lost = null;

  // Assistive technology reads these texts aloud, so they change only when the state does.
  function say(text) {
    if (connection.textContent !== text) connection.textContent = text;
  }

  function alarm(text) {
    gone.hidden = text === "";
    if (gone.textContent !== text) gone.textContent = text;
    document.body.classList.toggle("old", text !== "");
  }

  function attributes(old, fresh) {
    for (const {name, value} of fresh.attributes) {
      // Whether details are open is the reader's choice.
      if (name !== "open" && old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    for (const {name} of [...old.attributes]) {
      if (name !== "open" && !fresh.hasAttribute(name)) old.removeAttribute(name);
    }
  }

  const key = node => node.id || "";
  const alike = (one, other) => one && one.nodeType === other.nodeType && one.nodeName === other.nodeName && key(one) === key(other);

  // Makes an element the same as another one, with as few changes as possible. Elements with an id are found again.
  function update(old, fresh) {
    attributes(old, fresh);
    const named = new Map([...old.children].filter(child => child.id).map(child => [child.id, child]));
    let at = old.firstChild;
    for (const child of [...fresh.childNodes]) {
      const found = child.id ? named.get(child.id) : at;
      if (!alike(found, child)) {
        old.insertBefore(document.importNode(child, true), at);
        continue;
      }
      if (found === at) at = at.nextSibling;
      else old.insertBefore(found, at);
      if (child.nodeType === Node.ELEMENT_NODE) update(found, child);
      else if (found.data !== child.data) found.data = child.data;
    }
    while (at) {
      const next = at.nextSibling;
      at.remove();
      at = next;
    }
  }

  function replace(text) {
    const fresh = new DOMParser().parseFromString(text, "text/html").getElementById("live");
    if (!fresh) throw new Error("no figures in the answer");
    const focused = document.activeElement;
    update(live, fresh);
    // An element that was moved has lost the focus.
    if (focused !== document.activeElement && focused.isConnected) focused.focus({preventScroll: true});
  }

  async function ask() {
    const answer = await fetch("dashboard/live" + location.search, {
      cache: "no-store", credentials: "same-origin", redirect: "error", signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    if (answer.status === 401 || answer.status === 403) {
      over = true;
      say("Ended");
      alarm("The server no longer accepts this page. Reload it to sign in; or run `highball dashboard` again for a new address.");
      return;
    }
    if (!answer.ok) throw new Error("status " + answer.status);
    const text = await answer.text();
    if (paused) return;
    replace(text);
    lost = null;
    alarm("");
    say("Live");
  }

  async function turn() {
    clearTimeout(timer);
    if (paused || over || asking || document.hidden) return;
    asking = true;
    try {
      await ask();
    } catch {
      lost = lost || new Date();
      say("No answer");
      alarm("The server has not answered since " + lost.toLocaleTimeString() + ". The figures below are old. This page asks again every two seconds.");
    }
    asking = false;
    if (!over) timer = setTimeout(turn, INTERVAL_MS);
  }

  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    if (paused) say("Paused");
    turn();
  });
  document.addEventListener("visibilitychange", turn);
  say("Live");
  timer = setTimeout(turn, INTERVAL_MS);
})();

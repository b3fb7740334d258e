// A change keeps a domain controller busy: the page says so and for how long, and does not send it twice.
"use strict";

{
  const QUICK = 4; // seconds: so long nothing is said
  const AGAIN = 30; // seconds until the time is read aloud again
  const inWords = (unit) => new Intl.NumberFormat(document.documentElement.lang, { style: "unit", unit, unitDisplay: "long" });
  const seconds = inWords("second");
  const minutes = inWords("minute");
  const said = (count) => (count < 120 ? seconds.format(count) : minutes.format(Math.floor(count / 60)));

  // `data-counts-up` tells for how many seconds something has lasted; `data-told` beside it is read aloud, now and then.
  const countUp = (place) => {
    const start = Date.now() - 1000 * Number(place.dataset.countsUp);
    const told = place.parentElement.querySelector("[data-told]");
    place.removeAttribute("data-counts-up");
    let next = 0;
    const tick = () => {
      if (!place.isConnected) return;
      const count = Math.floor((Date.now() - start) / 1000);
      place.textContent = said(count);
      if (told && count >= next) {
        told.textContent = said(count);
        next = count + AGAIN;
      }
      setTimeout(tick, 1000);
    };
    tick();
  };
  const countAll = (root) => root.querySelectorAll("[data-counts-up]").forEach(countUp);
  countAll(document);
  document.addEventListener("htmx:afterSettle", ({ target }) => countAll(target));

  // What waits for its answer: until that is told (`timer`), and what cannot be pressed meanwhile (`buttons`).
  const waiting = new Map();

  const tell = (place) => {
    place.append(document.getElementById("under-way").content.cloneNode(true));
    const notice = place.lastElementChild;
    notice.querySelector("[data-counts-up]").dataset.countsUp = QUICK;
    countAll(notice);
    notice.scrollIntoView({ block: "nearest" });
    waiting.get(place).buttons = [...place.querySelectorAll("button:enabled")];
    for (const button of waiting.get(place).buttons) button.disabled = true;
  };
  const begin = (place) => waiting.set(place, { timer: setTimeout(tell, 1000 * QUICK, place), buttons: [] });
  const end = (place) => {
    const { timer, buttons } = waiting.get(place);
    clearTimeout(timer);
    waiting.delete(place);
    place.querySelector(".under-way")?.remove();
    for (const button of buttons) button.disabled = false;
  };

  // `data-writes` on a button: it sends a change to a domain controller. So does what htmx sends from where it stands.
  document.addEventListener("submit", (event) => {
    if (event.defaultPrevented) return; // somebody was asked, and does not want it
    if (waiting.has(event.target)) event.preventDefault();
    else if (event.submitter?.matches("[data-writes]")) begin(event.target);
  });
  document.addEventListener("htmx:beforeSend", ({ target }) => {
    if (target.matches("[data-writes]")) begin(target);
  });
  document.addEventListener("htmx:afterRequest", ({ detail }) => {
    if (waiting.has(detail.elt)) end(detail.elt);
  });
  // Somebody goes back to a page that the browser has kept as it was.
  window.addEventListener("pageshow", ({ persisted }) => {
    if (persisted) [...waiting.keys()].forEach(end);
  });
}

// While a domain controller works on a change, the page shows for how long and does not send it twice.
"use strict";

{
  const QUICK = 4; // seconds before anything is shown
  const AGAIN = 30; // seconds between announcements to screen readers
  const inWords = (unit) => new Intl.NumberFormat(document.documentElement.lang, { style: "unit", unit, unitDisplay: "long" });
  const seconds = inWords("second");
  const minutes = inWords("minute");
  const said = (count) => (count < 120 ? seconds.format(count) : minutes.format(Math.floor(count / 60)));

  // `data-counts-up` shows how many seconds something has lasted; `data-told` beside it is announced now and then.
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

  // Forms that wait for an answer: the `timer` until the notice, and the `buttons` disabled meanwhile.
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

  // `data-writes` on a button or an htmx element: its request changes the directory.
  document.addEventListener("submit", (event) => {
    if (event.defaultPrevented) return; // not confirmed
    if (waiting.has(event.target)) event.preventDefault();
    else if (event.submitter?.matches("[data-writes]")) begin(event.target);
  });
  document.addEventListener("htmx:beforeSend", ({ target }) => {
    if (target.matches("[data-writes]")) begin(target);
  });
  document.addEventListener("htmx:afterRequest", ({ detail }) => {
    if (waiting.has(detail.elt)) end(detail.elt);
  });
  // The browser restores the page from its back/forward cache as it was.
  window.addEventListener("pageshow", ({ persisted }) => {
    if (persisted) [...waiting.keys()].forEach(end);
  });
}

// The limit of an address was reached: count down, then go on with what was asked for.
"use strict";

// `data-countdown` tells the seconds that are left; its form (`data-goes-on`) is sent when they are over.
const countDown = (place, whenOver) => {
  const inWords = new Intl.RelativeTimeFormat(document.documentElement.lang, { numeric: "auto" });
  const end = Date.now() + 1000 * Number(place.dataset.countdown);
  const tick = () => {
    const left = Math.max(0, Math.ceil((end - Date.now()) / 1000));
    place.textContent = inWords.format(left, "second");
    if (left > 0) setTimeout(tick, 250);
    else whenOver();
  };
  tick();
};
for (const place of document.querySelectorAll("[data-countdown]")) {
  countDown(place, () => place.closest("[data-goes-on]")?.requestSubmit());
}

// A part of a page that htmx asked for is asked for again; what asks by itself from time to time does so anyway.
document.addEventListener("htmx:afterRequest", ({ detail }) => {
  if (detail.xhr.status !== 429) return;
  const { verb, path, elt, parameters } = detail.requestConfig;
  const place = document.querySelector("#waits [data-countdown]");
  if (!place) return;
  countDown(place, () => {
    document.getElementById("waits")?.remove();
    if (/every/.test(elt.getAttribute("hx-trigger") ?? "")) return;
    window.htmx.ajax(verb, path, { source: elt, values: verb === "get" ? {} : Object.fromEntries(parameters) });
  });
});

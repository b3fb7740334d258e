// Over the rate limit of the address: count down, then repeat the request.
"use strict";

// `data-countdown` shows the seconds left; its form (`data-goes-on`) is submitted when they are over.
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

// Repeat a request by htmx for a part of a page, unless it polls and repeats itself anyway.
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

// Parts of a page that load by themselves do not move what the person is pressing or typing into.
"use strict";

// A swap between the press and the release of a button would move the button from under the pointer and lose the click,
// so swaps wait. On touch screens the click follows the release after a moment.
const AFTER_RELEASE = 100; // milliseconds
let isPressed = false;
let waiting = [];

document.addEventListener("pointerdown", ({ isPrimary, button }) => {
  if (isPrimary && button === 0) isPressed = true;
}, true);

function release() {
  if (!isPressed) return;
  isPressed = false;
  setTimeout(() => {
    if (isPressed) return; // again; its release follows
    const came = waiting;
    waiting = [];
    for (const take of came) take();
  }, AFTER_RELEASE);
}
// A drag, or leaving the window, ends a press without `pointerup`.
for (const name of ["pointerup", "pointercancel"]) document.addEventListener(name, release, true);
window.addEventListener("blur", release);

document.addEventListener("htmx:beforeSend", ({ detail: { xhr } }) => {
  const take = xhr.onload;
  xhr.onload = (event) => {
    if (isPressed || waiting.length) waiting.push(() => take.call(xhr, event));
    else take.call(xhr, event);
  };
});

// A polling part is not replaced while, or after, the person fills in one of its fields.
const filledIn = new WeakSet();
document.addEventListener("input", (event) => filledIn.add(event.target));
document.addEventListener("htmx:beforeSwap", (event) => {
  const { requestConfig, target } = event.detail;
  if (!/every/.test(requestConfig.elt.getAttribute("hx-trigger") ?? "")) return;
  const fields = [...target.querySelectorAll("input, select, textarea")];
  if (fields.some((field) => filledIn.has(field) || field === document.activeElement)) event.preventDefault();
});

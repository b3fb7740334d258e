// A part of a page that comes by itself does not take away what somebody is pressing, or typing.
"use strict";

// What comes between the press of a button and its release would move the button from under the pointer, and the click
// would be lost: it waits. A finger's click follows its release after a moment.
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
// A pointer that drags something, or whose window is left, is released without `pointerup`.
for (const name of ["pointerup", "pointercancel"]) document.addEventListener(name, release, true);
window.addEventListener("blur", release);

document.addEventListener("htmx:beforeSend", ({ detail: { xhr } }) => {
  const take = xhr.onload;
  xhr.onload = (event) => {
    if (isPressed || waiting.length) waiting.push(() => take.call(xhr, event));
    else take.call(xhr, event);
  };
});

// A part that asks for itself from time to time stays as it is while somebody fills in a field of it, or has done so.
const filledIn = new WeakSet();
document.addEventListener("input", (event) => filledIn.add(event.target));
document.addEventListener("htmx:beforeSwap", (event) => {
  const { requestConfig, target } = event.detail;
  if (!/every/.test(requestConfig.elt.getAttribute("hx-trigger") ?? "")) return;
  const fields = [...target.querySelectorAll("input, select, textarea")];
  if (fields.some((field) => filledIn.has(field) || field === document.activeElement)) event.preventDefault();
});

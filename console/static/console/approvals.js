// What the approvals do in the browser: from line to line by keys, and how many lines are ticked.
"use strict";

// `j` and `k` go to the next and the previous link with `data-row`; `x` ticks its line.
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input:not([type=checkbox]), select, textarea")) return;
  const rows = [...document.querySelectorAll("[data-row]")].filter((row) => row.checkVisibility());
  const here = rows.findIndex((row) => row.closest("tr, li").contains(document.activeElement));
  if (event.key === "x" && here >= 0) {
    rows[here].closest("tr, li").querySelector("input[name=change]")?.click();
    event.preventDefault();
  }
  const step = { j: 1, k: -1 }[event.key];
  if (step === undefined || document.querySelector(`[data-key~="${event.key}"]`)) return;
  rows[Math.max(0, Math.min(rows.length - 1, here + step))]?.focus();
  event.preventDefault();
});

// `data-counts-ticks` on a form: how many of its lines are ticked is told at `data-ticks`.
const countTicks = (form) => {
  const boxes = [...form.querySelectorAll("input[name=change]")];
  const ticked = boxes.filter((box) => box.checked).length;
  form.querySelectorAll("[data-ticks]").forEach((place) => {
    place.textContent = say("{ticked} of {count} ticked.", { ticked, count: boxes.length });
  });
};
document.querySelectorAll("[data-counts-ticks]").forEach(countTicks);
document.addEventListener("change", (event) => {
  const form = event.target.closest("[data-counts-ticks]");
  if (form) countTicks(form);
});

// A change that would not be applied any more (`data-exception`, its id) is not ticked unless somebody does it again.
document.addEventListener("htmx:afterSwap", (event) => {
  for (const exception of event.target.querySelectorAll("[data-exception]")) {
    const box = document.querySelector(`input[name=change][value^="${CSS.escape(exception.dataset.exception)}"]`);
    if (!box) continue;
    box.checked = false;
    box.dispatchEvent(new Event("change", { bubbles: true }));
  }
});

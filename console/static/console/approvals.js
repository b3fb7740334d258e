// Approvals: keys to move between lines, and the number of ticked lines.
"use strict";

// Boxes in their order. Those of a range get the state of the one that ended it: Shift with a click, or `X`.
const tickBoxes = () => [...document.querySelectorAll("input[type=checkbox][name=change]")];
let lastTicked = null;
const tick = (boxes, checked) => {
  boxes.forEach((box) => { box.checked = checked; });
  boxes[0]?.dispatchEvent(new Event("change", { bubbles: true }));
};
const tickRange = (box, checked) => {
  const boxes = tickBoxes();
  const [first, last] = [boxes.indexOf(lastTicked ?? box), boxes.indexOf(box)].sort((a, b) => a - b);
  tick(boxes.slice(Math.max(0, first), last + 1), checked);
  lastTicked = box;
};
document.addEventListener("click", (event) => {
  if (!event.target.matches("input[type=checkbox][name=change]")) return;
  if (event.shiftKey) tickRange(event.target, event.target.checked);
  lastTicked = event.target;
});

// `j` and `k` focus the next and the previous link with `data-row`; `x` ticks its line, `X` those up to it, `*` all.
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input:not([type=checkbox]), select, textarea")) return;
  const rows = [...document.querySelectorAll("[data-row]")].filter((row) => row.checkVisibility());
  const here = rows.findIndex((row) => row.closest("tr, li").contains(document.activeElement));
  if (event.key === "x" && here >= 0) {
    rows[here].closest("tr, li").querySelector("input[name=change]")?.click();
    event.preventDefault();
  }
  if (event.key === "X" && here >= 0) {
    const box = rows[here].closest("tr, li").querySelector("input[name=change]");
    if (box) tickRange(box, lastTicked?.checked ?? true);
    event.preventDefault();
  }
  if (event.key === "*") {
    tick(tickBoxes(), !tickBoxes().every((box) => box.checked));
    event.preventDefault();
  }
  const step = { j: 1, k: -1 }[event.key];
  if (step === undefined || document.querySelector(`[data-key~="${event.key}"]`)) return;
  rows[Math.max(0, Math.min(rows.length - 1, here + step))]?.focus();
  event.preventDefault();
});

// `data-counts-ticks` on a form: its `data-ticks` elements show how many lines are ticked.
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

// A change whose forecast failed (`data-exception`, its id) is unticked: the person has to tick it deliberately.
document.addEventListener("htmx:afterSwap", (event) => {
  for (const exception of event.target.querySelectorAll("[data-exception]")) {
    const box = document.querySelector(`input[type=checkbox][name=change][value^="${CSS.escape(exception.dataset.exception)}"]`);
    if (!box) continue;
    box.checked = false;
    box.dispatchEvent(new Event("change", { bubbles: true }));
  }
});

// What pages do in the browser besides htmx: shortcuts, fields filled by buttons, confirmations.
"use strict";

// `data-fills` on a button puts its `data-value` into the field with that id; a text area gets one more line.
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-fills]");
  if (!button) return;
  const field = document.getElementById(button.dataset.fills);
  const lines = field.matches("textarea") ? field.value.split("\n").filter((line) => line.trim()) : [];
  field.value = [...lines.filter((line) => line !== button.dataset.value), button.dataset.value].join("\n");
  field.dispatchEvent(new Event("change", { bubbles: true }));
  const choice = button.closest("details.tree-choice");
  if (choice && field.matches("input")) {
    choice.open = false;
    document.querySelector(`#${field.id}-search:not([hidden])`)?.focus();
  }
});

// `data-confirm` on a form or a button asks before submitting; the sentence says what will happen.
document.addEventListener("submit", (event) => {
  const asks = event.submitter?.dataset.confirm ?? event.target.dataset.confirm;
  if (asks && !window.confirm(asks)) {
    event.preventDefault();
    event.stopImmediatePropagation();
  }
}, true);

// `data-submits` on a field submits its form when the field changes.
document.addEventListener("change", (event) => {
  if (event.target.matches("[data-submits]")) event.target.form.requestSubmit();
});

// `data-checks` on a button ticks exactly the permissions that it lists. Without scripts the button submits the form,
// and the server ticks them.
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-checks]");
  if (!button) return;
  event.preventDefault();
  const wanted = new Set(button.dataset.checks.split(" "));
  for (const box of button.form.querySelectorAll("input[type=checkbox][name=permissions]")) {
    box.checked = wanted.has(box.value) && !box.disabled;
  }
  button.form.dispatchEvent(new Event("change", { bubbles: true }));
});

// `data-prints` on a button prints the page.
document.addEventListener("click", (event) => {
  if (event.target.closest("[data-prints]")) window.print();
});

// `data-chooses` on a field: typing into it checks the radio button with that id.
document.addEventListener("input", (event) => {
  const chooses = event.target.dataset.chooses;
  if (chooses) document.getElementById(chooses).checked = true;
});

// Boxes that select rows of a table: `data-ticks` ticks them all, `data-counts` shows how many (`#`) are ticked.
document.addEventListener("change", (event) => {
  const box = event.target;
  if (!box.matches("td.choose input, [data-ticks]")) return;
  if (box.matches("[data-ticks]")) {
    for (const each of box.closest("table").querySelectorAll("td.choose input")) each.checked = box.checked;
  }
  const told = box.form?.querySelector("[data-counts]");
  const count = box.form?.querySelectorAll("td.choose input:checked").length;
  if (told) told.textContent = count ? told.dataset.counts.replace("#", count) : "";
});

// Ctrl-K focuses the quick search on every page.
document.addEventListener("keydown", (event) => {
  if (!(event.ctrlKey || event.metaKey) || event.altKey || event.key.toLowerCase() !== "k") return;
  const field = document.querySelector("[data-finds]");
  if (!field) return;
  event.preventDefault();
  field.focus();
  field.select();
});

// People found while typing: the arrows go there from the field and between them, Escape goes back, and on one of them the
// letters beside it open its page for unlocking or for a new password.
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const field = document.querySelector("[data-finds]");
  const hits = [...document.querySelectorAll("#found-while-typing .hit")];
  const line = event.target.closest("#found-while-typing li");
  if (!hits.length || !(line || event.target === field)) return;
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    const at = hits.indexOf(line?.querySelector(".hit")) + (event.key === "ArrowDown" ? 1 : -1);
    (hits[Math.min(at, hits.length - 1)] ?? field).focus();
  } else if (event.key === "Escape") {
    document.getElementById("found-while-typing").replaceChildren();
    field.focus();
  } else {
    const action = line?.querySelector(`[data-hit-key="${CSS.escape(event.key)}"]`);
    if (!action) return;
    action.click();
  }
  event.preventDefault();
  event.stopPropagation();
}, true);

// `data-key` on a link or button: the keys that press it, except while typing. With `data-key-focuses` a key only
// focuses it, so that a slip of the hand does no harm.
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input:not([type=checkbox]), select, textarea")) return;
  const key = `[data-key~="${CSS.escape(event.key)}"]`;
  const wanted = document.querySelector(`main ${key}`) ?? document.querySelector(key); // what the page has comes first
  if (!wanted) return;
  event.preventDefault();
  wanted.closest("details:not([open]):not(:has(> summary:focus))")?.setAttribute("open", "");
  if (wanted.matches("input[type=search]")) wanted.select();
  if (wanted.matches("input, select, textarea, [data-key-focuses]")) wanted.focus();
  else wanted.click();
});

// `data-chips` on a form of filters: below it, each filter that is on is a chip that takes it off. Selects are on when
// they differ from their first choice.
for (const form of document.querySelectorAll("form[data-chips]")) {
  const chips = document.createElement("ul");
  chips.className = "chips-on";
  for (const field of form.elements) {
    const isOn = field.matches("select") ? field.selectedIndex > 0
      : field.matches("[type=checkbox]") ? field.checked : field.matches("input") && field.value.trim();
    if (!field.name || !isOn || !field.labels?.length) continue;
    const label = field.labels[0].textContent.trim();
    const value = field.matches("select") ? field.selectedOptions[0].textContent.trim() : field.value.trim().replace(/^(\d{4}-\d\d-\d\d)T/, "$1 ");
    const rest = new URLSearchParams(location.search);
    rest.delete(field.name);
    rest.delete("cursor");
    const chip = document.createElement("a");
    chip.href = `?${rest}`;
    const removes = document.createElement("span"); // no label of its own, which would be that of the field, too
    removes.className = "only-read-aloud";
    removes.textContent = say("Remove the filter");
    chip.append(removes, " ", field.matches("[type=checkbox]") ? label : `${label}: ${value}`, " ×");
    chips.append(document.createElement("li"));
    chips.lastChild.append(chip);
  }
  if (chips.childElementCount) (form.closest("details.fold") ?? form).after(chips);
}

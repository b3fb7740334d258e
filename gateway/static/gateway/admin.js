// What Django admin's own templates and scripts leave out.
"use strict";

// On telephones a row of a list is a card, and each of its cells says what it is.
const headings = [...document.querySelectorAll("#result_list thead th")].map((heading) => heading.querySelector(".text")?.textContent.trim());
for (const row of document.querySelectorAll("#result_list tbody tr")) {
  [...row.children].forEach((cell, place) => {
    if (headings[place] && cell.tagName === "TD") cell.dataset.label = headings[place];
  });
}

// An icon with a name needs a role. The boxes that have them are made by a listener that came before this one.
window.addEventListener("load", () => {
  for (const icon of document.querySelectorAll(".selector span[aria-label]")) icon.setAttribute("role", "img");
});

// Additions to Django admin's templates and scripts.
"use strict";

// On phones each row of a list is shown as a card, whose cells need their headings.
const headings = [...document.querySelectorAll("#result_list thead th")].map((heading) => heading.querySelector(".text")?.textContent.trim());
for (const row of document.querySelectorAll("#result_list tbody tr")) {
  [...row.children].forEach((cell, place) => {
    if (headings[place] && cell.tagName === "TD") cell.dataset.label = headings[place];
  });
}

// An icon with a label needs a role. Django's listener, registered before this one, makes the boxes with the icons.
window.addEventListener("load", () => {
  for (const icon of document.querySelectorAll(".selector span[aria-label]")) icon.setAttribute("role", "img");
});

// Folds details that are too large for a phone. They are open on wide screens, and without scripts.
"use strict";

const isNarrow = window.matchMedia("(max-width: 60rem)");
const fold = () => {
  for (const part of document.querySelectorAll("details.menu, details[data-folds]")) part.open = !isNarrow.matches;
};
isNarrow.addEventListener("change", fold);
fold();

// `data-closes` on details that open over the page: they close when a person turns to something else, or with Escape.
for (const turn of ["click", "focusin", "keydown"]) {
  document.addEventListener(turn, (event) => {
    for (const part of document.querySelectorAll("details[data-closes][open]")) {
      const leaves = turn === "keydown" ? event.key === "Escape" : !part.contains(event.target);
      if (!leaves) continue;
      if (part.contains(document.activeElement)) part.querySelector("summary").focus();
      part.open = false;
    }
  });
}

// Folds details that are too large for a phone. They are open on wide screens, and without scripts.
"use strict";

const isNarrow = window.matchMedia("(max-width: 60rem)");
const fold = () => {
  for (const part of document.querySelectorAll("details.menu, details[data-folds]")) part.open = !isNarrow.matches;
};
isNarrow.addEventListener("change", fold);
fold();

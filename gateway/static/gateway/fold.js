// What takes too much room on a telephone is folded there. On wide screens, and without scripts, it is open.
"use strict";

const isNarrow = window.matchMedia("(max-width: 60rem)");
const fold = () => {
  for (const part of document.querySelectorAll("details.menu, details[data-folds]")) part.open = !isNarrow.matches;
};
isNarrow.addEventListener("change", fold);
fold();

// The tree of containers: the keys of a tree, and the mark on the container that is shown beside it.
"use strict";

const tree = document.querySelector(".containers .tree");

// Up and down between what is visible, right to open, left to close or to go up.
tree.addEventListener("keydown", (event) => {
  const summary = event.target.closest("summary");
  const names = [...tree.querySelectorAll("summary")].filter((item) => item.checkVisibility());
  const place = names.indexOf(summary);
  const holder = summary?.parentElement;
  const go = {
    ArrowDown: () => names[place + 1]?.focus(),
    ArrowUp: () => names[place - 1]?.focus(),
    ArrowRight: () => (holder.open ? names[place + 1]?.focus() : (holder.open = true)),
    ArrowLeft: () => (holder.open ? (holder.open = false) : holder.parentElement.closest("details")?.querySelector("summary").focus()),
  }[event.key];
  if (!go || !holder) return;
  event.preventDefault();
  go();
});

document.addEventListener("htmx:pushedIntoHistory", () => {
  const base = new URLSearchParams(location.search).get("base");
  for (const link of tree.querySelectorAll("a")) {
    if (new URL(link.href).searchParams.get("base") === base) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
});

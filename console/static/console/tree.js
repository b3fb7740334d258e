// The tree of containers beside a search: keyboard navigation, and the mark on the current container.
"use strict";

const tree = document.querySelector(".containers .tree");

// The keys of a tree view (WAI-ARIA): up and down move, right opens, left closes or goes to the parent.
tree.addEventListener("keydown", (event) => {
  const item = event.target.closest("li");
  const within = item?.querySelector(":scope > details");
  if (!within) return;
  const names = [...tree.querySelectorAll("a")].filter((name) => name.checkVisibility());
  const place = names.indexOf(item.querySelector(":scope > a"));
  const go = {
    ArrowDown: () => names[place + 1]?.focus(),
    ArrowUp: () => names[place - 1]?.focus(),
    ArrowRight: () => (within.open ? names[place + 1]?.focus() : (within.open = true)),
    ArrowLeft: () => (within.open ? (within.open = false) : item.parentElement.closest("li")?.querySelector("a").focus()),
  }[event.key];
  if (!go) return;
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

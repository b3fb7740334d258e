// `data-finds-objects` on a field: objects of the directory are searched while their name is typed (a combobox, WAI-ARIA),
// and those chosen are chips. The field itself, hidden, holds the distinguished names, and any text that names no object
// yet, which the server resolves.
"use strict";

const PAUSE = 250;
const SHORTEST = 2;

// The common name of a distinguished name; an id or a name as it is.
const nameOf = (text) => /^\w+=((?:\\.|[^,\\])+),/.exec(text)?.[1].replace(/\\(.)/g, "$1") ?? text;

function enhance(field) {
  if (field.dataset.ready) return;
  field.dataset.ready = "true";
  const source = field.querySelector("[name]");
  const many = source.matches("textarea");
  const needed = source.required;
  const make = (tag, properties) => Object.assign(document.createElement(tag), properties);
  const chips = make("ul", { className: "chips" });
  const list = make("ul", { className: "objects-found", id: `${source.id}-found`, role: "listbox", ariaLabel: field.dataset.found, hidden: true });
  const search = make("input", { id: `${source.id}-search`, type: "text", autocomplete: "off", spellcheck: false, role: "combobox", ariaAutoComplete: "list", ariaExpanded: "false" });
  search.setAttribute("aria-controls", list.id);
  for (const name of ["aria-describedby", "aria-invalid"]) if (source.hasAttribute(name)) search.setAttribute(name, source.getAttribute(name));
  field.querySelector("label").htmlFor = search.id;
  source.hidden = true;
  source.required = false;
  const entry = make("div", { className: "object-entry" });
  entry.append(chips, search, list);
  source.after(entry);

  let chosen = [];
  let asked;
  const options = () => [...list.querySelectorAll("[data-value]")];
  const active = () => list.querySelector('[aria-selected="true"]');

  function close() {
    clearTimeout(asked);
    list.hidden = true;
    search.ariaExpanded = "false";
    search.removeAttribute("aria-activedescendant");
  }

  function mark(option) {
    for (const each of options()) each.ariaSelected = String(each === option);
    if (option) search.setAttribute("aria-activedescendant", option.id);
    option?.scrollIntoView({ block: "nearest" });
  }

  function show() {
    chips.replaceChildren(...chosen.map((text) => {
      const remove = make("button", { type: "button", textContent: "×", ariaLabel: field.dataset.removes.replace("#", nameOf(text)) });
      remove.addEventListener("click", () => choose(chosen.filter((each) => each !== text)));
      const chip = make("li", { className: "chip", title: text });
      chip.append(nameOf(text), remove);
      return chip;
    }));
    search.hidden = !many && chosen.length > 0;
    search.required = needed && !chosen.length;
  }

  function tell(event) {
    const typed = search.value.trim();
    source.value = [...chosen, ...(typed ? [typed] : [])].join("\n");
    source.dispatchEvent(new Event(event, { bubbles: true }));
  }

  function choose(texts) {
    chosen = [...new Set(texts)];
    search.value = "";
    close();
    show();
    tell("change");
    (search.hidden ? chips.querySelector("button") : search).focus();
  }

  // What the field holds already, was restored or filled by the tree: names of objects become chips, the rest is typed.
  function read() {
    const lines = source.value.split("\n").map((line) => line.trim()).filter(Boolean);
    chosen = lines.filter((line) => many || line.includes("=") || /^[\da-f-]{36}$/i.test(line));
    search.value = lines.filter((line) => !chosen.includes(line)).join(" ");
    close();
    show();
  }

  async function find() {
    const text = search.value.trim();
    if (text.length < SHORTEST || text.includes("=")) return close();
    const answer = await fetch(`${field.dataset.findsObjects}&q=${encodeURIComponent(text)}`);
    if (!answer.ok || answer.redirected || search.value.trim() !== text || document.activeElement !== search) return;
    list.innerHTML = await answer.text();
    options().forEach((option, index) => { option.id = `${list.id}-${index}`; });
    list.hidden = false;
    search.ariaExpanded = "true";
    mark(options()[0]);
  }

  source.addEventListener("change", () => { if (source.value !== [...chosen, search.value.trim()].filter(Boolean).join("\n")) read(); });
  search.addEventListener("input", () => {
    close();
    tell("input");
    asked = setTimeout(find, PAUSE);
  });
  search.addEventListener("blur", () => {
    close();
    if (search.value.trim()) tell("change");
  });
  list.addEventListener("mousedown", (event) => {
    event.preventDefault(); // the field keeps the focus
    const option = event.target.closest("[data-value]");
    if (option) choose([...chosen, option.dataset.value]);
  });
  search.addEventListener("keydown", (event) => {
    const all = options();
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && !list.hidden && all.length) mark(all[(all.indexOf(active()) + step + all.length) % all.length]);
    else if (event.key === "Enter" && !list.hidden && active()) choose([...chosen, active().dataset.value]);
    else if (event.key === "Escape" && !list.hidden) close();
    else if (event.key === "Backspace" && !search.value && chosen.length) choose(chosen.slice(0, -1));
    else return;
    event.preventDefault();
  });
  read();
}

const enhanceAll = (root) => root.querySelectorAll("[data-finds-objects]").forEach(enhance);
enhanceAll(document);
document.addEventListener("htmx:load", (event) => enhanceAll(event.target));

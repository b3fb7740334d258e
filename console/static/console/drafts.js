// Drafts: the tab keeps what was typed into a form until the form is submitted successfully. It never keeps secrets,
// and it forgets everything when another person signs in.
"use strict";

const PREFIX = "draft:";
const SENT = "draft-sent";
const SECRET = /password|secret|token|code|csrf/i;
const KEPT_TYPES = new Set(["text", "search", "email", "tel", "url", "number", "date", "datetime-local", "checkbox", "radio", "textarea", "select-one"]);

const frame = document.querySelector("[data-person]");
const storage = sessionStorage;
// By getAttribute: a field named "action" would shadow the form's property.
const keyOf = (form) => `${PREFIX}${form.getAttribute("action") ?? ""} ${location.pathname}`;
const isDrafted = (form) => form?.getAttribute("method") === "post" && form.closest("main") && !form.matches("[data-no-draft]");
const isKept = (field) => field.name && KEPT_TYPES.has(field.type) && !SECRET.test(field.name) && !field.closest(".choose");

// Fields of the same name are distinguished by their index.
const placeOf = (field) => `${field.name}#${[...field.form.elements].filter((other) => other.name === field.name).indexOf(field)}`;

function forgetAll() {
  for (const key of Object.keys(storage)) if (key.startsWith(PREFIX) || key === SENT) storage.removeItem(key);
}

function remember(event) {
  const field = event.target;
  const form = field.form;
  if (!isDrafted(form) || !isKept(field)) return;
  const kept = JSON.parse(storage.getItem(keyOf(form)) ?? "{}");
  kept[placeOf(field)] = field.type === "checkbox" || field.type === "radio" ? field.checked : field.value;
  storage.setItem(keyOf(form), JSON.stringify(kept));
}

function restore(form) {
  const kept = JSON.parse(storage.getItem(keyOf(form)) ?? "{}");
  let changed = false;
  for (const field of form.elements) {
    const value = isKept(field) ? kept[placeOf(field)] : undefined;
    if (value === undefined) continue;
    const member = typeof value === "boolean" ? "checked" : "value";
    if (field[member] === value) continue;
    field[member] = value;
    changed = true;
  }
  if (!changed) return;
  const notice = document.getElementById("draft-restored").content.cloneNode(true);
  notice.querySelector("button").addEventListener("click", () => {
    storage.removeItem(keyOf(form));
    location.reload();
  });
  form.before(notice);
}

if (frame) {
  if (storage.getItem("draft-person") !== frame.dataset.person) forgetAll();
  storage.setItem("draft-person", frame.dataset.person);
  // A form has succeeded if the next page is another one or shows a success message.
  const sent = JSON.parse(storage.getItem(SENT) ?? "null");
  if (sent && (sent.place !== location.pathname || document.querySelector("main > .notice.success"))) storage.removeItem(sent.key);
  storage.removeItem(SENT);
  for (const form of document.forms) if (isDrafted(form)) restore(form);

  document.addEventListener("input", remember);
  document.addEventListener("change", remember);
  document.addEventListener("submit", (event) => {
    if (event.target.matches("[data-forgets]")) forgetAll();
    else if (isDrafted(event.target)) storage.setItem(SENT, JSON.stringify({ key: keyOf(event.target), place: location.pathname }));
  });
}

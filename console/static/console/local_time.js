// Moments in the time of whoever reads them. The server says them in UTC, which stays to be seen on each; fields for
// moments are shown in local time and sent in UTC.
"use strict";

const isUtc = new Date().getTimezoneOffset() === 0;
// The page's language, as it is written where the reader lives: en-GB rather than en, where the browser says so.
const pageLanguage = document.documentElement.lang;
const locale = navigator.languages.find((name) => name.split("-")[0] === pageLanguage) ?? pageLanguage;

function localize(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    if (time.dataset.local) continue;
    time.dataset.local = "yes";
    const at = new Date(time.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    const local = at.toLocaleString(locale, { dateStyle: "medium", timeStyle: "medium" });
    const utc = `${at.toISOString().slice(0, 19).replace("T", " ")} UTC`;
    if (time.hasAttribute("data-exact")) {
      time.textContent = local;
      time.title = utc;
    } else {
      time.title = `${local} (${utc})`;
    }
  }
  for (const field of root.querySelectorAll("input[type=datetime-local][data-utc]")) {
    if (field.dataset.local) continue;
    field.dataset.local = "yes";
    const zone = field.labels[0]?.querySelector("[data-zone]");
    if (zone) zone.textContent = say("(local time)");
    if (field.value) field.value = asField(new Date(`${field.value}Z`), -1);
  }
}

// The value of a field for a moment, moved between local time and UTC.
function asField(at, direction) {
  const moved = new Date(at.getTime() + direction * at.getTimezoneOffset() * 60000);
  return moved.toISOString().slice(0, 16);
}

// What a form sends is in UTC, whatever its fields show.
document.addEventListener("formdata", (event) => {
  for (const field of event.target.querySelectorAll("input[type=datetime-local][data-utc]")) {
    const at = new Date(field.value);
    if (field.name && !Number.isNaN(at.getTime())) event.formData.set(field.name, at.toISOString().slice(0, 16));
  }
});

if (!isUtc) {
  localize(document);
  document.addEventListener("htmx:afterSettle", (event) => localize(event.target));
}

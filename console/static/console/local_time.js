// Times in the reader's time zone. The server sends UTC, which stays visible as each time's title; datetime fields show
// local time and submit UTC.
"use strict";

const isUtc = new Date().getTimezoneOffset() === 0;
// The page's language in the reader's region: en-GB rather than en if the browser prefers that.
const pageLanguage = document.documentElement.lang;
const locale = navigator.languages.find((name) => name.split("-")[0] === pageLanguage) ?? pageLanguage;

function localize(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    if (time.dataset.local) continue;
    time.dataset.local = "yes";
    const at = new Date(time.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    const written = { dateStyle: "medium", timeStyle: "medium" };
    const local = at.toLocaleString(locale, written);
    const utc = `${at.toLocaleString(locale, { ...written, timeZone: "UTC" })} UTC`;
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

// The value of a datetime-local field, shifted between UTC and local time.
function asField(at, direction) {
  const moved = new Date(at.getTime() + direction * at.getTimezoneOffset() * 60000);
  return moved.toISOString().slice(0, 16);
}

// Forms submit UTC, whatever their fields show.
document.addEventListener("formdata", (event) => {
  for (const field of event.target.querySelectorAll("input[type=datetime-local][data-utc]")) {
    const at = new Date(field.value);
    if (field.name && !Number.isNaN(at.getTime())) event.formData.set(field.name, at.toISOString().slice(0, 16));
  }
});

// A heading for each day of a table whose rows have times, as the reader's calendar has it.
for (const body of document.querySelectorAll("tbody[data-by-day]")) {
  let last;
  for (const row of [...body.rows]) {
    const day = new Date(row.dataset.at).toLocaleDateString(locale, { dateStyle: "full" });
    if (day === last) continue;
    last = day;
    const heading = document.createElement("th");
    heading.scope = "rowgroup";
    heading.colSpan = row.cells.length;
    heading.textContent = day;
    heading.className = "quiet";
    const line = document.createElement("tr");
    line.append(heading);
    row.before(line);
  }
}

if (!isUtc) {
  localize(document);
  document.addEventListener("htmx:afterSettle", (event) => localize(event.target));
}

// Texts of scripts in the language of the page, which contains the translations (`#words`). Pages without them, such as
// the back office, are in English.
"use strict";

const translations = JSON.parse(document.getElementById("words")?.textContent ?? "{}");

// `text` is the English text, `values` fill its placeholders such as `{count}`.
function say(text, values = {}) {
  return (translations[text] ?? text).replace(/\{(\w+)\}/g, (place, name) => values[name] ?? place);
}

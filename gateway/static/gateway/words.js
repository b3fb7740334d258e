// What scripts say, in the language of the page: it brings the words (`#words`). A page without them, as those of the
// back office, is in English.
"use strict";

const translations = JSON.parse(document.getElementById("words")?.textContent ?? "{}");

// `text` is the English text, `values` are for its places such as `{count}`.
function say(text, values = {}) {
  return (translations[text] ?? text).replace(/\{(\w+)\}/g, (place, name) => values[name] ?? place);
}

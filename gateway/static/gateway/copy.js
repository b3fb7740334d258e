// Copy buttons of the console and the back office: `data-copy` is the id of the field or text.
"use strict";

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-copy]");
  if (!button) return;
  const source = document.getElementById(button.dataset.copy);
  select(source);
  let copied = true;
  try {
    // Browsers offer the clipboard only over TLS and on localhost; execCommand works everywhere.
    if (navigator.clipboard) await navigator.clipboard.writeText(source.value ?? source.textContent.trim());
    else copied = document.execCommand("copy");
  } catch {
    copied = false;
  }
  const status = button.parentElement.querySelector("[role=status]");
  if (status) status.textContent = copied ? say("Copied.") : say("Selected: press Ctrl-C to copy.");
});

function select(source) {
  if (source.select) source.select();
  else getSelection().selectAllChildren(source);
}

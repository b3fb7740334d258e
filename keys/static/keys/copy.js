// The copy buttons beside values that are shown once.
document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-copy]");
  if (!button) return;
  const field = document.getElementById(button.dataset.copy);
  const status = document.querySelector(`[data-copied="${button.dataset.copy}"]`);
  field.select();
  let copied = true;
  try {
    // The clipboard is there over TLS and on this machine only; elsewhere the old way still works.
    if (navigator.clipboard) await navigator.clipboard.writeText(field.value);
    else copied = document.execCommand("copy");
  } catch {
    copied = false;
  }
  status.textContent = copied ? "Copied." : "Selected: press Ctrl-C to copy.";
});

// Passkeys: forms ask the browser for one before they are sent, or have it make one. The answer is their field `passkey`.
"use strict";

const passkeysWork = Boolean(window.PublicKeyCredential?.parseRequestOptionsFromJSON);
let offer = new AbortController(); // for a passkey that the browser offers beside the user name

if (passkeysWork) for (const each of document.querySelectorAll("[data-needs-passkeys]")) each.hidden = false;

async function optionsFor(form, submitter) {
  const answer = await fetch(form.elements.passkey.dataset.options, { method: "POST", body: new FormData(form, submitter) });
  if (!answer.ok || answer.redirected) throw new Error(`no options: ${answer.status}`);
  return PublicKeyCredential.parseRequestOptionsFromJSON((await answer.json()).publicKey);
}

async function makePasskey(form) {
  const options = PublicKeyCredential.parseCreationOptionsFromJSON(JSON.parse(form.dataset.newPasskey));
  return navigator.credentials.create({ publicKey: options });
}

function tellProblem(form) {
  const place = form.querySelector("[data-passkey-problem]");
  place.textContent = passkeysWork
    ? say("The passkey was not used. Try again.")
    : say("This browser cannot use passkeys.");
  place.hidden = false;
}

// `data-options`, of the field, is where the options are. A typed code will do, except for a button `data-with-passkey`.
document.addEventListener("submit", async (event) => {
  const { target: form, submitter } = event;
  const field = form.elements.passkey;
  const isNew = "newPasskey" in form.dataset;
  if (event.defaultPrevented || !field || field.value || "withoutPasskey" in (submitter?.dataset ?? {})) return;
  if (form.elements.code?.value && !("withPasskey" in submitter.dataset)) return;
  event.preventDefault();
  offer.abort();
  try {
    const made = isNew
      ? await makePasskey(form)
      : await navigator.credentials.get({ publicKey: await optionsFor(form, submitter) });
    field.value = JSON.stringify(made);
  } catch {
    tellProblem(form);
    return;
  }
  form.requestSubmit(submitter);
  field.value = ""; // the browser may come back to this page, and the answer counts once
});

// `data-offers-passkeys`, of a form: the browser offers passkeys in the field of the user name. Challenges grow old.
async function offerPasskeys(form) {
  offer = new AbortController();
  const signal = offer.signal;
  setTimeout(() => {
    if (signal.aborted) return;
    offer.abort();
    offerPasskeys(form);
  }, 8 * 60_000);
  try {
    const publicKey = await optionsFor(form, null);
    const made = await navigator.credentials.get({ publicKey, mediation: "conditional", signal });
    form.elements.passkey.value = JSON.stringify(made);
    form.requestSubmit();
  } catch {
    // Nobody has chosen one, or another way was taken.
  }
}

const offeringForm = document.querySelector("[data-offers-passkeys]");
if (passkeysWork && offeringForm) {
  PublicKeyCredential.isConditionalMediationAvailable?.().then((can) => can && offerPasskeys(offeringForm));
}

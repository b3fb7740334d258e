// The code of an invitation's link: from behind the # of the address, which no server was sent, into its field.
"use strict";

const codeField = document.querySelector("[data-code-of-address]");
if (codeField && location.hash.length > 1) {
  codeField.value = location.hash.slice(1);
  codeField.closest(".field").hidden = true;
  history.replaceState(null, "", location.pathname);
}

// The test read beside a key's new value: the real machine surface is called, with the key alone, and what came back is
// said in words.
"use strict";

const button = document.getElementById("test-read");
const told = document.getElementById("test-told");

function tell(worked, text) {
  const line = document.createElement("p");
  line.className = `notice ${worked ? "good" : "bad"}`;
  line.textContent = text;
  told.append(line);
}

async function read(path) {
  const headers = { "X-API-Key": document.getElementById(button.dataset.value).value };
  if (button.dataset.clientId) headers["X-Client-Id"] = button.dataset.clientId;
  const response = await fetch(path, { headers, credentials: "omit", cache: "no-store" });
  return { status: response.status, body: await response.json().catch(() => ({})) };
}

function inWords(answer) {
  if (answer.status === 401 && button.dataset.admitted === "no") {
    return `Refused with 401, as it should be: this browser is seen at ${button.dataset.address}, which is not among the allowed addresses. Test it from where the integration runs.`;
  }
  const meanings = {
    401: "the key is not valid any more, or its owner was deactivated. The security log has the reason.",
    403: "the key is valid, but may not do this: its role or its owner lacks “Read objects”, or the directory is disabled.",
    429: "too many requests from this address. Wait a moment.",
    502: "the directory refused the gateway's own account. Test the directory connection.",
    503: "no domain controller answers. Test the directory connection.",
  };
  return `Refused with ${answer.status}: ${meanings[answer.status] ?? answer.body.detail ?? "the gateway failed."}`;
}

async function test() {
  const me = await read("/api/me");
  if (me.status !== 200) return tell(false, inWords(me));
  const { subject, directory, permissions, scopes } = me.body;
  const where = directory ? `in ${directory.name}` : "in no directory";
  const confined = scopes.length ? `, confined to ${scopes.length} scope${scopes.length === 1 ? "" : "s"}` : "";
  tell(true, `GET /api/me: the key acts as ${subject.username} ${where}, with ${permissions.length} permission${permissions.length === 1 ? "" : "s"}${confined}.`);
  if (!directory) return tell(false, "There is nothing to search: the key is linked to no directory.");
  const found = await read("/api/ad/users?pageSize=1");
  if (found.status !== 200) return tell(false, inWords(found));
  const some = found.body.items.length ? `found “${found.body.items[0].name}”${found.body.nextCursor ? " and more" : ""}` : "works, and found nobody where the key may look";
  tell(true, `GET /api/ad/users: the search ${some}.`);
}

button.addEventListener("click", async () => {
  told.replaceChildren();
  button.disabled = true;
  try {
    await test();
  } catch {
    tell(false, "No answer: the gateway cannot be reached from this browser.");
  } finally {
    button.disabled = false;
  }
});

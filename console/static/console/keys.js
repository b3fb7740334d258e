// The test beside a key's new value: it calls /api with the key alone (no session) and explains the answer.
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
    return say(
      "Refused with 401, as it should be: this browser is seen at {address}, which is not among the allowed addresses. Test it from where the integration runs.",
      { address: button.dataset.address },
    );
  }
  const meanings = {
    401: say("the key is not valid any more, or its owner was deactivated. The security log has the reason."),
    403: say("the key is valid, but may not do this: its role or its owner lacks “Read objects”, or the directory is disabled."),
    429: say("too many requests from this address. Wait a moment."),
    502: say("the directory refused the gateway's own account. Test the directory connection."),
    503: say("no domain controller answers. Test the directory connection."),
  };
  const reason = meanings[answer.status] ?? answer.body.detail ?? say("the gateway failed.");
  return say("Refused with {status}: {reason}", { status: answer.status, reason });
}

function counted(items, what) {
  const count = items.length;
  if (what === "scope") return count === 1 ? say("1 scope") : say("{count} scopes", { count });
  return count === 1 ? say("1 permission") : say("{count} permissions", { count });
}

async function test() {
  const me = await read("/api/me");
  if (me.status !== 200) return tell(false, inWords(me));
  const { subject, directory, permissions, scopes } = me.body;
  const values = { name: subject.username, directory: directory?.name, permissions: counted(permissions, "permission"), scopes: counted(scopes, "scope") };
  if (directory && scopes.length) tell(true, say("GET /api/me: the key acts as {name} in {directory}, with {permissions}, confined to {scopes}.", values));
  else if (directory) tell(true, say("GET /api/me: the key acts as {name} in {directory}, with {permissions}.", values));
  else if (scopes.length) tell(true, say("GET /api/me: the key acts as {name} in no directory, with {permissions}, confined to {scopes}.", values));
  else tell(true, say("GET /api/me: the key acts as {name} in no directory, with {permissions}.", values));
  if (!directory) return tell(false, say("There is nothing to search: the key is linked to no directory."));
  const found = await read("/api/ad/users?pageSize=1");
  if (found.status !== 200) return tell(false, inWords(found));
  const name = found.body.items[0]?.name;
  if (name === undefined) tell(true, say("GET /api/ad/users: the search works, and found nobody where the key may look."));
  else if (found.body.nextCursor) tell(true, say("GET /api/ad/users: the search found “{name}” and more.", { name }));
  else tell(true, say("GET /api/ad/users: the search found “{name}”.", { name }));
}

button.addEventListener("click", async () => {
  told.replaceChildren();
  button.disabled = true;
  try {
    await test();
  } catch {
    tell(false, say("No answer: the gateway cannot be reached from this browser."));
  } finally {
    button.disabled = false;
  }
});

// The test read beside a key's new value: the real machine surface is called, with the key alone, and what came back is
// said in the words that the page brings along, which are in its language.
"use strict";

const button = document.getElementById("test-read");
const told = document.getElementById("test-told");
const says = JSON.parse(told.dataset.says);

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

function filled(text, values) {
  return text.replace(/\{(\w+)\}/g, (_, name) => values[name]);
}

function counted([one, many], n) {
  return filled(n === 1 ? one : many, { n });
}

function inWords(answer) {
  if (answer.status === 401 && button.dataset.admitted === "no") {
    return filled(says.refusedAsItShould, { address: button.dataset.address });
  }
  const why = says.why[answer.status] ?? answer.body.detail ?? says.failed;
  return filled(says.refused, { status: answer.status, why });
}

async function test() {
  const me = await read("/api/me");
  if (me.status !== 200) return tell(false, inWords(me));
  const { subject, directory, permissions, scopes } = me.body;
  const facts = {
    name: subject.username,
    directory: directory?.name,
    permissions: counted(says.permissions, permissions.length),
    confined: scopes.length ? counted(says.confined, scopes.length) : "",
  };
  tell(true, filled(directory ? says.me : says.meNowhere, facts));
  if (!directory) return tell(false, says.nothingToSearch);
  const found = await read("/api/ad/users?pageSize=1");
  if (found.status !== 200) return tell(false, inWords(found));
  const [first] = found.body.items;
  const some = found.body.nextCursor ? says.foundMore : says.found;
  tell(true, first ? filled(some, { name: first.name }) : says.foundNobody);
}

button.addEventListener("click", async () => {
  told.replaceChildren();
  button.disabled = true;
  try {
    await test();
  } catch {
    tell(false, says.noAnswer);
  } finally {
    button.disabled = false;
  }
});

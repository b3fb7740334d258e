/** Everyday work by the client that openapi-generator makes in TypeScript: search, read, a dry run, update, an error. */

import { Configuration, ResponseError, UsersApi } from "./generated/index.js";

const url = process.env["GATEWAY_URL"] ?? "";
const unit = process.env["GATEWAY_UNIT"] ?? "";
const key = process.env["GATEWAY_KEY"] ?? "";
const users = new UsersApi(new Configuration({ basePath: url, apiKey: (name) => (name === "X-API-Key" ? key : "") }));

const page = await users.usersSearch({ base: unit, pageSize: 10, attributes: ["title", "mail"] });
const [found] = page.items;
if (found === undefined) throw new Error("nobody was found");

const read = await users.usersRead({ id: found.id });
const updateAccount = { replace: { title: "Countess" }, account: { expiresAt: "2199-01-01T00:00:00Z" } };
const planned = await users.usersUpdate({ id: found.id, updateAccount, dryRun: true });
if (!("changes" in planned) || planned.changes.length !== 2) throw new Error("no dry run");
const updated = await users.usersUpdate({
  id: found.id,
  updateAccount,
  ifMatch: `"${read.version}"`,
  xChangeReason: "Promoted",
});
if (!("attributes" in updated)) throw new Error("nothing was updated");

const missing = await users.usersRead({ id: "00000000-0000-0000-0000-000000000000" }).catch((refusal: unknown) => refusal);
if (!(missing instanceof ResponseError)) throw new Error("somebody was found where nobody is");
console.log(await missing.response.text());

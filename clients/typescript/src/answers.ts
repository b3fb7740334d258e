/** Turns the gateway's answers into the record that is wanted, or an exception that says what happened instead. */
import type { components } from "./generated.js";

export type Schemas = components["schemas"];
export type Problem = Schemas["Problem"];

interface Result<Data> {
  data?: Data;
  error?: unknown;
  response: Response;
}

type Preview = Schemas["DryRun"] | Schemas["BatchDryRun"];

/** The gateway refused. `code` is for programs, such as `AD.Object.NotFound`; the message is for people. */
export class Refused extends Error {
  readonly problem: Partial<Problem>;
  constructor(
    readonly status: number,
    problem: unknown,
  ) {
    const known: Partial<Problem> = typeof problem === "object" && problem !== null ? problem : {};
    super(`${status} ${known.code ?? ""}: ${known.detail ?? known.title ?? ""}`);
    this.name = "Refused";
    this.problem = known;
  }

  get code(): string {
    return this.problem.code ?? "";
  }
}

/** The change waits for a person's approval. This is not an error, and asking again would change nothing. */
export class Held extends Error {
  constructor(readonly changeRequest: Schemas["QueuedJson"]) {
    super(`change request ${changeRequest.id} waits for approval until ${changeRequest.expiresAt}`);
    this.name = "Held";
  }
}

/** Returns the answer. Throws Refused for a problem, Held for a change that waits for approval. */
export function expect<Data>(result: Result<Data>): Exclude<Data, Preview | Schemas["QueuedAnswer"]> {
  const answer = answered(result);
  if (isObject(answer) && "dryRun" in answer) throw new TypeError("a dry run's answer: see preview()");
  return answer as Exclude<Data, Preview | Schemas["QueuedAnswer"]>;
}

/** Returns the answer of a dry run. Throws Refused for a problem. */
export function preview<Data>(result: Result<Data>): Extract<Data, Preview> {
  const answer = answered(result);
  if (!isObject(answer) || !("dryRun" in answer)) throw new TypeError("not a dry run's answer: see expect()");
  return answer as Extract<Data, Preview>;
}

/** Yields every item of a search, page by page: `fetchPage` gets the cursor of the next page. Throws Refused. */
export async function* pages<Item>(
  fetchPage: (cursor: string | undefined) => Promise<Result<{ items: Item[]; nextCursor: string | null }>>,
): AsyncGenerator<Item> {
  let cursor: string | null | undefined;
  while (cursor !== null) {
    const page = expect(await fetchPage(cursor));
    yield* page.items;
    cursor = page.nextCursor;
  }
}

/** How `stream` asks: what TypeScript takes for a page is a stream. */
export type AsLines = { headers: { Accept: string }; parseAs: "json" };
const AS_LINES: unknown = { headers: { Accept: "application/x-ndjson" }, parseAs: "stream" };

/**
 * Yields every item of a search while the gateway finds it, in one request: `search` adds what it is given to its own.
 * Throws Refused, also if the stream breaks off: then the items so far are not all.
 */
export async function* stream<Item>(
  search: (asLines: AsLines) => Promise<Result<{ items: Item[]; nextCursor: string | null }>>,
): AsyncGenerator<Item> {
  const { data, error, response } = await search(AS_LINES as AsLines);
  if (!response.ok) throw new Refused(response.status, error);
  const decoder = new TextDecoder();
  let rest = "";
  for await (const received of data as unknown as AsyncIterable<Uint8Array>) {
    const lines = (rest + decoder.decode(received, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    yield* lines.map((line) => JSON.parse(line) as Item);
  }
  if (rest !== "") throw brokenOff(rest);
}

/** A last line that is not finished is a problem without its end, if the gateway could still tell. */
function brokenOff(rest: string): Refused {
  let problem: Partial<Problem> = {};
  try {
    problem = JSON.parse(`${rest}}`);
  } catch {}
  return new Refused(problem.status ?? 200, { detail: "The stream broke off.", ...problem });
}

function answered<Data>({ data, error, response }: Result<Data>): Data {
  if (!response.ok) throw new Refused(response.status, error);
  if (isObject(data) && "changeRequest" in data) throw new Held(data.changeRequest as Schemas["QueuedJson"]);
  return data as Data;
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}

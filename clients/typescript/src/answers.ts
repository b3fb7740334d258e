/** What the gateway answers: the record that is wanted, or an exception that says what happened instead. */
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

/** The change waits for a person's approval. It is no error: asking again would change nothing. */
export class Held extends Error {
  constructor(readonly changeRequest: Schemas["QueuedJson"]) {
    super(`change request ${changeRequest.id} waits for approval until ${changeRequest.expiresAt}`);
    this.name = "Held";
  }
}

/** What was asked for. Throws Refused for a problem, Held for a change that waits for approval. */
export function expect<Data>(result: Result<Data>): Exclude<Data, Preview | Schemas["QueuedAnswer"]> {
  const answer = answered(result);
  if (isObject(answer) && "dryRun" in answer) throw new TypeError("a dry run's answer: see preview()");
  return answer as Exclude<Data, Preview | Schemas["QueuedAnswer"]>;
}

/** What a dry run says. Throws Refused for a problem. */
export function preview<Data>(result: Result<Data>): Extract<Data, Preview> {
  const answer = answered(result);
  if (!isObject(answer) || !("dryRun" in answer)) throw new TypeError("not a dry run's answer: see expect()");
  return answer as Extract<Data, Preview>;
}

/** Every item of a search, page after page: `fetchPage` gets the cursor of the page that is wanted. Throws Refused. */
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

function answered<Data>({ data, error, response }: Result<Data>): Data {
  if (!response.ok) throw new Refused(response.status, error);
  if (isObject(data) && "changeRequest" in data) throw new Held(data.changeRequest as Schemas["QueuedJson"]);
  return data as Data;
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}

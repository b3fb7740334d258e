/** Waits for what takes longer than a request: a person's decision, a run over many accounts. */
import { expect, type Schemas } from "./answers.js";
import { seconds, type Gateway } from "./connection.js";

export interface Patience {
  /** Seconds until giving up. */
  within?: number;
  /** Seconds between two checks. */
  every?: number;
}

const UNDECIDED = new Set<Schemas["Status"]>(["pending", "approved", "applying", "unknown"]);

/** Waits for the end of a change request: `status` says which, and `problem` why it failed, if it did. */
export async function waitForChange(
  gateway: Gateway,
  id: string,
  patience: Patience = {},
): Promise<Schemas["ChangeRequestJson"]> {
  const read = async () => expect(await gateway.GET("/api/change-requests/{id}", { params: { path: { id } } }));
  return until(read, (found) => !UNDECIDED.has(found.status), patience);
}

/** Waits for the end of a run and returns it with the result for each account. */
export async function waitForRun(gateway: Gateway, id: string, patience: Patience = {}): Promise<Schemas["RunResult"]> {
  const read = async () => expect(await gateway.GET("/api/ad/runs/{id}", { params: { path: { id } } }));
  return until(read, (found) => found.state === "completed", patience);
}

async function until<T>(
  read: () => Promise<T>,
  isAtItsEnd: (found: T) => boolean,
  { within = 3600, every = 2 }: Patience,
): Promise<T> {
  const deadline = Date.now() + within * 1000;
  for (;;) {
    const found = await read();
    if (isAtItsEnd(found)) return found;
    if (Date.now() + every * 1000 > deadline) throw new Error(`not at its end within ${within} seconds`);
    await seconds(every);
  }
}

/** A connection that may try again, because the gateway carries out a request with one idempotency key once. */
import createClient, { type Client } from "openapi-fetch";

import type { paths } from "./generated.js";

/** Searches also answer as streams, of NDJSON and CSV; here they answer in pages. */
export type Gateway = Client<paths, "application/json">;

export interface Connection {
  baseUrl: string;
  key: string;
  /** Chooses the directory for a key with several links. */
  clientId?: string;
  /** How often a request is sent at most. */
  attempts?: number;
  /** Seconds; what should wait for longer is answered as it is. */
  longestWait?: number;
}

const WRITES = new Set(["POST", "PATCH", "DELETE"]);
/** A limit is reached, or a part of the gateway is away: nothing was changed, and `Retry-After` says when to come. */
const PASSING = new Set([429, 503]);

/** A client with an API key, which gives each write an idempotency key and sends again what failed for the moment. */
export function connect({ baseUrl, key, clientId, attempts = 5, longestWait = 60 }: Connection): Gateway {
  const headers = { "X-API-Key": key, ...(clientId === undefined ? {} : { "X-Client-Id": clientId }) };
  return createClient<paths, "application/json">({ baseUrl, headers, fetch: (request) => send(request, attempts, longestWait) });
}

export const seconds = (count: number) => new Promise((resolve) => setTimeout(resolve, count * 1000));

/** A request that got no answer may have been carried out. With the same key again, it is not done twice. */
async function send(request: Request, attempts: number, longestWait: number): Promise<Response> {
  if (WRITES.has(request.method) && !request.headers.has("Idempotency-Key")) {
    request.headers.set("Idempotency-Key", crypto.randomUUID());
  }
  for (let attempt = 1; attempt < attempts; attempt++) {
    const backoff = 2 ** attempt / 2;
    let response: Response;
    try {
      response = await fetch(request.clone());
    } catch (error) {
      if (request.signal.aborted) throw error;
      await seconds(Math.min(backoff, longestWait));
      continue;
    }
    if (!(await isPassing(response))) return response;
    const wait = Number(response.headers.get("Retry-After") ?? backoff);
    if (wait > longestWait) return response;
    await seconds(wait);
  }
  return fetch(request);
}

async function isPassing(response: Response): Promise<boolean> {
  // The request before, which got no answer, may still be carried out.
  if (response.status === 409) return (await response.clone().json()).code === "Idempotency.InProgress";
  return PASSING.has(response.status);
}

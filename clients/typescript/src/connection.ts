/** A connection that can retry safely, since the gateway carries out requests with the same idempotency key once. */
import createClient, { type Client } from "openapi-fetch";

import type { paths } from "./generated.js";

/** Searches also answer as streams, of NDJSON and CSV; here they answer in pages. */
export type Gateway = Client<paths, "application/json">;

/** An API key, or a person's access token. */
export type Credential = { key: string; token?: never } | { key?: never; token: string };

export type Connection = Credential & Options;

export interface Options {
  baseUrl: string;
  /** Chooses the directory for a key with several links. */
  clientId?: string;
  /** How often to send a request at most. */
  attempts?: number;
  /** Seconds. If a retry would have to wait longer, the response is returned as it is. */
  longestWait?: number;
}

const WRITES = new Set(["POST", "PATCH", "DELETE"]);
/** A limit is reached, or a part of the gateway is away: nothing was changed, and `Retry-After` says when to retry. */
const PASSING = new Set([429, 503]);

/** Makes a client, which adds an idempotency key to each write and retries temporary failures. */
export function connect({ baseUrl, key, token, clientId, attempts = 5, longestWait = 60 }: Connection): Gateway {
  const credential = key === undefined ? { Authorization: `Bearer ${token}` } : { "X-API-Key": key };
  const headers = { ...credential, ...(clientId === undefined ? {} : { "X-Client-Id": clientId }) };
  const client = createClient<paths, "application/json">({
    baseUrl,
    headers,
    fetch: (request) => send(request, attempts, longestWait),
  });
  return { ...client, POST: encoding(client.POST), PATCH: encoding(client.PATCH), DELETE: encoding(client.DELETE) };
}

/** Wraps a method so that it percent-encodes the reason: a header cannot hold characters beyond Latin-1. */
function encoding<Method extends (path: never, ...init: never[]) => unknown>(method: Method): Method {
  const encoded = (path: unknown, init?: { params?: { header?: Record<string, unknown> } }) => {
    const reason = init?.params?.header?.["X-Change-Reason"];
    if (typeof reason !== "string") return (method as Function)(path, init);
    const header = { ...init?.params?.header, "X-Change-Reason": encodeURIComponent(reason) };
    return (method as Function)(path, { ...init, params: { ...init?.params, header } });
  };
  return encoded as unknown as Method;
}

export const seconds = (count: number) => new Promise((resolve) => setTimeout(resolve, count * 1000));

/** Sends and retries. A request that got no answer may have been carried out; with the same key it is not done twice. */
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
  // The previous request, which got no answer, is still being carried out.
  if (response.status === 409) return (await response.clone().json()).code === "Idempotency.InProgress";
  return PASSING.has(response.status);
}

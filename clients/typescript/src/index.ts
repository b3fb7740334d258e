/**
 * A typed client of the Directory Management Gateway.
 *
 * `generated.ts` is generated from the gateway's OpenAPI document. The other modules add what every program needs: a
 * connection that retries, pages, refusals as exceptions, and waiting.
 */
export { expect, Held, pages, preview, Refused, stream } from "./answers.js";
export type { Problem, Schemas } from "./answers.js";
export { connect, type Gateway } from "./connection.js";
export { waitForChange, waitForRun } from "./waiting.js";
export type { components, operations, paths } from "./generated.js";

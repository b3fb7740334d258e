/**
 * A typed client of the Directory Management Gateway.
 *
 * `generated.ts` is made from the gateway's OpenAPI document. What stands beside it is what every program needs
 * besides: a connection that tries again, pages, refusals as exceptions, and waiting.
 */
export { expect, Held, pages, preview, Refused } from "./answers.js";
export type { Problem, Schemas } from "./answers.js";
export { connect, type Gateway } from "./connection.js";
export { waitForChange, waitForRun } from "./waiting.js";
export type { components, operations, paths } from "./generated.js";

// The same in Node, without a library: JSON-RPC over lines.
import { createInterface } from "node:readline";

const requests = { "REQ-1": "open", "REQ-2": "open" };
const thoughts = [];
const text = { type: "string" };
const missing = (number) => ({ status: "error", message: `there is no ${number}` });
const said = (value) => (typeof value === "string" ? value : JSON.stringify(value));
const tools = {
  list_requests: [{}, true, () => Object.entries(requests).map(([number, state]) => `${number} ${state}`)],
  close_request: [{ number: text }, false, ({ number }) => {
    if (!(number in requests)) return "Request not found";
    requests[number] = "closed";
    return `closed ${number}`;
  }],
  assign_request: [{ number: { $ref: "#/properties/to" }, to: text }, false, ({ number, to }) =>
    number in requests ? { status: "ok", to } : missing(number)],
  think: [{ thought: text, place: { anyOf: [{ type: "integer" }, { enum: ["first", "last"] }] } }, true,
    ({ thought }) => ({ thoughts: thoughts.push(thought) })],
};
const listed = Object.entries(tools).map(([name, [properties, readOnlyHint]]) => ({
  name,
  description: name,
  annotations: { readOnlyHint, idempotentHint: readOnlyHint },
  inputSchema: { type: "object", properties, required: Object.keys(properties) },
}));
const answers = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "requests", version: "1" },
  }),
  ping: () => ({}),
  "tools/list": () => ({ tools: listed }),
  "tools/call": ({ name, arguments: given }) => ({
    isError: false, content: [{ type: "text", text: said(tools[name][2](given ?? {})) }],
  }),
};
for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) continue;
  const answer = answers[method];
  const outcome = answer
    ? { result: answer(params ?? {}) }
    : { error: { code: -32601, message: `there is no ${method}` } };
  console.log(JSON.stringify({ jsonrpc: "2.0", id, ...outcome }));
}

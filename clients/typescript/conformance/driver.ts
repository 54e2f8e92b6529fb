// The driver of this client: what tests/conformance/README.md demands.
import { createInterface } from "node:readline"
import {
  fromJson,
  toJson,
  type DescMessage,
  type JsonObject,
  type JsonValue,
  type MessageShape,
} from "@bufbuild/protobuf"
import type { Duration } from "@bufbuild/protobuf/wkt"
import { Client, RequestError, type AskState, type WatchItem } from "../src/index.js"
import * as v1 from "../src/v1.js"

type Args = Record<string, JsonValue>
type Call = (client: Client, args: Args) => Promise<JsonValue>

const clients = new Map<string, Client>()
const watches = new Map<string, AsyncGenerator<WatchItem, never>>()

/** A command whose arguments are a message's and whose value is what `run` returns. */
function call<D extends DescMessage>(
  schema: D,
  run: (client: Client, request: MessageShape<D>) => Promise<JsonValue>,
): Call {
  return (client, args) => run(client, fromJson(schema, args))
}

async function ask(state: Promise<AskState>): Promise<JsonValue> {
  return toJson(v1.AskStateSchema, await state)
}

async function done(call: Promise<void>): Promise<JsonValue> {
  await call
  return {}
}

async function asks(states: AsyncIterable<AskState>): Promise<JsonValue> {
  const all: JsonValue[] = []
  for await (const state of states) all.push(toJson(v1.AskStateSchema, state))
  return { asks: all }
}

function seconds(span: Duration): number {
  return Number(span.seconds) + span.nanos / 1e9
}

const CALLS: Record<string, Call> = {
  ask: call(v1.AskRequestSchema, (client, request) => ask(client.ask(request))),
  wait: call(v1.WaitAskRequestSchema, (client, { askId, timeout }) =>
    ask(client.wait(askId, timeout && { timeout: seconds(timeout) })),
  ),
  get: call(v1.GetAskRequestSchema, (client, request) => ask(client.get(request))),
  list: call(v1.ListAsksRequestSchema, async (client, request) =>
    toJson(v1.ListAsksResponseSchema, await client.listPage(request)),
  ),
  listAll: call(v1.ListAsksRequestSchema, (client, { limit, ...filter }) =>
    asks(client.list({ ...filter, ...(limit && { limit }) })),
  ),
  answer: call(v1.AnswerAskRequestSchema, (client, request) => ask(client.answer(request))),
  reject: call(v1.RejectAskRequestSchema, (client, request) => ask(client.reject(request))),
  cancel: call(v1.CancelAskRequestSchema, (client, request) => ask(client.cancel(request))),
  consult: call(v1.ConsultAskRequestSchema, async (client, request) =>
    toJson(v1.ConsultAskResponseSchema, await client.consult(request)),
  ),
  validate: call(v1.ValidateQuestionRequestSchema, (client, { question }) => done(client.validate(question!))),
  openSession: call(v1.OpenSessionRequestSchema, (client, request) => done(client.openSession(request))),
  endTurn: call(v1.EndTurnRequestSchema, async (client, request) =>
    toJson(v1.EndTurnResponseSchema, await client.endTurn(request)),
  ),
  endSession: call(v1.EndSessionRequestSchema, (client, request) => done(client.endSession(request))),
  whoAmI: async (client) => toJson(v1.WhoAmIResponseSchema, await client.whoAmI()),
}

async function next(watch: AsyncGenerator<WatchItem, never>): Promise<JsonValue> {
  for (;;) {
    const { event, synced, revision } = (await watch.next()).value
    if (event) return { event: toJson(v1.AskEventSchema, event) }
    if (synced) return { synced, revision: String(revision) }
  }
}

async function run(name: string, command: string, args: Args): Promise<JsonValue> {
  const watch = JSON.stringify([name, args.watch])
  switch (command) {
    case "connect": {
      const { address, ...options } = args
      clients.set(name, new Client(address as string, options))
      return {}
    }
    case "close":
      clients.get(name)!.close()
      return {}
    case "watch.start":
      watches.set(watch, clients.get(name)!.watch(fromJson(v1.WatchAsksRequestSchema, args.request as JsonObject)))
      return {}
    case "watch.next":
      return next(watches.get(watch)!)
    case "watch.stop":
      await watches.get(watch)!.return(undefined as never)
      return {}
    default:
      return CALLS[command]!(clients.get(name)!, args)
  }
}

async function report(line: string): Promise<void> {
  const { id, client, do: command, args = {} } = JSON.parse(line)
  const result = await run(client, command, args).then(
    (ok) => ({ id, ok }),
    (error) => ({ id, error: failure(error) }),
  )
  process.stdout.write(JSON.stringify(result) + "\n")
}

function failure(error: Error): JsonObject {
  if (!(error instanceof RequestError)) return { code: "driver_failed", message: String(error.stack) }
  return { code: error.code, field: error.field, metadata: error.metadata }
}

for await (const line of createInterface({ input: process.stdin })) void report(line)

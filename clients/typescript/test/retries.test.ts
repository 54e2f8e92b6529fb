// What the client does when the server is unavailable, against a server that answers as each test says.
import assert from "node:assert/strict"
import { test } from "node:test"
import { status } from "@grpc/grpc-js"
import { AskService } from "../src/gen/askd/v1/ask_service_pb.js"
import { KeyService } from "../src/gen/askd/v1/key_service_pb.js"
import { AskStatus } from "../src/index.js"
import { connected, played, playing, Refusal } from "./server.js"

const LIMIT = { timeout: 60_000 }
const AWAY = new Refusal(status.UNAVAILABLE, "UNAVAILABLE")

test("an answer is sent again with the id it was first sent with", LIMIT, async (t) => {
  const ids: string[] = []
  const address = await playing(
    t,
    played(AskService.method.answerAsk, ({ answerId }) => {
      if (ids.push(answerId) < 3) throw AWAY
      return { ask: { id: "que_1" } }
    }),
  )
  const receipt = await connected(t, address).answer({ askId: "que_1", answers: "yes" })
  assert.equal(receipt.id, "que_1")
  assert.equal(ids.length, 3)
  assert.equal(new Set(ids).size, 1)
  assert.ok(ids[0])
})

test("only what is unavailable is tried again", LIMIT, async (t) => {
  let tries = 0
  const address = await playing(
    t,
    played(AskService.method.getAsk, () => {
      tries++
      throw new Refusal(status.RESOURCE_EXHAUSTED, "RATE_LIMITED", {}, 0.1)
    }),
  )
  await assert.rejects(connected(t, address).get({ askId: "que_1" }), {
    code: "rate_limited",
    retryAfter: 0.1,
    attempts: 1,
  })
  assert.equal(tries, 1)
})

test("a server that stays away is given up after the client's patience", LIMIT, async (t) => {
  let tries = 0
  const address = await playing(
    t,
    played(AskService.method.getAsk, () => {
      tries++
      throw AWAY
    }),
  )
  await assert.rejects(
    connected(t, address, { patience: 0.5 }).get({ askId: "que_1" }),
    (error: { attempts: number }) => {
      assert.equal(error.attempts, tries)
      return true
    },
  )
  assert.ok(tries > 1)
})

test("a pause is never shorter than the server asks for", LIMIT, async (t) => {
  const times: number[] = []
  const address = await playing(
    t,
    played(AskService.method.getAsk, () => {
      if (times.push(performance.now()) === 1) throw new Refusal(status.UNAVAILABLE, "UNAVAILABLE", {}, 0.5)
      return { ask: { id: "que_1" } }
    }),
  )
  await connected(t, address).get({ askId: "que_1" })
  assert.ok(times[1]! - times[0]! >= 500, String(times))
})

test("a rejection whose reply was lost is the caller's own", LIMIT, async (t) => {
  let tries = 0
  const won = { status: "rejected", resolved_by: "key:me" }
  const address = await playing(
    t,
    played(AskService.method.rejectAsk, () => {
      throw ++tries === 1 ? AWAY : new Refusal(status.FAILED_PRECONDITION, "ASK_ALREADY_RESOLVED", won)
    }),
    played(KeyService.method.whoAmI, () => ({ principal: "key:me" })),
    played(AskService.method.getAsk, ({ askId }) => ({ ask: { id: askId, status: AskStatus.REJECTED } })),
  )
  const client = connected(t, address)
  assert.equal((await client.reject({ askId: "que_1" })).status, AskStatus.REJECTED)
  await assert.rejects(client.reject({ askId: "que_1" }), { code: "ask_already_resolved", attempts: 1 })
})

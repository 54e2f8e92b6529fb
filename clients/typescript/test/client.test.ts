// The client against a real server.
import assert from "node:assert/strict"
import { execFileSync } from "node:child_process"
import { randomUUID } from "node:crypto"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { after, before, test, type TestContext } from "node:test"
import { answersOf, AskStatus, Client, RequestError, type ChoiceQuestion } from "../src/index.js"
import { connected, RealServer } from "./server.js"

const LIMIT = { timeout: 60_000 }

const QUESTION: ChoiceQuestion = {
  type: "choice",
  prompt: [
    { type: "text", text: "Publish?" },
    { type: "json", value: { build: [7, null] } },
  ],
  options: [
    { id: "yes", label: "Yes", value: { go: true } },
    { id: "no", label: "No", value: null },
  ],
  allowCustom: true,
}

let server: RealServer
before(async () => {
  server = new RealServer()
  await server.start()
})
after(() => server.remove())

/** A client of the shared server with a workspace of its own. */
function fresh(t: TestContext): Client {
  return connected(t, server.address, { key: server.key, workspace: randomUUID() })
}

async function code(call: Promise<unknown>): Promise<string> {
  const error = await call.then(
    () => undefined,
    (error: unknown) => error,
  )
  assert.ok(error instanceof RequestError, String(error))
  return error.code
}

test("questions and answers are the contract's JSON", LIMIT, async (t) => {
  const client = fresh(t)
  const ask = await client.ask({ sessionId: "s", questions: ["Which port?", QUESTION], expiresIn: 3600 })
  assert.equal(ask.expiresAt!.seconds - ask.createdAt!.seconds, 3600n)
  const receipt = await client.answer({ askId: ask.id, answers: ["80", { selectedIds: ["yes"] }] })
  assert.equal(receipt.questions.length, 0)
  const answered = await client.wait(ask)
  assert.deepEqual(answersOf(answered), ["80", { selected: [{ id: "yes", value: { go: true } }] }])
})

test("a refusal tells its code, its field and more", LIMIT, async (t) => {
  const client = fresh(t)
  const blank = { ...QUESTION, title: " " }
  await assert.rejects(client.ask({ sessionId: "s", questions: [QUESTION, blank] }), {
    name: "RequestError",
    code: "invalid_arguments",
    field: "questions[1].title",
    attempts: 1,
  })
  const { id: askId } = await client.ask({ sessionId: "s", questions: "?" })
  await client.reject({ askId, reason: "no" })
  await assert.rejects(client.answer({ askId, answers: "late" }), (error: RequestError) => {
    assert.equal(error.code, "ask_already_resolved")
    assert.equal(error.metadata.status, "rejected")
    return true
  })
})

test("what is no Unicode text is refused before it is sent", LIMIT, async (t) => {
  const client = connected(t, "127.0.0.1:1", { patience: 0 }) // nothing is there: what is sent is unavailable
  assert.equal(await code(client.ask({ sessionId: "s", questions: "fine" })), "unavailable")
  assert.equal(await code(client.ask({ sessionId: "s", questions: "\ud800" })), "invalid_arguments")
  const label = { ...QUESTION, options: [{ id: "a", label: "\udc00", value: 1 }] }
  assert.equal(await code(client.ask({ sessionId: "s", questions: label })), "invalid_arguments")
})

test("a signal ends calls, waits and watches with its reason", LIMIT, async (t) => {
  const client = fresh(t)
  const ask = await client.ask({ sessionId: "s", questions: "?" })
  const giveUp = new AbortController()
  const { signal } = giveUp
  const watch = client.watch({ signal })
  assert.ok((await watch.next()).value.event)
  assert.ok((await watch.next()).value.synced)
  const ends = [client.wait(ask, { signal }), watch.next()].map((end) => assert.rejects(end, /enough/))
  giveUp.abort(new Error("enough"))
  await Promise.all(ends)
  await assert.rejects(client.get({ askId: ask.id }, { signal }), /enough/)
  await assert.rejects(client.watch({ signal }).next(), /enough/)
  assert.equal((await client.get({ askId: ask.id })).status, AskStatus.PENDING)
})

test("a signal ends the pauses between attempts too", LIMIT, async (t) => {
  const client = connected(t, "127.0.0.1:1", { patience: 1000, timeout: 1000 })
  await assert.rejects(client.whoAmI({ signal: AbortSignal.timeout(50) }), { name: "TimeoutError" })
})

test("loops over lists and watches can be left", LIMIT, async (t) => {
  const client = fresh(t)
  for (const sessionId of ["a", "b", "b"]) await client.ask({ sessionId, questions: "?" })
  const found = []
  for await (const ask of client.list({ sessionId: "b" })) found.push(ask.createdRevision)
  assert.deepEqual(found, [2n, 3n])
  for await (const ask of client.list()) {
    assert.equal(ask.createdRevision, 1n)
    break
  }
  for await (const { event } of client.watch({ afterRevision: 1n })) {
    assert.equal(event!.revision, 2n)
    break
  }
})

test("an item's revision resumes another watch after it", LIMIT, async (t) => {
  const client = fresh(t)
  await client.ask({ sessionId: "s", questions: "?" })
  const items = []
  for await (const item of client.watch()) {
    items.push(item)
    if (item.synced) break
  }
  assert.deepEqual(
    items.map(({ revision }) => revision),
    [undefined, 1n],
  )
  await client.ask({ sessionId: "s", questions: "?" })
  const resumed = client.watch({ afterRevision: items.at(-1)!.revision })
  assert.equal((await resumed.next()).value.event!.revision, 2n)
  await resumed.return(undefined as never)
})

test("a server that proves itself is talked to over TLS, and no other", LIMIT, async (t) => {
  const server = new RealServer()
  const [cert, key] = ["cert.pem", "key.pem"].map((name) => join(server.folder, name)) as [string, string]
  const subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
  execFileSync(
    "openssl",
    [
      "req",
      "-x509",
      "-newkey",
      "ec",
      "-pkeyopt",
      "ec_paramgen_curve:prime256v1",
      "-nodes",
      "-keyout",
      key,
      "-out",
      cert,
      ...subject,
    ],
    { stdio: "ignore" },
  )
  t.after(() => server.remove())
  await server.start("--tls-cert", cert, "--tls-key", key)
  const address = server.address.replace("127.0.0.1", "localhost")
  const client = connected(t, address, { key: server.key, tls: { ca: readFileSync(cert) } })
  assert.match((await client.whoAmI()).principal, /^key:/)
  const stranger = connected(t, address, { key: server.key, tls: true, patience: 0 })
  assert.equal(await code(stranger.whoAmI()), "unavailable")
})

test("a closed client says so", LIMIT, async () => {
  const client = new Client("127.0.0.1:1")
  client.close()
  await assert.rejects(client.whoAmI())
})

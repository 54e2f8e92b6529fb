// Lists, replies, rejects and listens with the published client. Usage: node client.mjs URL CREDENTIAL
// Says on standard output what it gets, one JSON value a line.
import { createOpencodeClient } from "@opencode-ai/sdk/v2/client"

const [baseUrl, credential] = process.argv.slice(2)
const headers = { Authorization: "Basic " + Buffer.from("opencode:" + credential).toString("base64") }
const client = createOpencodeClient({ baseUrl, headers, directory: "/somewhere/ü" })
const say = (name, value) => console.log(JSON.stringify([name, value]))
const outcome = ({ data, error, response }) => ({ status: response.status, data, error })

const abort = new AbortController()
const { stream } = await client.event.subscribe({}, { signal: abort.signal })
let rejected = 0
for await (const event of stream) {
  say("event", event)
  if (event.type === "question.asked" && event.properties.questions[0].header === "last") await act()
  if (event.type === "question.rejected" && ++rejected === 2) break
}
abort.abort()

async function act() {
  const { data: requests } = await client.question.list()
  say("list", requests)
  const [first, second] = requests.map((request) => request.id)
  say("bad input", outcome(await client.question.reply({ requestID: first, answers: [[]] })))
  say("reply", outcome(await client.question.reply({ requestID: first, answers: [["Yes"]] })))
  say("reply again", outcome(await client.question.reply({ requestID: first, answers: [["Yes"]] })))
  say("reject", outcome(await client.question.reject({ requestID: second })))
  say("unknown", outcome(await client.question.reject({ requestID: "que_unknown" })))
  const thrown = await client.question.reject({ requestID: second }, { throwOnError: true }).catch((error) => error)
  say("thrown", { message: thrown.message, isError: thrown instanceof Error, status: thrown.cause.status })
}

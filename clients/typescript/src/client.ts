// The client of one askd server.
import { randomUUID } from "node:crypto"
import type { DescMessage, DescMethodUnary, MessageInitShape, MessageShape } from "@bufbuild/protobuf"
import type { Duration } from "@bufbuild/protobuf/wkt"
import { Connection, type CallOptions, type ConnectionOptions } from "./connection.js"
import * as content from "./content.js"
import { RequestError } from "./errors.js"
import { AskStatus, type AskState, type ToolCallSchema } from "./gen/askd/v1/ask_pb.js"
import { AskService, type ConsultAskResponse, type ListAsksResponse } from "./gen/askd/v1/ask_service_pb.js"
import { KeyService, type WhoAmIResponse } from "./gen/askd/v1/key_service_pb.js"
import { SessionService, type EndTurnResponse, type TurnOutcome } from "./gen/askd/v1/session_service_pb.js"
import { Watch, type WatchItem } from "./watch.js"

const CONSULT_TIMEOUT = 150 // seconds: a provider's own timeout, its default twice over, lies within
const WAIT_ROUND = 60 // seconds of one WaitAsk call of a longer wait
const WAIT_GRACE = 5 // seconds more than its round that a WaitAsk call may take
const PAGE = 100 // asks

export interface ClientOptions extends ConnectionOptions {
  /** Named in every call; absent or "": left to the server (CONTRACT section 6). */
  workspace?: string
}

/** Which asks: those of a session, of a turn, in one of some states. What is absent is no condition. */
export interface Filter {
  sessionId?: string
  turnId?: string
  statuses?: readonly AskStatus[]
}

export interface AskRequest {
  sessionId: string
  turnId?: string
  /** Asked together and answered together. */
  questions: content.Question | readonly content.Question[]
  /** Makes asking safe to repeat; absent or "": one is made. */
  requestId?: string
  tool?: MessageInitShape<typeof ToolCallSchema> | undefined
  /** Seconds, 1 to 365 days. */
  expiresIn?: number | Duration | undefined
}

export interface AnswerRequest {
  askId: string
  /** One submission for each question. */
  answers: content.Submission | readonly content.Submission[]
  /** Makes answering safe to repeat; absent or "": one is made. */
  answerId?: string
  sessionId?: string
  turnId?: string
}

export interface WatchRequest extends Filter {
  /** Every event after this revision, instead of what is pending first. */
  afterRevision?: bigint | undefined
  signal?: AbortSignal
}

export interface ConsultRequest {
  askId: string
  providerId: string
  modelId: string
  note?: string
  /** Absent: all of the ask's questions. */
  questionIndex?: number | undefined
  system?: string
}

/**
 * A client of one askd server, over one connection.
 *
 *     const client = new Client("127.0.0.1:50051", { key })
 *     const ask = await client.wait(await client.ask({ sessionId: "deploy", questions: "Which port?" }))
 *     console.log(answersOf(ask))
 *     client.close()
 *
 * Every method throws RequestError with the contract's `code`, and takes a `signal` to give up by.
 */
export class Client {
  readonly #connection: Connection
  readonly #workspaceId: string

  /** `address` is HOST:PORT or any name that gRPC resolves. Opens nothing yet. */
  constructor(
    readonly address: string,
    { workspace = "", ...options }: ClientOptions = {},
  ) {
    this.#connection = new Connection(address, options)
    this.#workspaceId = workspace
  }

  /** Close the connection; what is still under way fails. */
  close(): void {
    this.#connection.close()
  }

  #call<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    fields: object,
    options?: CallOptions,
  ): Promise<MessageShape<O>> {
    const request = { ...fields, $typeName: undefined, workspaceId: this.#workspaceId }
    return this.#connection.call(method, request as unknown as MessageInitShape<I>, options)
  }

  /** Ask one question or several together; returns the stored ask (CONTRACT section 2). */
  async ask({ questions, requestId, expiresIn, ...rest }: AskRequest, options?: CallOptions): Promise<AskState> {
    const request = {
      ...rest,
      questions: content.questions(questions),
      requestId: requestId || randomUUID(),
      ...(expiresIn !== undefined && { expiresIn: content.span(expiresIn) }),
    }
    return (await this.#call(AskService.method.ask, request, options)).ask!
  }

  /**
   * Wait until an ask, named by its id or as it was last seen, is resolved, at most `timeout` seconds (absent: without
   * end); returns it, resolved or still pending. Outlives restarts of the server.
   */
  async wait(ask: string | AskState, { timeout = Infinity, signal }: CallOptions = {}): Promise<AskState> {
    const until = performance.now() / 1000 + timeout
    let state = typeof ask === "string" ? await this.get({ askId: ask }, { signal }) : ask
    while (state.status === AskStatus.PENDING) {
      const left = Math.min(WAIT_ROUND, until - performance.now() / 1000)
      if (left <= 0) break
      state = await this.#waitRound(state, left, signal)
    }
    return state
  }

  async #waitRound(ask: AskState, seconds: number, signal: AbortSignal | undefined): Promise<AskState> {
    const request = { askId: ask.id, timeout: content.span(seconds) }
    try {
      const options = { timeout: seconds + WAIT_GRACE, patience: seconds, signal }
      return (await this.#call(AskService.method.waitAsk, request, options)).ask!
    } catch (error) {
      if (seconds < WAIT_ROUND || !isPassing(error)) throw error
      return ask
    }
  }

  /** One ask; with a session or a turn only where it is of them. */
  async get(request: { askId: string; sessionId?: string; turnId?: string }, options?: CallOptions): Promise<AskState> {
    return (await this.#call(AskService.method.getAsk, request, options)).ask!
  }

  /** One page of asks in creation order, and `nextCursor` for the next or "". `limit` is 1 to 100, absent or 0: 50. */
  listPage(
    request: Filter & { limit?: number; cursor?: string } = {},
    options?: CallOptions,
  ): Promise<ListAsksResponse> {
    return this.#call(AskService.method.listAsks, request, options)
  }

  /** Asks in creation order, at most `limit` (absent: all), read page by page while the loop goes on. */
  async *list(
    { limit = Infinity, ...filter }: Filter & { limit?: number } = {},
    options?: CallOptions,
  ): AsyncGenerator<AskState> {
    for (let left = limit, cursor = ""; left > 0;) {
      const page = await this.listPage({ ...filter, cursor, limit: Math.min(PAGE, left) }, options)
      yield* page.asks
      if (!page.nextCursor) return
      left -= page.asks.length
      cursor = page.nextCursor
    }
  }

  /** Answer an ask; returns the receipt: the ask without its questions (CONTRACT section 3). */
  async answer({ answers, answerId, ...rest }: AnswerRequest, options?: CallOptions): Promise<AskState> {
    const request = { ...rest, answers: content.submissions(answers), answerId: answerId || randomUUID() }
    return (await this.#call(AskService.method.answerAsk, request, options)).ask!
  }

  /** Refuse an ask for good. */
  async reject(request: { askId: string; reason?: string }, options?: CallOptions): Promise<AskState> {
    const rejecting = this.#call(AskService.method.rejectAsk, request, options)
    return this.#resolved(rejecting, request.askId, "rejected")
  }

  /** Take an ask back. */
  async cancel(request: { askId: string }, options?: CallOptions): Promise<AskState> {
    return this.#resolved(this.#call(AskService.method.cancelAsk, request, options), request.askId, "cancelled")
  }

  /** The resolved ask; also where an earlier attempt of this very call resolved it and only its reply was lost. */
  async #resolved(call: Promise<{ ask?: AskState | undefined }>, askId: string, status: string): Promise<AskState> {
    try {
      return (await call).ask!
    } catch (error) {
      const lost = error instanceof RequestError && error.attempts > 1 && error.code === "ask_already_resolved"
      if (!lost || error.metadata.status !== status) throw error
      if (error.metadata.resolved_by !== (await this.whoAmI()).principal) throw error
      return this.get({ askId })
    }
  }

  /** Ask another model how a pending ask might be answered (CONTRACT section 8); `submissions` can be given to answer. */
  consult(request: ConsultRequest, options: CallOptions = {}): Promise<ConsultAskResponse> {
    return this.#call(AskService.method.consultAsk, request, { timeout: CONSULT_TIMEOUT, ...options })
  }

  /**
   * Every event once and in order, without end: first what is pending, or with `afterRevision` everything after that
   * revision, then an item with `synced`, then what happens. Reconnects and resumes by itself while the server is
   * unavailable; the first time for the client's `patience` only. Leave the loop or use `signal` to end it.
   */
  watch(request: WatchRequest = {}): AsyncGenerator<WatchItem, never, undefined> {
    const { sessionId = "", turnId = "", statuses = [], afterRevision, signal } = request
    const from = { workspaceId: this.#workspaceId, sessionId, turnId, statuses: [...statuses], afterRevision }
    return new Watch(this.#connection, from, (askId) => this.get({ askId }), signal).items()
  }

  /** Check a question as asking it alone would. */
  async validate(question: content.Question, options?: CallOptions): Promise<void> {
    const request = { question: content.question(question) }
    await this.#connection.call(AskService.method.validateQuestion, request, options)
  }

  /** Declare a session, which is needed only for one that works for another, its parent: such a session cannot ask. */
  async openSession(request: { sessionId: string; parentSessionId?: string }, options?: CallOptions): Promise<void> {
    await this.#call(SessionService.method.openSession, request, options)
  }

  /** Refuse further asks in a session and cancel its pending ones. */
  async endSession(request: { sessionId: string }, options?: CallOptions): Promise<void> {
    await this.#call(SessionService.method.endSession, request, options)
  }

  /** Refuse further asks in a turn and cancel its pending ones; returns the outcome that holds (CONTRACT section 4). */
  endTurn(
    request: { sessionId: string; turnId: string; outcome: TurnOutcome },
    options?: CallOptions,
  ): Promise<EndTurnResponse> {
    return this.#call(SessionService.method.endTurn, request, options)
  }

  /** The principal of this client's credential, "user:ID" or "key:ID", and its grants. */
  whoAmI(options?: CallOptions): Promise<WhoAmIResponse> {
    return this.#connection.call(KeyService.method.whoAmI, {}, options)
  }
}

function isPassing(error: unknown): boolean {
  return error instanceof RequestError && ["unavailable", "deadline_exceeded"].includes(error.code)
}

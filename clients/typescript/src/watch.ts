// A watch that reconnects and resumes by itself (CONTRACT section 5, Watching).
import { create, type MessageInitShape } from "@bufbuild/protobuf"
import type { Connection } from "./connection.js"
import { RequestError } from "./errors.js"
import { AskEventSchema, AskEventType, AskStatus, type AskEvent, type AskState } from "./gen/askd/v1/ask_pb.js"
import {
  AskService,
  WatchAsksRequestSchema,
  type WatchAsksRequest,
  type WatchAsksResponse,
} from "./gen/askd/v1/ask_service_pb.js"
import { Retries } from "./retries.js"

const EVENT_OF_STATUS: Partial<Record<AskStatus, AskEventType>> = {
  [AskStatus.ANSWERED]: AskEventType.ANSWERED,
  [AskStatus.REJECTED]: AskEventType.REJECTED,
  [AskStatus.CANCELLED]: AskEventType.CANCELLED,
}

/** One thing that a watch tells: an event, that all that was past has been told (`synced`, once), or neither: a heartbeat. */
export interface WatchItem {
  event?: AskEvent
  synced: boolean
  /** Where to resume after having taken the item, as another watch's `afterRevision`. Unset until a snapshot is whole,
   * since a part of one cannot be resumed. */
  revision: bigint | undefined
}

/**
 * The state of one watch: what it has told, and where it resumes.
 *
 * An event is told once. Where the connection is lost during the first snapshot, the next snapshot tells only what the one
 * before did not, and what was told as pending and has been resolved meanwhile is told as the event it missed.
 */
export class Watch {
  readonly #request: WatchAsksRequest
  #synced = false
  // Of a snapshot that is not whole: created revision and id of the asks told, and those not met again since.
  #told = new Map<bigint, string>()
  #missed = new Map<bigint, string>()

  constructor(
    private readonly connection: Connection,
    request: MessageInitShape<typeof WatchAsksRequestSchema>,
    private readonly get: (askId: string) => Promise<AskState>,
    private readonly signal: AbortSignal | undefined,
  ) {
    this.#request = create(WatchAsksRequestSchema, request)
  }

  /** Everything from the first connection on, without end. */
  async *items(): AsyncGenerator<WatchItem, never, undefined> {
    const retries = new Retries(this.connection.patience, this.signal)
    for (;;) {
      this.#missed = new Map(this.#told)
      let failure = new RequestError("unavailable", "the server ended the watch")
      try {
        for await (const response of this.connection.stream(AskService.method.watchAsks, this.#request, this.signal)) {
          retries.succeed()
          for (const event of this.#new(response)) yield { event, synced: false, revision: this.#request.afterRevision }
          yield* await this.#progress(response)
        }
      } catch (error) {
        if (!(error instanceof RequestError)) throw error
        failure = error
      }
      await retries.pause(failure)
    }
  }

  *#new(response: WatchAsksResponse): Generator<AskEvent> {
    for (const event of response.events) {
      if (event.type === AskEventType.PENDING) {
        if (this.#missed.delete(event.revision)) continue
        this.#told.set(event.revision, event.ask!.id)
        yield event
      } else if (event.revision > (this.#request.afterRevision ?? 0n)) {
        this.#request.afterRevision = event.revision
        yield event
      }
    }
  }

  /** What a response tells beside its events; advances the place to resume. */
  async #progress(response: WatchAsksResponse): Promise<WatchItem[]> {
    const before = this.#request.afterRevision
    const { revision } = response
    if (revision === undefined) return response.events.length ? [] : [{ synced: false, revision: before }]
    const items = await this.#resolvedMeanwhile()
    this.#told.clear()
    this.#request.afterRevision = revision
    if (response.synced && !this.#synced) {
      this.#synced = true
      return [...items, { synced: true, revision }]
    }
    return response.events.length && before === revision ? items : [...items, { synced: false, revision }]
  }

  async #resolvedMeanwhile(): Promise<WatchItem[]> {
    const asks = await Promise.all([...this.#missed.values()].map(this.get))
    this.#missed.clear()
    return asks
      .filter((ask) => this.#request.statuses.length === 0 || this.#request.statuses.includes(ask.status))
      .sort((one, other) => Number(one.resolvedRevision! - other.resolvedRevision!))
      .map((ask) => ({ event: missedEvent(ask), synced: false, revision: undefined }))
  }
}

function missedEvent(ask: AskState): AskEvent {
  return create(AskEventSchema, { type: EVENT_OF_STATUS[ask.status]!, revision: ask.resolvedRevision!, ask })
}

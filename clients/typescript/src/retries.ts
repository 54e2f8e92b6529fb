// When to try again: UNAVAILABLE only, after pauses that grow, until a time has passed.
import { setTimeout as sleep } from "node:timers/promises"
import type { RequestError } from "./errors.js"

const FIRST = 0.1 // seconds, about, before the first retry
const CAP = 5 // seconds at most before any retry, beyond what the server asks for

/** Decides after each failure whether and when to try again. */
export class Retries {
  #until: number
  #failures = 0

  /** `patience` is in seconds. */
  constructor(
    patience: number,
    private readonly signal: AbortSignal | undefined,
  ) {
    this.#until = performance.now() / 1000 + patience
  }

  /** From now on try again without end, from a short pause on. */
  succeed(): void {
    this.#until = Infinity
    this.#failures = 0
  }

  /** Pause before the next attempt, or throw the failure where there is to be none. */
  async pause(failure: RequestError): Promise<void> {
    const longest = Math.min(CAP, FIRST * 2 ** Math.min(this.#failures++, 10))
    // Anywhere between half and all of it, so that many clients do not return together.
    const pause = (failure.retryAfter ?? 0) + longest * (0.5 + Math.random() / 2)
    if (failure.code !== "unavailable" || performance.now() / 1000 + pause >= this.#until) throw failure
    await sleep(pause * 1000, undefined, this.signal && { signal: this.signal }).catch(() =>
      this.signal?.throwIfAborted(),
    )
  }
}

// One channel to a server: the credential, deadlines and retries.
import { isIPv4 } from "node:net"
import {
  create,
  fromBinary,
  toBinary,
  type DescMessage,
  type DescMethodServerStreaming,
  type DescMethodUnary,
  type MessageInitShape,
  type MessageShape,
} from "@bufbuild/protobuf"
import { Client as Channel, Metadata, credentials, type ChannelCredentials, type ClientOptions } from "@grpc/grpc-js"
import { fromRpc, refusing, RequestError } from "./errors.js"
import { Retries } from "./retries.js"

const CHANNEL: ClientOptions = {
  "grpc.max_receive_message_length": 4 * 1024 * 1024, // bytes: what gRPC clients take by default
  "grpc.keepalive_time_ms": 30_000,
  "grpc.keepalive_timeout_ms": 10_000,
  "grpc.keepalive_permit_without_calls": 0,
  "grpc.initial_reconnect_backoff_ms": 100,
  "grpc.max_reconnect_backoff_ms": 5_000,
}

/** Certificates and a private key, as the contents of PEM files. */
export interface Tls {
  /** The certificates to trust; absent: those that Node.js comes with. */
  ca?: string | Buffer
  /** A certificate chain and its private key, for a server that demands one. */
  cert?: string | Buffer
  key?: string | Buffer
}

export interface ConnectionOptions {
  /** The credential; absent or "": none is sent. */
  key?: string | undefined
  /** Over TLS; absent: in plain text. `true`: trusting the certificates that Node.js comes with. */
  tls?: Tls | true
  /** Seconds that a call may take in all, retries included; 30 where absent. */
  timeout?: number
  /** Seconds of these during which a call is tried again while the server is unavailable; all of them where absent. */
  patience?: number
  /** More options of the channel, such as "grpc.service_config"; see @grpc/grpc-js. */
  channel?: ClientOptions
}

export interface CallOptions {
  /** Ends the call: it throws the signal's reason. */
  signal?: AbortSignal | undefined
  /** Seconds, instead of the client's. */
  timeout?: number
  patience?: number
}

type Parse = (bytes: Buffer) => unknown

/** An open channel with a credential. */
export class Connection {
  readonly timeout: number
  readonly patience: number
  readonly #channel: Channel
  readonly #metadata = new Metadata()

  constructor(address: string, options: ConnectionOptions) {
    this.timeout = options.timeout ?? 30
    this.patience = options.patience ?? this.timeout
    if (options.key) this.#metadata.set("authorization", `Bearer ${options.key}`)
    const proxy = isLoopback(address) ? { "grpc.enable_http_proxy": 0 } : {} // a proxy cannot reach this machine
    this.#channel = new Channel(address, trust(options.tls), { ...CHANNEL, ...proxy, ...options.channel })
  }

  close(): void {
    this.#channel.close()
  }

  /** One call, tried again while the server is unavailable. Throws RequestError. */
  async call<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: MessageInitShape<I>,
    options: CallOptions = {},
  ): Promise<MessageShape<O>> {
    const bytes = encode(method.input, request)
    const deadline = Date.now() + (options.timeout ?? this.timeout) * 1000
    const retries = new Retries(options.patience ?? this.patience, options.signal)
    for (let attempt = 1; ; attempt++) {
      try {
        return fromBinary(method.output, await this.#once(method, bytes, deadline, options.signal))
      } catch (error) {
        if (!(error instanceof RequestError)) throw error
        error.attempts = attempt
        await retries.pause(error)
      }
    }
  }

  #once(method: DescMethodUnary, bytes: Buffer, deadline: number, signal: AbortSignal | undefined): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted()
      const call = this.#channel.makeUnaryRequest(
        path(method),
        same,
        same,
        bytes,
        this.#metadata,
        { deadline },
        (error, response) => {
          signal?.removeEventListener("abort", cancel)
          if (signal?.aborted) reject(signal.reason as Error)
          else if (error) reject(fromRpc(error))
          else resolve(response!)
        },
      )
      const cancel = (): void => call.cancel()
      signal?.addEventListener("abort", cancel)
    })
  }

  /** One stream, until it ends or the loop over it is left. Throws RequestError. */
  async *stream<I extends DescMessage, O extends DescMessage>(
    method: DescMethodServerStreaming<I, O>,
    request: MessageInitShape<I>,
    signal?: AbortSignal,
  ): AsyncGenerator<MessageShape<O>, void, undefined> {
    signal?.throwIfAborted()
    const parse: Parse = (bytes) => fromBinary(method.output, bytes)
    const call = this.#channel.makeServerStreamRequest(
      path(method),
      same,
      parse,
      encode(method.input, request),
      this.#metadata,
    )
    const cancel = (): void => call.cancel()
    signal?.addEventListener("abort", cancel)
    try {
      for await (const response of call) yield response as MessageShape<O>
    } catch (error) {
      signal?.throwIfAborted()
      throw fromRpc(error as Parameters<typeof fromRpc>[0])
    } finally {
      signal?.removeEventListener("abort", cancel)
      call.cancel()
    }
  }
}

function path(method: DescMethodUnary | DescMethodServerStreaming): string {
  return `/${method.parent.typeName}/${method.name}`
}

function same(bytes: Buffer): Buffer {
  return bytes
}

/** The bytes of a request. Throws RequestError for what protobuf itself refuses: lone surrogates, numbers out of range. */
function encode<D extends DescMessage>(schema: D, message: MessageInitShape<D>): Buffer {
  return refusing("invalid_arguments", () => {
    if (!isWellFormed(message)) throw new Error("a lone surrogate is no Unicode text")
    return Buffer.from(toBinary(schema, create(schema, message)))
  })
}

// What encodes texts would put U+FFFD in the place of a lone surrogate, and send something else than was asked.
function isWellFormed(value: unknown): boolean {
  if (typeof value === "string") return value === value.toWellFormed()
  return typeof value !== "object" || value === null || Object.entries(value).flat().every(isWellFormed)
}

function trust(tls: Tls | true | undefined): ChannelCredentials {
  if (!tls) return credentials.createInsecure()
  const { ca = null, cert = null, key = null } = tls === true ? {} : tls
  return credentials.createSsl(pem(ca), pem(key), pem(cert))
}

function pem(contents: string | Buffer | null): Buffer | null {
  return contents === null ? null : Buffer.from(contents)
}

function isLoopback(address: string): boolean {
  const host = address.replace(/:\d+$/, "").replace(/^\[(.*)\]$/, "$1")
  return (
    host === "localhost" || host === "::1" || address.startsWith("unix:") || (isIPv4(host) && host.startsWith("127."))
  )
}

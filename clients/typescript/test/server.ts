// Servers for tests: a real one, and one that answers as a test says.
import { spawn, type ChildProcess } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createInterface } from "node:readline"
import type { TestContext } from "node:test"
import {
  create,
  fromBinary,
  toBinary,
  type DescMethodUnary,
  type MessageInitShape,
  type MessageShape,
} from "@bufbuild/protobuf"
import { anyPack } from "@bufbuild/protobuf/wkt"
import * as grpc from "@grpc/grpc-js"
import { Client, type ClientOptions } from "../src/index.js"
import { ErrorInfoSchema, RetryInfoSchema } from "../src/gen/google/rpc/error_details_pb.js"
import { StatusSchema } from "../src/gen/google/rpc/status_pb.js"

const PROGRAM = process.env.ASKD_BIN ?? "../../.venv/bin/askd"

/** A real `askd serve` on a new folder, at the same address however often it is started. */
export class RealServer {
  readonly folder = mkdtempSync(join(tmpdir(), "askd-"))
  address = "127.0.0.1:0"
  #process: ChildProcess | undefined

  get key(): string {
    return readFileSync(join(this.folder, "admin.key"), "utf8").trim()
  }

  async start(...options: string[]): Promise<void> {
    const args = ["serve", "--data-dir", this.folder, "--grpc", this.address, "--http", "off", ...options]
    this.#process = spawn(PROGRAM, args, { stdio: ["ignore", "pipe", "ignore"] })
    for await (const line of createInterface({ input: this.#process.stdout! })) {
      this.address = /grpc=(\S+)/.exec(line)![1]!
      return
    }
    throw new Error("the server did not become ready")
  }

  async kill(): Promise<void> {
    const process = this.#process
    if (!process || process.exitCode !== null || process.signalCode !== null) return
    process.kill("SIGKILL")
    await once(process, "exit")
  }

  /** End it and forget what it stored. */
  async remove(): Promise<void> {
    await this.kill()
    rmSync(this.folder, { recursive: true })
  }
}

/** A client that the test closes. */
export function connected(t: TestContext, address: string, options?: ClientOptions): Client {
  const client = new Client(address, options)
  t.after(() => client.close())
  return client
}

/** One method as a test plays it: what it returns, or the error it throws. */
export type Played<M extends DescMethodUnary> = (request: MessageShape<M["input"]>) => MessageInitShape<M["output"]>

/** An error as askd sends it. */
export class Refusal extends Error {
  constructor(
    readonly code: grpc.status,
    readonly reason: string,
    readonly said: Record<string, string> = {},
    readonly retryAfter?: number,
  ) {
    super(reason)
  }

  get metadata(): grpc.Metadata {
    const details = [
      anyPack(ErrorInfoSchema, create(ErrorInfoSchema, { reason: this.reason, domain: "askd", metadata: this.said })),
    ]
    if (this.retryAfter !== undefined) {
      const retryDelay = { seconds: 0n, nanos: this.retryAfter * 1e9 }
      details.push(anyPack(RetryInfoSchema, create(RetryInfoSchema, { retryDelay })))
    }
    const metadata = new grpc.Metadata()
    const status = create(StatusSchema, { code: this.code, message: this.reason, details })
    metadata.set("grpc-status-details-bin", Buffer.from(toBinary(StatusSchema, status)))
    return metadata
  }
}

/** A server that plays methods, each as its function says; returns its address. */
export async function playing(t: TestContext, ...methods: ReturnType<typeof played>[]): Promise<string> {
  const server = new grpc.Server()
  for (const { definition, handler } of methods) server.addService({ method: definition }, { method: handler })
  t.after(() => server.forceShutdown())
  const bind = (done: (error: Error | null, port: number) => void): void =>
    server.bindAsync("127.0.0.1:0", grpc.ServerCredentials.createInsecure(), done)
  return new Promise((resolve, reject) => {
    bind((error, port) => (error ? reject(error) : resolve(`127.0.0.1:${port}`)))
  })
}

const same = (bytes: Buffer): Buffer => bytes

export function played<M extends DescMethodUnary>(method: M, play: Played<M>) {
  const definition: grpc.MethodDefinition<Buffer, Buffer> = {
    path: `/${method.parent.typeName}/${method.name}`,
    requestStream: false,
    responseStream: false,
    requestSerialize: same,
    requestDeserialize: same,
    responseSerialize: same,
    responseDeserialize: same,
  }
  const handler: grpc.handleUnaryCall<Buffer, Buffer> = (call, done) => {
    try {
      const response = play(fromBinary(method.input, call.request) as MessageShape<M["input"]>)
      done(null, Buffer.from(toBinary(method.output, create(method.output, response))))
    } catch (error) {
      const { code, reason, metadata } = error as Refusal
      done({ code, details: reason, metadata })
    }
  }
  return { definition, handler }
}

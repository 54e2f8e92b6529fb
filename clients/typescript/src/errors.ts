// The one error of the client (CONTRACT section 6).
import { fromBinary, type DescMessage, type MessageShape } from "@bufbuild/protobuf"
import { anyUnpack } from "@bufbuild/protobuf/wkt"
import { status, type ServiceError } from "@grpc/grpc-js"
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "./gen/google/rpc/error_details_pb.js"
import { StatusSchema, type Status } from "./gen/google/rpc/status_pb.js"

const DOMAIN = "askd"

/**
 * A request that was refused or could not be made.
 *
 * `code` is the contract's code, such as "ask_already_resolved", or the gRPC status as a lower-case word where the server
 * gave none. The message explains and is not stable.
 */
export class RequestError extends Error {
  override readonly name = "RequestError"
  /** The path of what is wrong, such as "questions[0].title", or "". */
  field = ""
  /** What programs may need beside the code: of ask_already_resolved the winner's status, resolved_at, resolved_revision
   * and resolved_by. */
  metadata: Record<string, string> = {}
  /** The seconds after which a retry may help. */
  retryAfter: number | undefined
  /** How often the call was tried. */
  attempts = 1

  constructor(
    public code: string,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options)
  }
}

/** The error that a failed call stands for. */
export function fromRpc(error: ServiceError): RequestError {
  const failure = new RequestError(codeOf(error.code), error.details || error.message, { cause: error })
  const details = error.metadata?.get("grpc-status-details-bin")[0]
  if (Buffer.isBuffer(details)) addDetails(failure, fromBinary(StatusSchema, details))
  return failure
}

function codeOf(code: status): string {
  switch (code) {
    case status.INVALID_ARGUMENT:
      return "invalid_arguments"
    case status.CANCELLED: // what reaches a server while it stops; a caller's own cancelling is no error of the server's
      return "unavailable"
    default:
      return (status[code] ?? "unknown").toLowerCase()
  }
}

function addDetails(failure: RequestError, said: Status): void {
  const info = detail(said, ErrorInfoSchema)
  if (info?.domain === DOMAIN) {
    failure.code = info.reason.toLowerCase()
    failure.metadata = { ...info.metadata }
  }
  failure.field = detail(said, BadRequestSchema)?.fieldViolations[0]?.field ?? ""
  const delay = detail(said, RetryInfoSchema)?.retryDelay
  if (delay) failure.retryAfter = Number(delay.seconds) + delay.nanos / 1e9
}

function detail<D extends DescMessage>(said: Status, schema: D): MessageShape<D> | undefined {
  return said.details.map((packed) => anyUnpack(packed, schema)).find((found) => found !== undefined)
}

/** Turn what protobuf refuses before anything is sent into RequestError. */
export function refusing<T>(code: string, make: () => T): T {
  try {
    return make()
  } catch (error) {
    throw new RequestError(code, (error as Error).message, { cause: error })
  }
}

// The TypeScript client of askd. The messages of the contract are in "askd-client/v1".
export { Client } from "./client.js"
export type { AnswerRequest, AskRequest, ClientOptions, ConsultRequest, Filter, WatchRequest } from "./client.js"
export type { CallOptions, ConnectionOptions, Tls } from "./connection.js"
export { answersOf } from "./content.js"
export type {
  Answer,
  ChoiceAnswer,
  ChoiceQuestion,
  ChoiceSubmission,
  Option,
  Part,
  Prompt,
  Question,
  Submission,
  TextQuestion,
} from "./content.js"
export { RequestError } from "./errors.js"
export {
  AskEventType,
  AskStatus,
  CancelReason,
  Confidence,
  type AskEvent,
  type AskState,
} from "./gen/askd/v1/ask_pb.js"
export { TurnOutcome } from "./gen/askd/v1/session_service_pb.js"
export type { WatchItem } from "./watch.js"

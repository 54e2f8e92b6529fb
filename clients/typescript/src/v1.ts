// Every message and service of askd.v1, generated.
export * from "./gen/askd/v1/ask_pb.js"
export * from "./gen/askd/v1/ask_service_pb.js"
export * from "./gen/askd/v1/error_reason_pb.js"
export * from "./gen/askd/v1/key_service_pb.js"
export * from "./gen/askd/v1/session_service_pb.js"

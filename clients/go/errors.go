package askd

import (
	"context"
	"errors"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"askd.example/go/askdv1"
)

// Code says what went wrong. Codes are stable; messages are not. A Code is an error itself only so that
//
//	errors.Is(err, askd.CodeNotFound)
//
// tells whether err is an [*Error] with this code.
type Code string

// The codes of the contract.
const (
	CodeInvalidArguments       Code = "invalid_arguments"
	CodeContentKindUnsupported Code = "content_kind_unsupported"
	CodeContentLimitExceeded   Code = "content_limit_exceeded"
	CodeAnswerInvalid          Code = "answer_invalid"
	CodeProviderUnknown        Code = "provider_unknown"
	CodeUnauthenticated        Code = "unauthenticated"
	CodePermissionDenied       Code = "permission_denied"
	CodeNotFound               Code = "not_found"
	CodeAskAlreadyResolved     Code = "ask_already_resolved"
	CodeTurnEnded              Code = "turn_ended"
	CodeSessionEnded           Code = "session_ended"
	CodeSessionNotRoot         Code = "session_not_root"
	CodeOutputBudgetExceeded   Code = "output_budget_exceeded"
	CodeAnswerIDConflict       Code = "answer_id_conflict"
	CodeRequestIDConflict      Code = "request_id_conflict"
	CodeRevisionCompacted      Code = "revision_compacted"
	CodeRateLimited            Code = "rate_limited"
	CodeModelOutputInvalid     Code = "model_output_invalid"
	CodeProviderUnavailable    Code = "provider_unavailable"
	CodeUnavailable            Code = "unavailable"
	CodeDeadlineExceeded       Code = "deadline_exceeded"
)

// What no server says, but this package does.
const (
	CodeCancelled      Code = "cancelled"       // the context was cancelled, or the client closed
	CodeAskRejected    Code = "ask_rejected"    // somebody refused to answer
	CodeAskCancelled   Code = "ask_cancelled"   // the ask was cancelled; Error.Ask says why
	CodeAskExpired     Code = "ask_expired"     // nobody answered in time
	CodePayloadExpired Code = "payload_expired" // the ask was answered so long ago that the answers were erased
	CodeAsksUnjoined   Code = "asks_unjoined"   // a turn was left while asks of it were pending
)

// Error makes a code the target of errors.Is.
func (c Code) Error() string { return string(c) }

// Error is the error of every call that was refused or could not be made. errors.As finds it, errors.Is compares its
// code, and that of an ended context also is context.Canceled or context.DeadlineExceeded.
type Error struct {
	Code       Code              // one of the constants, or the word of a gRPC status that is none of askd's
	Message    string            // explains; not stable
	Field      string            // the path of what is wrong, or ""
	Metadata   map[string]string // of CodeAskAlreadyResolved the winner: see the contract's section 3
	RetryAfter time.Duration     // after which a retry may help, or 0
	Attempts   int               // how often the call was tried
	Ask        *askdv1.AskState  // the ask that ended without an answer, where one was waited for
	Unjoined   []string          // of CodeAsksUnjoined: the asks, the first 1,000

	status *status.Status
	cause  error
}

func (e *Error) Error() string { return "askd: " + string(e.Code) + ": " + e.Message }

// Is tells whether target is the error's code.
func (e *Error) Is(target error) bool { return target == error(e.Code) }

// Unwrap returns the context's error, where the context ended the call.
func (e *Error) Unwrap() error { return e.cause }

// GRPCStatus returns the status that the call ended with.
func (e *Error) GRPCStatus() *status.Status { return e.status }

// CodeOf returns the code of an [*Error], or "" of any other error.
func CodeOf(err error) Code {
	var failure *Error
	if errors.As(err, &failure) {
		return failure.Code
	}
	return ""
}

// failureOf is the error that a failed call stands for.
func (c *Client) failureOf(ctx context.Context, err error) *Error {
	failed := status.Convert(err)
	failure := &Error{Code: codeOf(failed.Code()), Message: failed.Message(), Attempts: 1, status: failed}
	for _, detail := range failed.Details() {
		failure.add(detail)
	}
	switch failed.Code() {
	case codes.DeadlineExceeded:
		failure.cause = context.DeadlineExceeded
	case codes.Canceled:
		failure.cause = ctx.Err()
		// A call that reaches a server while it stops is cancelled too, by neither this context nor Close.
		if failure.cause == nil && !c.isClosed() {
			failure.Code = CodeUnavailable
		}
	}
	return failure
}

// ended is the error of a context that has ended between two calls.
func ended(ctx context.Context, attempts int) *Error {
	status := status.FromContextError(ctx.Err())
	return &Error{
		Code: codeOf(status.Code()), Message: status.Message(), Attempts: attempts, status: status, cause: ctx.Err(),
	}
}

// codeOf is the code where the server gave none.
func codeOf(c codes.Code) Code {
	if c == codes.InvalidArgument {
		return CodeInvalidArguments
	}
	return Code(strings.ToLower(code.Code(c).String()))
}

func (e *Error) add(detail any) {
	switch detail := detail.(type) {
	case *errdetails.ErrorInfo:
		if detail.GetDomain() == "askd" {
			e.Code, e.Metadata = Code(strings.ToLower(detail.GetReason())), detail.GetMetadata()
		}
	case *errdetails.BadRequest:
		if violations := detail.GetFieldViolations(); len(violations) > 0 {
			e.Field = violations[0].GetField()
		}
	case *errdetails.RetryInfo:
		e.RetryAfter = detail.GetRetryDelay().AsDuration()
	}
}

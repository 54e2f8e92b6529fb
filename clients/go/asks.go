package askd

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"askd.example/go/askdv1"
)

const (
	waitRound      = 60 * time.Second  // of one WaitAsk call of a longer wait
	waitGrace      = 5 * time.Second   // more than its round that a WaitAsk call may take
	consultTimeout = 150 * time.Second // a provider's own timeout, its default twice over, lies within
	finishTimeout  = 5 * time.Second   // in which a cancelled program still takes its asks back and ends its turn
	largestPage    = 100
)

// Ask stores an ask and returns it. Without a RequestId one is made, so that retries are safe.
func (c *Client) Ask(ctx context.Context, request *askdv1.AskRequest) (*askdv1.AskState, error) {
	response, err := c.Asks.Ask(ctx, request)
	return response.GetAsk(), err
}

// AskAndWait stores an ask, waits until it is resolved, through restarts of the server, and returns it answered. What
// ends otherwise is an [*Error] whose Ask it is, with [CodeAskRejected], [CodeAskCancelled], [CodeAskExpired] or
// [CodePayloadExpired]. When ctx ends first, the ask is taken back.
func (c *Client) AskAndWait(ctx context.Context, request *askdv1.AskRequest) (*askdv1.AskState, error) {
	request = c.completed(request).(*askdv1.AskRequest)
	ask, err := c.Ask(ctx, request)
	if err == nil {
		ask, err = c.waitUntil(ctx, ask, time.Now().Add(forever))
	}
	if err == nil {
		return answered(ask)
	}
	if code := CodeOf(err); code == CodeCancelled || code == CodeDeadlineExceeded {
		err = errors.Join(err, c.withdraw(ctx, request))
	}
	return nil, err
}

// withdraw takes back what was asked. Asking again tells the id, which may never have arrived.
func (c *Client) withdraw(ctx context.Context, request *askdv1.AskRequest) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	ask, err := c.Ask(ctx, request)
	if err == nil {
		_, err = c.Cancel(ctx, ask.GetId())
	}
	switch CodeOf(err) {
	case CodeAskAlreadyResolved, CodeTurnEnded, CodeSessionEnded: // nothing is left to take back
		return nil
	}
	return err
}

func answered(ask *askdv1.AskState) (*askdv1.AskState, error) {
	switch {
	case ask.GetStatus() == askdv1.AskStatus_ASK_STATUS_REJECTED:
		why := fmt.Sprintf("the ask was rejected: %q", ask.GetRejectReason())
		return nil, &Error{Code: CodeAskRejected, Message: why, Ask: ask}
	case ask.GetCancelReason() == askdv1.CancelReason_CANCEL_REASON_EXPIRED:
		return nil, &Error{Code: CodeAskExpired, Message: "nobody answered in time", Ask: ask}
	case ask.GetStatus() == askdv1.AskStatus_ASK_STATUS_CANCELLED:
		why := "the ask was cancelled: " + ask.GetCancelReason().String()
		return nil, &Error{Code: CodeAskCancelled, Message: why, Ask: ask}
	case ask.GetPayloadExpired():
		return nil, &Error{Code: CodePayloadExpired, Message: "the answers have been erased", Ask: ask}
	}
	return ask, nil
}

// Wait waits until an ask is resolved and returns it. It outlives restarts of the server, and ends with ctx.
func (c *Client) Wait(ctx context.Context, askID string) (*askdv1.AskState, error) {
	return c.WaitFor(ctx, askID, forever)
}

// WaitFor waits for an ask as [Client.Wait] does, but only for a time: then it returns the ask still pending.
func (c *Client) WaitFor(ctx context.Context, askID string, timeout time.Duration) (*askdv1.AskState, error) {
	until := time.Now().Add(timeout)
	ask, err := c.Get(ctx, askID)
	if err != nil {
		return nil, err
	}
	return c.waitUntil(ctx, ask, until)
}

func (c *Client) waitUntil(ctx context.Context, ask *askdv1.AskState, until time.Time) (*askdv1.AskState, error) {
	for ask.GetStatus() == askdv1.AskStatus_ASK_STATUS_PENDING {
		left := time.Until(until)
		if left <= 0 {
			break
		}
		next, err := c.waitOnce(ctx, ask.GetId(), min(left, waitRound))
		if err == nil {
			ask = next
		} else if !isPassing(err) || min(left, timeLeft(ctx)) <= waitRound {
			return nil, err
		}
	}
	return ask, nil
}

func (c *Client) waitOnce(ctx context.Context, askID string, round time.Duration) (*askdv1.AskState, error) {
	ctx, cancel := context.WithTimeout(withPatience(ctx, round), round+waitGrace)
	defer cancel()
	response, err := c.Asks.WaitAsk(ctx, &askdv1.WaitAskRequest{AskId: askID, Timeout: durationpb.New(round)})
	return response.GetAsk(), err
}

// isPassing tells whether a long wait goes on after an error.
func isPassing(err error) bool {
	code := CodeOf(err)
	return code == CodeUnavailable || code == CodeDeadlineExceeded
}

func timeLeft(ctx context.Context) time.Duration {
	if deadline, limited := ctx.Deadline(); limited {
		return time.Until(deadline)
	}
	return forever
}

// Get returns one ask. Asks.GetAsk also checks that it is of a session or turn.
func (c *Client) Get(ctx context.Context, askID string) (*askdv1.AskState, error) {
	response, err := c.Asks.GetAsk(ctx, &askdv1.GetAskRequest{AskId: askID})
	return response.GetAsk(), err
}

// List reads asks in creation order, page by page while the loop runs. None is skipped or repeated while others are
// created and resolved. The request's Limit is the size of a page, 100 by default. An error is the last thing.
func (c *Client) List(ctx context.Context, request *askdv1.ListAsksRequest) iter.Seq2[*askdv1.AskState, error] {
	return func(yield func(*askdv1.AskState, error) bool) {
		request := proto.CloneOf(request)
		if request.Limit == 0 {
			request.Limit = largestPage
		}
		for {
			page, err := c.Asks.ListAsks(ctx, request)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, ask := range page.GetAsks() {
				if !yield(ask, nil) {
					return
				}
			}
			if request.Cursor = page.GetNextCursor(); request.Cursor == "" {
				return
			}
		}
	}
}

// Answer answers an ask with one submission for each question, and returns the receipt: the ask without its questions.
// It makes the answer id, so that retries are safe. To answer with an id of your own, use Asks.AnswerAsk.
func (c *Client) Answer(
	ctx context.Context, askID string, answers ...*askdv1.AnswerSubmission,
) (*askdv1.AskState, error) {
	response, err := c.Asks.AnswerAsk(ctx, &askdv1.AnswerAskRequest{AskId: askID, Answers: answers})
	return response.GetAsk(), err
}

// Reject refuses an ask for good; reason, which may be "", is for the asker to read.
func (c *Client) Reject(ctx context.Context, askID, reason string) (*askdv1.AskState, error) {
	response, err := c.Asks.RejectAsk(ctx, &askdv1.RejectAskRequest{AskId: askID, Reason: reason})
	if err != nil {
		return c.wonBefore(ctx, err, askID, "rejected")
	}
	return response.GetAsk(), nil
}

// Cancel takes an ask back.
func (c *Client) Cancel(ctx context.Context, askID string) (*askdv1.AskState, error) {
	response, err := c.Asks.CancelAsk(ctx, &askdv1.CancelAskRequest{AskId: askID})
	if err != nil {
		return c.wonBefore(ctx, err, askID, "cancelled")
	}
	return response.GetAsk(), nil
}

// wonBefore returns the ask where an earlier attempt of this very call resolved it and only its reply was lost.
func (c *Client) wonBefore(ctx context.Context, err error, askID, status string) (*askdv1.AskState, error) {
	var failure *Error
	retried := errors.As(err, &failure) && failure.Attempts > 1 && failure.Code == CodeAskAlreadyResolved
	if !retried || failure.Metadata["status"] != status {
		return nil, err
	}
	caller, failed := c.Keys.WhoAmI(ctx, &askdv1.WhoAmIRequest{})
	if failed != nil || failure.Metadata["resolved_by"] != caller.GetPrincipal() {
		return nil, err
	}
	return c.Get(ctx, askID)
}

// Consult asks another model how a pending ask might be answered. The Submissions of the response may be given to
// [Client.Answer] as they are. It takes at most 150 s.
func (c *Client) Consult(ctx context.Context, request *askdv1.ConsultAskRequest) (*askdv1.ConsultAskResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, consultTimeout)
	defer cancel()
	return c.Asks.ConsultAsk(ctx, request)
}

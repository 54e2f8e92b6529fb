package askd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"askd.example/go/askdv1"
)

// OpenSession declares a session, which is needed only for one that works for another, its parent: such a session
// cannot ask.
func (c *Client) OpenSession(ctx context.Context, session, parent string) error {
	_, err := c.Sessions.OpenSession(ctx, &askdv1.OpenSessionRequest{SessionId: session, ParentSessionId: parent})
	return err
}

// EndSession refuses further asks in a session and cancels its pending ones. Ending it again changes nothing.
func (c *Client) EndSession(ctx context.Context, session string) error {
	_, err := c.Sessions.EndSession(ctx, &askdv1.EndSessionRequest{SessionId: session})
	return err
}

// EndTurn refuses further asks in a turn and cancels its pending ones. The response has the outcome that holds: the
// first one given, or failed where asks were pending when the turn was to be completed.
func (c *Client) EndTurn(
	ctx context.Context, session, turn string, outcome askdv1.TurnOutcome,
) (*askdv1.EndTurnResponse, error) {
	request := &askdv1.EndTurnRequest{SessionId: session, TurnId: turn, Outcome: outcome}
	return c.Sessions.EndTurn(ctx, request)
}

// Turn is a turn of a session, which [Client.RunTurn] runs. It is safe for concurrent use.
type Turn struct {
	Session, ID string

	client *Client
}

// Ask asks questions together and waits for their answers, as [Client.AskAndWait] does.
func (t *Turn) Ask(ctx context.Context, questions ...*askdv1.Question) (*askdv1.AskState, error) {
	request := &askdv1.AskRequest{SessionId: t.Session, TurnId: t.ID, Questions: questions}
	return t.client.AskAndWait(ctx, request)
}

// RunTurn runs work as a turn of a session; without an id one is made. The turn ends with work: completed where it
// returns nil, interrupted where it returns an error or panics, which cancels what it left pending. Where asks are
// still pending when a turn is to be completed it has failed instead, and the error has [CodeAsksUnjoined].
func (c *Client) RunTurn(ctx context.Context, session, turn string, work func(*Turn) error) (err error) {
	if turn == "" {
		turn = rand.Text()
	}
	outcome := askdv1.TurnOutcome_TURN_OUTCOME_INTERRUPTED
	defer func() { err = errors.Join(err, c.finishTurn(ctx, session, turn, outcome)) }()
	if err = work(&Turn{Session: session, ID: turn, client: c}); err == nil {
		outcome = askdv1.TurnOutcome_TURN_OUTCOME_COMPLETED
	}
	return err
}

// finishTurn ends a turn even where ctx has ended.
func (c *Client) finishTurn(ctx context.Context, session, turn string, outcome askdv1.TurnOutcome) error {
	if ctx.Err() != nil {
		detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
		defer cancel()
		ctx = detached
	}
	ended, err := c.EndTurn(ctx, session, turn, outcome)
	if count := ended.GetUnjoinedCount(); count > 0 {
		why := fmt.Sprintf("%d of the turn's asks were pending at its end", count)
		return &Error{Code: CodeAsksUnjoined, Message: why, Unjoined: ended.GetUnjoinedAskIds()}
	}
	return err
}

package askd

import (
	"context"
	"math"
	"math/rand/v2"
	"time"
)

const (
	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second
	forever      = time.Duration(math.MaxInt64)
)

// retries decides after each failure whether and when to try again: only while the server is unavailable, for as long
// as the patience lasts. Pauses double up to a limit, and each is anywhere between half and all of its time, so that
// many clients do not return together.
type retries struct {
	until time.Time
	next  time.Duration
}

func retriesFor(patience time.Duration) *retries {
	return &retries{until: time.Now().Add(patience), next: firstPause}
}

// succeed tries again without end from now on, from a short pause on.
func (r *retries) succeed() { *r = *retriesFor(forever) }

// pause sleeps before the next attempt. Where there is to be none it returns the error to give up with.
func (r *retries) pause(ctx context.Context, failure *Error) error {
	pause := failure.RetryAfter + r.next/2 + rand.N(r.next/2)
	again := time.Now().Add(pause)
	deadline, limited := ctx.Deadline()
	if failure.Code != CodeUnavailable || again.After(r.until) || limited && again.After(deadline) {
		return failure
	}
	r.next = min(2*r.next, longestPause)
	select {
	case <-ctx.Done():
		return ended(ctx, failure.Attempts)
	case <-time.After(pause):
		return nil
	}
}

package askd

import (
	"cmp"
	"context"
	"errors"
	"io"
	"iter"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"askd.example/go/askdv1"
)

// An Update is one thing that a watch tells: an event, that all that was past has been told (Synced, once in a watch),
// or neither: a heartbeat.
type Update struct {
	Event *askdv1.AskEvent
	// Where to resume after having taken the update: the AfterRevision of another watch. It is nil until a snapshot is
	// whole, since a part of one cannot be resumed.
	Revision *int64
	Synced   bool
}

// Watch tells every event once and in order: first what is pending, or everything after the request's AfterRevision,
// then an update with Synced, then what happens. It reconnects and resumes by itself while the server is unavailable,
// the first time for the client's patience only. It runs until the loop is left, ctx ends or the server refuses it; the
// error is the last thing.
//
// Where the connection is lost during the first snapshot, the next snapshot tells only what the one before did not, and
// what was told as pending and has been resolved meanwhile is told as the event it missed.
func (c *Client) Watch(ctx context.Context, request *askdv1.WatchAsksRequest) iter.Seq2[Update, error] {
	return func(yield func(Update, error) bool) {
		w := &watch{client: c, request: proto.CloneOf(request), told: map[int64]string{}}
		if err := w.run(ctx, func(update Update) bool { return yield(update, nil) }); err != errLeft {
			yield(Update{}, err)
		}
	}
}

// errLeft is the end of a watch whose loop was left.
var errLeft = errors.New("the loop was left")

// watch is the state of one watch: what it has told, and in its request where it resumes.
type watch struct {
	client  *Client
	request *askdv1.WatchAsksRequest
	synced  bool
	// Of a snapshot that is not whole: created_revision and id of the asks told, and those not met again since.
	told, missed map[int64]string
}

func (w *watch) run(ctx context.Context, tell func(Update) bool) error {
	retries := retriesFor(w.client.patience)
	for {
		err := w.connect(ctx, func(response *askdv1.WatchAsksResponse) error {
			retries.succeed()
			return w.take(ctx, response, tell)
		})
		var failure *Error
		if !errors.As(err, &failure) {
			return err
		}
		if err := retries.pause(ctx, failure); err != nil {
			return err
		}
	}
}

// connect takes the responses of one connection until it ends.
func (w *watch) connect(ctx context.Context, take func(*askdv1.WatchAsksResponse) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w.missed = maps.Clone(w.told)
	stream, err := w.client.Asks.WatchAsks(ctx, w.request)
	for err == nil {
		var response *askdv1.WatchAsksResponse
		if response, err = stream.Recv(); err == nil {
			err = take(response)
		}
	}
	if err == io.EOF {
		return &Error{Code: CodeUnavailable, Message: "the server ended the watch", Attempts: 1}
	}
	return err
}

// take tells what a response brings and advances the place to resume.
func (w *watch) take(ctx context.Context, response *askdv1.WatchAsksResponse, tell func(Update) bool) error {
	for _, event := range response.GetEvents() {
		if w.isNew(event) && !tell(Update{Event: event, Revision: w.after()}) {
			return errLeft
		}
	}
	before := w.after()
	if response.Revision != nil {
		if err := w.tellMissed(ctx, tell); err != nil {
			return err
		}
		clear(w.told)
		w.request.AfterRevision = proto.Int64(response.GetRevision())
	}
	update := Update{Revision: w.after(), Synced: response.GetSynced() && !w.synced}
	w.synced = w.synced || update.Synced
	advanced := response.Revision != nil && (before == nil || *before != *response.Revision)
	if (update.Synced || advanced || len(response.GetEvents()) == 0) && !tell(update) {
		return errLeft
	}
	return nil
}

func (w *watch) isNew(event *askdv1.AskEvent) bool {
	revision := event.GetRevision()
	if event.GetType() == askdv1.AskEventType_ASK_EVENT_TYPE_PENDING {
		_, known := w.missed[revision]
		delete(w.missed, revision)
		w.told[revision] = event.GetAsk().GetId()
		return !known
	}
	if revision <= w.request.GetAfterRevision() {
		return false
	}
	w.request.AfterRevision = proto.Int64(revision)
	return true
}

func (w *watch) after() *int64 {
	if w.request.AfterRevision == nil {
		return nil
	}
	return proto.Int64(w.request.GetAfterRevision())
}

// tellMissed tells what an earlier part of the snapshot told as pending and this one, which is whole, no longer holds.
func (w *watch) tellMissed(ctx context.Context, tell func(Update) bool) error {
	var missed []*askdv1.AskState
	for _, askID := range w.missed {
		ask, err := w.client.Get(ctx, askID)
		if err != nil {
			return err
		}
		missed = append(missed, ask)
	}
	clear(w.missed)
	slices.SortFunc(missed, func(a, b *askdv1.AskState) int {
		return cmp.Compare(a.GetResolvedRevision(), b.GetResolvedRevision())
	})
	for _, ask := range missed {
		if w.wants(ask) && !tell(Update{Event: resolution(ask)}) {
			return errLeft
		}
	}
	return nil
}

func (w *watch) wants(ask *askdv1.AskState) bool {
	return len(w.request.GetStatuses()) == 0 || slices.Contains(w.request.GetStatuses(), ask.GetStatus())
}

// resolution is the event that resolved an ask.
func resolution(ask *askdv1.AskState) *askdv1.AskEvent {
	kind := map[askdv1.AskStatus]askdv1.AskEventType{
		askdv1.AskStatus_ASK_STATUS_ANSWERED:  askdv1.AskEventType_ASK_EVENT_TYPE_ANSWERED,
		askdv1.AskStatus_ASK_STATUS_REJECTED:  askdv1.AskEventType_ASK_EVENT_TYPE_REJECTED,
		askdv1.AskStatus_ASK_STATUS_CANCELLED: askdv1.AskEventType_ASK_EVENT_TYPE_CANCELLED,
	}[ask.GetStatus()]
	return &askdv1.AskEvent{Type: kind, Revision: ask.GetResolvedRevision(), Ask: ask}
}

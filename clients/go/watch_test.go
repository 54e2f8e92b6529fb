package askd_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"askd.example/go"
	"askd.example/go/askdv1"
)

// told is an update in short: what it tells, and its event's revision or where to resume.
func told(update askd.Update) string {
	if update.Event != nil {
		name := strings.TrimPrefix(update.Event.GetType().String(), "ASK_EVENT_TYPE_")
		return fmt.Sprint(strings.ToLower(name), " ", update.Event.GetRevision())
	}
	if update.Synced {
		return fmt.Sprint("synced ", *update.Revision)
	}
	return "heartbeat"
}

// following is a watch of which one takes what it tells, heartbeats left out, step by step.
func following(t *testing.T, watch iter.Seq2[askd.Update, error]) (take func(count int) []string) {
	next, stop := iter.Pull2(watch)
	t.Cleanup(stop)
	return func(count int) (found []string) {
		t.Helper()
		for len(found) < count {
			update, err, _ := next()
			check(t, err)
			if update.Event != nil || update.Synced {
				found = append(found, told(update))
			}
		}
		return found
	}
}

func TestAWatchTellsWhatIsPendingAndThenWhatHappens(t *testing.T) {
	ctx, s := within(t, time.Minute), shared(t)
	client := s.client(t)
	first, second := ask(ctx, t, client, "s"), ask(ctx, t, client, "s")
	_, err := client.Cancel(ctx, first.GetId())
	check(t, err)
	take := following(t, client.Watch(ctx, &askdv1.WatchAsksRequest{}))
	equal(t, take(2), []string{"pending 2", "synced 3"})
	_, err = client.Answer(ctx, second.GetId(), askd.Say("80"))
	check(t, err)
	ask(ctx, t, client, "s")
	equal(t, take(2), []string{"answered 4", "asked 5"})
}

func TestAWatchResumesAfterTheRevisionOfAnyUpdate(t *testing.T) {
	ctx, s := within(t, time.Minute), shared(t)
	client := s.client(t)
	all := []string{"asked 1", "asked 2", "asked 3"}
	for range all {
		ask(ctx, t, client, "s")
	}
	index := 0
	for update, err := range client.Watch(ctx, &askdv1.WatchAsksRequest{AfterRevision: proto.Int64(0)}) {
		check(t, err)
		if update.Synced {
			break
		}
		equal(t, told(update), all[index])
		index++
		rest := following(t, client.Watch(ctx, &askdv1.WatchAsksRequest{AfterRevision: update.Revision}))
		equal(t, rest(len(all)-index+1), append(all[index:len(all):len(all)], "synced 3"))
	}
	equal(t, index, len(all))
}

func TestAWatchEndsWithItsContextOrARefusal(t *testing.T) {
	ctx, s := within(t, time.Minute), shared(t)
	client := s.client(t)
	stopping, stop := context.WithCancel(ctx)
	defer stop()
	var ended error
	for update, err := range client.Watch(stopping, &askdv1.WatchAsksRequest{}) {
		if ended = err; update.Synced {
			stop()
		}
	}
	refused(t, ended, askd.CodeCancelled)
	equal(t, errors.Is(ended, context.Canceled), true)
	for _, err := range client.Watch(ctx, &askdv1.WatchAsksRequest{AfterRevision: proto.Int64(7)}) {
		equal(t, refused(t, err, askd.CodeInvalidArguments).Field, "after_revision")
	}
	viewer, _ := s.as(ctx, t, askdv1.Role_ROLE_VIEWER)
	for _, err := range viewer.Watch(ctx, &askdv1.WatchAsksRequest{WorkspaceId: "another"}) {
		refused(t, err, askd.CodePermissionDenied)
	}
}

func TestAWatchOfNoServerEndsWithPatience(t *testing.T) {
	client := newClient(t, "127.0.0.1:1", askd.WithPatience(200*time.Millisecond))
	for _, err := range client.Watch(within(t, time.Minute), &askdv1.WatchAsksRequest{}) {
		refused(t, err, askd.CodeUnavailable)
	}
}

func TestAWatchOutlivesKillsOfTheServerWithoutAGapOrARepeat(t *testing.T) {
	ctx, s := within(t, 5*time.Minute), serve(t)
	client := s.client(t, askd.WithTimeout(5*time.Minute))
	take := following(t, client.Watch(ctx, &askdv1.WatchAsksRequest{}))
	equal(t, take(1), []string{"synced 0"})
	const kills, each = 3, 30
	asking := make(chan error, 1)
	go func() {
		for range kills * each {
			request := &askdv1.AskRequest{SessionId: "s", Questions: []*askdv1.Question{askd.Text("?")}}
			if _, err := client.Ask(ctx, request); err != nil {
				asking <- err
				return
			}
		}
		asking <- nil
	}()
	for revision := range kills * each {
		if revision%each == each/2 {
			s.kill() // while both the watch and the asking go on
			check(t, s.start())
		}
		equal(t, take(1), []string{fmt.Sprint("asked ", revision+1)})
	}
	check(t, <-asking)
	check(t, s.drain())
	check(t, s.start())
	ask(ctx, t, client, "s")
	equal(t, take(1), []string{fmt.Sprint("asked ", kills*each+1)})
}

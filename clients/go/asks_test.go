package askd_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"askd.example/go"
	"askd.example/go/askdv1"
)

func TestAnAskIsAnsweredOnceAndTheWinnerIsNamed(t *testing.T) {
	ctx, s := within(t, time.Minute), shared(t)
	asker, _ := s.as(ctx, t, askdv1.Role_ROLE_ASKER)
	answerer, name := s.as(ctx, t, askdv1.Role_ROLE_ANSWERER)
	question := askd.Choice("Publish?", askd.Option("yes", "Publish", true), askd.Option("no", "Discard", 0.5))
	question.GetChoice().AllowNotes = true
	asked, err := asker.Ask(ctx, &askdv1.AskRequest{SessionId: "s", Questions: []*askdv1.Question{question}})
	check(t, err)
	choice := askd.Select("no")
	choice.GetChoice().Notes = proto.String("later")
	receipt, err := answerer.Answer(ctx, asked.GetId(), choice)
	check(t, err)
	equal(t, len(receipt.GetQuestions()), 0)
	answered, err := asker.Wait(ctx, asked.GetId())
	check(t, err)
	answer := answered.GetAnswers()[0].GetChoice()
	equal(t, answer.GetSelected()[0].GetValue().AsInterface(), any(0.5))
	equal(t, answer.GetNotes(), "later")
	equal(t, askd.ResolvedBy(answered), name)
	_, err = answerer.Answer(ctx, asked.GetId(), askd.Select("yes"))
	failure := refused(t, err, askd.CodeAskAlreadyResolved)
	equal(t, failure.Metadata["resolved_by"], name)
	equal(t, failure.Metadata["status"], "answered")
}

func TestOneOfManyRacingAnswersWins(t *testing.T) {
	ctx, s := within(t, time.Minute), shared(t)
	client := s.client(t)
	asked := ask(ctx, t, client, "s")
	won := make(chan string, 20)
	var racers sync.WaitGroup
	for racer := range cap(won) {
		racers.Go(func() {
			if receipt, err := client.Answer(ctx, asked.GetId(), askd.Say(strconv.Itoa(racer))); err == nil {
				won <- receipt.GetAnswers()[0].GetText()
			} else if !errors.Is(err, askd.CodeAskAlreadyResolved) {
				t.Error(err)
			}
		})
	}
	racers.Wait()
	equal(t, len(won), 1)
	stored, err := client.Get(ctx, asked.GetId())
	check(t, err)
	equal(t, stored.GetAnswers()[0].GetText(), <-won)
}

func TestRefusalsHaveTheCodeAndTheField(t *testing.T) {
	ctx, s := within(t, time.Minute), shared(t)
	client := s.client(t)
	_, err := client.Get(ctx, "que_x")
	failure := refused(t, err, askd.CodeNotFound)
	equal(t, errors.Is(fmt.Errorf("wrapped: %w", err), askd.CodeNotFound), true)
	equal(t, errors.Is(err, askd.CodeUnavailable), false)
	equal(t, status.Code(err), codes.NotFound)
	equal(t, failure.Attempts, 1)
	_, err = client.Ask(ctx, &askdv1.AskRequest{SessionId: " ", Questions: []*askdv1.Question{askd.Text("?")}})
	equal(t, refused(t, err, askd.CodeInvalidArguments).Field, "session_id")
	_, err = client.Ask(ctx, &askdv1.AskRequest{SessionId: "s", Questions: []*askdv1.Question{askd.Text("\xff")}})
	refused(t, err, askd.CodeInvalidArguments)
	_, err = newClient(t, s.address).Get(ctx, "que_x")
	refused(t, err, askd.CodeUnauthenticated)
	viewer, _ := s.as(ctx, t, askdv1.Role_ROLE_VIEWER)
	_, err = viewer.Cancel(ctx, ask(ctx, t, client, "s").GetId())
	refused(t, err, askd.CodePermissionDenied)
	_, err = client.Consult(ctx, &askdv1.ConsultAskRequest{AskId: ask(ctx, t, client, "s").GetId(), ProviderId: "p"})
	equal(t, refused(t, err, askd.CodeProviderUnknown).Field, "provider_id")
	for _, err := range client.List(ctx, &askdv1.ListAsksRequest{Cursor: "x"}) {
		refused(t, err, askd.CodeInvalidArguments)
	}
}

func TestEveryReasonOfTheContractHasItsConstant(t *testing.T) {
	source, err := os.ReadFile("errors.go")
	check(t, err)
	for number, name := range askdv1.ErrorReason_name {
		code := strings.ToLower(strings.TrimPrefix(name, "ERROR_REASON_"))
		if number != 0 && !strings.Contains(string(source), strconv.Quote(code)) {
			t.Errorf("%s has no constant", code)
		}
	}
}

func TestAListReadsEveryPageOnce(t *testing.T) {
	ctx, s := within(t, time.Minute), shared(t)
	client := s.client(t)
	var wanted, found []string
	for range 7 {
		wanted = append(wanted, ask(ctx, t, client, "s").GetId())
	}
	for asked, err := range client.List(ctx, &askdv1.ListAsksRequest{Limit: 3}) {
		check(t, err)
		found = append(found, asked.GetId())
	}
	equal(t, found, wanted)
	for asked, err := range client.List(ctx, &askdv1.ListAsksRequest{}) {
		check(t, err)
		equal(t, asked.GetId(), wanted[0])
		break
	}
}

func TestAWaitEndsWithItsTimeItsContextOrTheResolution(t *testing.T) {
	ctx, s := within(t, time.Minute), shared(t)
	client := s.client(t)
	asked := ask(ctx, t, client, "s")
	waited, err := client.WaitFor(ctx, asked.GetId(), 100*time.Millisecond)
	check(t, err)
	equal(t, waited.GetStatus(), askdv1.AskStatus_ASK_STATUS_PENDING)
	brief, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	_, err = client.Wait(brief, asked.GetId())
	refused(t, err, askd.CodeDeadlineExceeded)
	equal(t, errors.Is(err, context.DeadlineExceeded), true)
	cancelled, cancel := context.WithCancel(ctx)
	time.AfterFunc(100*time.Millisecond, cancel)
	_, err = client.Wait(cancelled, asked.GetId())
	refused(t, err, askd.CodeCancelled)
	equal(t, errors.Is(err, context.Canceled), true)
	waiting := inBackground(func() (*askdv1.AskState, error) { return client.Wait(ctx, asked.GetId()) })
	_, err = client.Reject(ctx, asked.GetId(), "no")
	check(t, err)
	equal(t, (<-waiting).GetRejectReason(), "no")
}

func TestAWaitOutlivesARestartOfTheServer(t *testing.T) {
	ctx, s := within(t, 5*time.Minute), serve(t)
	client := s.client(t)
	asked := ask(ctx, t, client, "s")
	waiting := inBackground(func() (*askdv1.AskState, error) { return client.Wait(ctx, asked.GetId()) })
	check(t, s.drain())
	check(t, s.start())
	_, err := client.Answer(ctx, asked.GetId(), askd.Say("80"))
	check(t, err)
	equal(t, (<-waiting).GetAnswers()[0].GetText(), "80")
}

// inBackground begins something; what it returns, or nil where it failed, is received.
func inBackground[T any](begin func() (T, error)) <-chan T {
	done := make(chan T, 1)
	go func() {
		value, _ := begin()
		done <- value
	}()
	return done
}

func TestATurnAsksAndWaitsAndEndsWithItsWork(t *testing.T) {
	ctx, s := within(t, time.Minute), shared(t)
	client := s.client(t)
	go answerEvery(ctx, client, askd.Say("80"))
	var turn *askd.Turn
	check(t, client.RunTurn(ctx, "s", "", func(running *askd.Turn) error {
		turn = running
		answered, err := turn.Ask(ctx, askd.Text("Which port?"))
		equal(t, answered.GetAnswers()[0].GetText(), "80")
		return err
	}))
	_, err := turn.Ask(ctx, askd.Text("And now?"))
	refused(t, err, askd.CodeTurnEnded)
}

// answerEvery answers every ask until the context ends.
func answerEvery(ctx context.Context, client *askd.Client, answer *askdv1.AnswerSubmission) {
	pending := []askdv1.AskStatus{askdv1.AskStatus_ASK_STATUS_PENDING}
	for update := range client.Watch(ctx, &askdv1.WatchAsksRequest{Statuses: pending}) {
		if update.Event != nil {
			client.Answer(ctx, update.Event.GetAsk().GetId(), answer)
		}
	}
}

func TestATurnThatLeavesAsksPendingHasFailed(t *testing.T) {
	ctx, s := within(t, time.Minute), shared(t)
	client := s.client(t)
	var left *askdv1.AskState
	err := client.RunTurn(ctx, "s", "t", func(turn *askd.Turn) (err error) {
		left, err = client.Ask(ctx, &askdv1.AskRequest{
			SessionId: "s", TurnId: turn.ID, Questions: []*askdv1.Question{askd.Text("?")},
		})
		return err
	})
	equal(t, refused(t, err, askd.CodeAsksUnjoined).Unjoined, []string{left.GetId()})
}

func TestATurnWhoseWorkFailsIsInterrupted(t *testing.T) {
	ctx, s := within(t, time.Minute), shared(t)
	client := s.client(t)
	broken := errors.New("broken")
	for name, work := range map[string]func(*askd.Turn) error{
		"error": func(*askd.Turn) error { return broken },
		"panic": func(*askd.Turn) error { panic(broken) },
	} {
		t.Run(name, func(t *testing.T) {
			var asked *askdv1.AskState
			err := recovered(func() error {
				return client.RunTurn(ctx, "s", name, func(turn *askd.Turn) (err error) {
					request := &askdv1.AskRequest{SessionId: "s", TurnId: name, Questions: []*askdv1.Question{askd.Text("?")}}
					asked, err = client.Ask(ctx, request)
					check(t, err)
					return work(turn)
				})
			})
			equal(t, errors.Is(err, broken), true)
			stored, err := client.Get(ctx, asked.GetId())
			check(t, err)
			equal(t, stored.GetCancelReason(), askdv1.CancelReason_CANCEL_REASON_INTERRUPTED)
		})
	}
}

func recovered(work func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = value.(error)
		}
	}()
	return work()
}

func TestWhatEndsWithoutAnAnswerIsAnErrorWithTheAsk(t *testing.T) {
	ctx, s := within(t, time.Minute), shared(t)
	client := s.client(t)
	for code, end := range map[askd.Code]func(askID string) error{
		askd.CodeAskRejected: func(askID string) error {
			_, err := client.Reject(ctx, askID, "no")
			return err
		},
		askd.CodeAskCancelled: func(string) error { return client.EndSession(ctx, "s-ask_cancelled") },
	} {
		t.Run(string(code), func(t *testing.T) {
			session := "s-" + string(code)
			request := &askdv1.AskRequest{SessionId: session, Questions: []*askdv1.Question{askd.Text("?")}, RequestId: session}
			asked, err := client.Ask(ctx, request)
			check(t, err)
			time.AfterFunc(50*time.Millisecond, func() { end(asked.GetId()) })
			_, err = client.AskAndWait(ctx, request)
			equal(t, refused(t, err, code).Ask.GetId(), asked.GetId())
		})
	}
}

func TestAnAskWhoseContextEndsIsTakenBack(t *testing.T) {
	ctx, s := within(t, time.Minute), shared(t)
	client := s.client(t)
	brief, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	_, err := client.AskAndWait(brief, &askdv1.AskRequest{SessionId: "s", Questions: []*askdv1.Question{askd.Text("?")}})
	equal(t, errors.Is(err, context.DeadlineExceeded), true)
	for asked, err := range client.List(ctx, &askdv1.ListAsksRequest{}) {
		check(t, err)
		equal(t, asked.GetCancelReason(), askdv1.CancelReason_CANCEL_REASON_WITHDRAWN)
	}
	refused(t, client.OpenSession(ctx, "s", "parent"), askd.CodeInvalidArguments)
	check(t, client.OpenSession(ctx, "child", "s"))
	_, err = client.Ask(ctx, &askdv1.AskRequest{SessionId: "child", Questions: []*askdv1.Question{askd.Text("?")}})
	refused(t, err, askd.CodeSessionNotRoot)
}

func TestCallsRaceWithAKillOfTheServerAndHappenOnce(t *testing.T) {
	ctx, s := within(t, 5*time.Minute), serve(t)
	client := s.client(t, askd.WithTimeout(5*time.Minute))
	const askers, each = 8, 20
	receipts := make(chan string, askers*each)
	for asker := range askers {
		go func() {
			for range each {
				asked, err := client.Ask(ctx, &askdv1.AskRequest{
					SessionId: strconv.Itoa(asker), Questions: []*askdv1.Question{askd.Text("?")},
				})
				if err == nil {
					_, err = client.Answer(ctx, asked.GetId(), askd.Say(asked.GetId()))
				}
				if err != nil {
					t.Error(err)
				}
				receipts <- asked.GetId()
			}
		}()
	}
	var answered, stored []string
	for range askers * each {
		if answered = append(answered, <-receipts); len(answered) == askers {
			s.kill()
			check(t, s.start())
		}
	}
	for asked, err := range client.List(ctx, &askdv1.ListAsksRequest{}) {
		check(t, err)
		equal(t, asked.GetAnswers()[0].GetText(), asked.GetId())
		stored = append(stored, asked.GetId())
	}
	equal(t, slices.Sorted(slices.Values(stored)), slices.Sorted(slices.Values(answered)))
}

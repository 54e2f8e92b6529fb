package askd_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"askd.example/go"
	"askd.example/go/askdv1"
)

// scripted is a server that does what a test tells it, for what no real server does on demand. Each call of a method
// takes the next step of its script: a response, an error, or of a watch several of these.
type scripted struct {
	askdv1.UnimplementedAskServiceServer
	askdv1.UnimplementedKeyServiceServer
	mutex    sync.Mutex
	steps    map[string][]any
	requests map[string][]proto.Message
}

type hang struct{}

// script starts a server and returns it with a client.
func script(t *testing.T, steps map[string][]any, options ...askd.Setting) (*scripted, *askd.Client) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	s := &scripted{steps: steps, requests: map[string][]proto.Message{}}
	running := grpc.NewServer()
	askdv1.RegisterAskServiceServer(running, s)
	askdv1.RegisterKeyServiceServer(running, s)
	go running.Serve(listener)
	t.Cleanup(running.Stop)
	return s, newClient(t, listener.Addr().String(), options...)
}

func (s *scripted) step(method string, request proto.Message) any {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.requests[method] = append(s.requests[method], request)
	if len(s.steps[method]) == 0 {
		return status.Error(codes.Aborted, "the script has no more steps of "+method)
	}
	next := s.steps[method][0]
	s.steps[method] = s.steps[method][1:]
	return next
}

func reply[Response any](ctx context.Context, s *scripted, method string, request proto.Message) (Response, error) {
	var none Response
	switch step := s.step(method, request).(type) {
	case error:
		return none, step
	case hang:
		<-ctx.Done()
		return none, ctx.Err()
	default:
		return step.(Response), nil
	}
}

func (s *scripted) Ask(ctx context.Context, r *askdv1.AskRequest) (*askdv1.AskResponse, error) {
	return reply[*askdv1.AskResponse](ctx, s, "Ask", r)
}

func (s *scripted) GetAsk(ctx context.Context, r *askdv1.GetAskRequest) (*askdv1.GetAskResponse, error) {
	return reply[*askdv1.GetAskResponse](ctx, s, "GetAsk", r)
}

func (s *scripted) WaitAsk(ctx context.Context, r *askdv1.WaitAskRequest) (*askdv1.WaitAskResponse, error) {
	return reply[*askdv1.WaitAskResponse](ctx, s, "WaitAsk", r)
}

func (s *scripted) AnswerAsk(ctx context.Context, r *askdv1.AnswerAskRequest) (*askdv1.AnswerAskResponse, error) {
	return reply[*askdv1.AnswerAskResponse](ctx, s, "AnswerAsk", r)
}

func (s *scripted) CancelAsk(ctx context.Context, r *askdv1.CancelAskRequest) (*askdv1.CancelAskResponse, error) {
	return reply[*askdv1.CancelAskResponse](ctx, s, "CancelAsk", r)
}

func (s *scripted) ConsultAsk(ctx context.Context, r *askdv1.ConsultAskRequest) (*askdv1.ConsultAskResponse, error) {
	return reply[*askdv1.ConsultAskResponse](ctx, s, "ConsultAsk", r)
}

func (s *scripted) CreateKey(ctx context.Context, r *askdv1.CreateKeyRequest) (*askdv1.CreateKeyResponse, error) {
	return reply[*askdv1.CreateKeyResponse](ctx, s, "CreateKey", r)
}

func (s *scripted) WhoAmI(ctx context.Context, r *askdv1.WhoAmIRequest) (*askdv1.WhoAmIResponse, error) {
	return reply[*askdv1.WhoAmIResponse](ctx, s, "WhoAmI", r)
}

func (s *scripted) WatchAsks(
	r *askdv1.WatchAsksRequest, stream grpc.ServerStreamingServer[askdv1.WatchAsksResponse],
) error {
	steps, _ := s.step("WatchAsks", proto.CloneOf(r)).([]any)
	for _, step := range steps {
		if err, failed := step.(error); failed {
			return err
		}
		if err := stream.Send(step.(*askdv1.WatchAsksResponse)); err != nil {
			return err
		}
	}
	<-stream.Context().Done()
	return nil
}

// failing is an error with the details that askd gives.
func failing(code codes.Code, reason string, metadata map[string]string, others ...protoadapt.MessageV1) error {
	info := &errdetails.ErrorInfo{Reason: reason, Domain: "askd", Metadata: metadata}
	detailed, err := status.New(code, "why").WithDetails(append([]protoadapt.MessageV1{info}, others...)...)
	if err != nil {
		panic(err)
	}
	return detailed.Err()
}

var unavailable = failing(codes.Unavailable, "UNAVAILABLE", nil)

func state(revision, resolved int64, is askdv1.AskStatus) *askdv1.AskState {
	ask := &askdv1.AskState{Id: "que_" + string(rune('0'+revision)), Status: is, CreatedRevision: revision}
	if resolved > 0 {
		ask.ResolvedRevision = &resolved
	}
	return ask
}

func TestARetryRepeatsTheSameIDAndWorkspace(t *testing.T) {
	s, client := script(t, map[string][]any{
		"Ask":       {unavailable, status.Error(codes.Canceled, "stopping"), &askdv1.AskResponse{}},
		"AnswerAsk": {unavailable, &askdv1.AnswerAskResponse{}},
	}, askd.WithWorkspace("w"))
	given := &askdv1.AskRequest{SessionId: "s"}
	_, err := client.Ask(within(t, time.Minute), given)
	check(t, err)
	_, err = client.Answer(within(t, time.Minute), "que_1", askd.Say("yes"))
	check(t, err)
	equal(t, given.GetRequestId()+given.GetWorkspaceId(), "")
	for method, count := range map[string]int{"Ask": 3, "AnswerAsk": 2} {
		equal(t, len(s.requests[method]), count)
		for _, request := range s.requests[method] {
			equal(t, proto.Equal(request, s.requests[method][0]), true)
		}
	}
	first := s.requests["Ask"][0].(*askdv1.AskRequest)
	equal(t, len(first.GetRequestId()) >= 26 && first.GetWorkspaceId() == "w", true)
	equal(t, len(s.requests["AnswerAsk"][0].(*askdv1.AnswerAskRequest).GetAnswerId()) >= 26, true)
}

func TestOnlyAnUnavailableServerIsTriedAgain(t *testing.T) {
	s, client := script(t, map[string][]any{
		"ConsultAsk": {failing(codes.Unavailable, "PROVIDER_UNAVAILABLE", nil)},
		"GetAsk":     {failing(codes.ResourceExhausted, "RATE_LIMITED", nil, retryIn(time.Minute))},
		"CreateKey":  {unavailable},
	})
	_, err := client.Consult(within(t, time.Minute), &askdv1.ConsultAskRequest{})
	refused(t, err, askd.CodeProviderUnavailable)
	_, err = client.Get(within(t, time.Minute), "que_1")
	equal(t, refused(t, err, askd.CodeRateLimited).RetryAfter, time.Minute)
	_, err = client.Keys.CreateKey(within(t, time.Minute), &askdv1.CreateKeyRequest{})
	refused(t, err, askd.CodeUnavailable) // a key may have been made
	for _, requests := range s.requests {
		equal(t, len(requests), 1)
	}
}

func retryIn(delay time.Duration) protoadapt.MessageV1 {
	return protoadapt.MessageV1Of(&errdetails.RetryInfo{RetryDelay: durationpb.New(delay)})
}

func TestACallEndsWithItsDeadlineOrTheClientsPatience(t *testing.T) {
	_, client := script(t, map[string][]any{"GetAsk": {hang{}, unavailable, unavailable}},
		askd.WithTimeout(200*time.Millisecond), askd.WithPatience(0))
	_, err := client.Get(t.Context(), "que_1")
	refused(t, err, askd.CodeDeadlineExceeded)
	_, err = client.Get(within(t, time.Minute), "que_1")
	equal(t, refused(t, err, askd.CodeUnavailable).Attempts, 1)
	check(t, client.Close())
	_, err = client.Get(within(t, time.Minute), "que_1")
	refused(t, err, askd.CodeCancelled)
}

func TestAServerIsNotAskedBeforeTheTimeItNamed(t *testing.T) {
	later := failing(codes.Unavailable, "UNAVAILABLE", nil, retryIn(300*time.Millisecond))
	_, client := script(t, map[string][]any{"GetAsk": {later, &askdv1.GetAskResponse{}}})
	begun := time.Now()
	_, err := client.Get(within(t, time.Minute), "que_1")
	check(t, err)
	equal(t, time.Since(begun) >= 300*time.Millisecond, true)
}

func TestACancellationWhoseReplyWasLostSucceeds(t *testing.T) {
	won := map[string]string{"status": "cancelled", "resolved_by": "key:me"}
	beaten := failing(codes.FailedPrecondition, "ASK_ALREADY_RESOLVED", won)
	gone := state(1, 2, askdv1.AskStatus_ASK_STATUS_CANCELLED)
	s, client := script(t, map[string][]any{
		"CancelAsk": {unavailable, beaten, beaten, unavailable, beaten},
		"WhoAmI":    {&askdv1.WhoAmIResponse{Principal: "key:me"}, &askdv1.WhoAmIResponse{Principal: "key:other"}},
		"GetAsk":    {&askdv1.GetAskResponse{Ask: gone}},
	})
	found, err := client.Cancel(within(t, time.Minute), "que_1")
	check(t, err)
	equal(t, found.GetStatus(), gone.GetStatus())
	for range 2 { // at the first attempt, and by another
		_, err = client.Cancel(within(t, time.Minute), "que_1")
		refused(t, err, askd.CodeAskAlreadyResolved)
	}
	equal(t, len(s.requests["WhoAmI"]), 2)
}

func TestAWaitHasThePatienceOfItsOwnTime(t *testing.T) {
	pending, answered := askdv1.AskStatus_ASK_STATUS_PENDING, askdv1.AskStatus_ASK_STATUS_ANSWERED
	_, client := script(t, map[string][]any{
		"GetAsk":  {&askdv1.GetAskResponse{Ask: state(1, 0, pending)}},
		"WaitAsk": {&askdv1.WaitAskResponse{Ask: state(1, 0, pending)}, unavailable, &askdv1.WaitAskResponse{Ask: state(1, 2, answered)}},
	}, askd.WithPatience(0))
	found, err := client.WaitFor(within(t, time.Minute), "que_1", 30*time.Second)
	check(t, err)
	equal(t, found.GetStatus(), answered)
}

func event(kind askdv1.AskEventType, revision int64) *askdv1.AskEvent {
	return &askdv1.AskEvent{Type: kind, Revision: revision, Ask: state(revision, 0, askdv1.AskStatus_ASK_STATUS_PENDING)}
}

const (
	pending = askdv1.AskEventType_ASK_EVENT_TYPE_PENDING
	asked   = askdv1.AskEventType_ASK_EVENT_TYPE_ASKED
)

func response(revision int64, synced bool, events ...*askdv1.AskEvent) *askdv1.WatchAsksResponse {
	response := &askdv1.WatchAsksResponse{Events: events, Synced: synced}
	if revision >= 0 {
		response.Revision = &revision
	}
	return response
}

func TestASnapshotThatBreaksOffIsToldOnce(t *testing.T) {
	answered := state(1, 4, askdv1.AskStatus_ASK_STATUS_ANSWERED)
	_, client := script(t, map[string][]any{
		"WatchAsks": {
			[]any{response(-1, false, event(pending, 1), event(pending, 2)), unavailable},
			[]any{response(-1, false, event(pending, 2), event(pending, 3)), response(4, true), unavailable},
			[]any{response(5, true, event(asked, 5)), response(6, false, event(asked, 6))},
		},
		"GetAsk": {&askdv1.GetAskResponse{Ask: answered}},
	})
	take := following(t, client.Watch(within(t, time.Minute), &askdv1.WatchAsksRequest{}))
	equal(t, take(5), []string{"pending 1", "pending 2", "pending 3", "answered 4", "synced 4"})
	equal(t, take(2), []string{"asked 5", "asked 6"})
}

func TestAFilterAlsoHoldsForWhatASnapshotMissed(t *testing.T) {
	answered := state(1, 2, askdv1.AskStatus_ASK_STATUS_ANSWERED)
	_, client := script(t, map[string][]any{
		"WatchAsks": {[]any{response(-1, false, event(pending, 1)), unavailable}, []any{response(2, true)}},
		"GetAsk":    {&askdv1.GetAskResponse{Ask: answered}},
	})
	only := []askdv1.AskStatus{askdv1.AskStatus_ASK_STATUS_PENDING}
	take := following(t, client.Watch(within(t, time.Minute), &askdv1.WatchAsksRequest{Statuses: only}))
	equal(t, take(2), []string{"pending 1", "synced 2"})
}

func TestAWatchResumesWhereItIsAndRepeatsNothing(t *testing.T) {
	s, client := script(t, map[string][]any{
		"WatchAsks": {
			[]any{response(7, true), response(-1, false, event(asked, 8)), unavailable},
			[]any{response(8, true), response(10, false, event(asked, 8), event(asked, 10)), unavailable},
			[]any{response(12, true), response(13, false, event(asked, 13))},
		},
	}, askd.WithPatience(0))
	take := following(t, client.Watch(within(t, time.Minute), &askdv1.WatchAsksRequest{SessionId: "s"}))
	equal(t, take(4), []string{"synced 7", "asked 8", "asked 10", "asked 13"})
	var after []int64
	for _, request := range s.requests["WatchAsks"] {
		after = append(after, request.(*askdv1.WatchAsksRequest).GetAfterRevision())
	}
	equal(t, after, []int64{0, 8, 10})
}

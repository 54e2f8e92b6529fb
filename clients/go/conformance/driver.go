package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"askd.example/go"
	"askd.example/go/askdv1"
)

// failure is an error as the suite reads it.
type failure struct {
	Code     string            `json:"code"`
	Field    string            `json:"field,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`
	Message  string            `json:"message,omitempty"`
}

func failureOf(err error) *failure {
	var refused *askd.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused):
		return &failure{Code: string(refused.Code), Field: refused.Field, Metadata: refused.Metadata, Message: refused.Message}
	default:
		return &failure{Code: "driver_failed", Message: err.Error()}
	}
}

// driver holds the clients and the watches by their names.
type driver struct {
	mutex   sync.Mutex
	clients map[string]*askd.Client
	watches map[[2]string]*watch
}

// watch is the client's watch, pulled by one command at a time, and the end of its context.
type watch struct {
	mutex  sync.Mutex
	next   func() (askd.Update, error, bool)
	leave  func()
	cancel context.CancelFunc
}

func newDriver() *driver {
	return &driver{clients: map[string]*askd.Client{}, watches: map[[2]string]*watch{}}
}

var none = json.RawMessage("{}")

func (d *driver) do(ctx context.Context, c command) (json.RawMessage, error) {
	if c.Do == "connect" {
		return none, d.connect(c)
	}
	client, err := named(d, d.clients, c.Client)
	if err != nil {
		return nil, err
	}
	switch c.Do {
	case "close":
		return none, client.Close()
	case "watch.start":
		return none, d.startWatch(ctx, client, c)
	case "watch.next", "watch.stop":
		return d.useWatch(c)
	}
	call, known := calls[c.Do]
	if !known {
		return nil, fmt.Errorf("no such command: %s", c.Do)
	}
	return call(ctx, client, c.Args)
}

func named[K comparable, V any](d *driver, values map[K]V, name K) (V, error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	value, found := values[name]
	if !found {
		return value, fmt.Errorf("nothing has the name %v", name)
	}
	return value, nil
}

func keep[K comparable, V any](d *driver, values map[K]V, name K, value V) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	values[name] = value
}

func (d *driver) connect(c command) error {
	var args struct {
		Address, Key, Workspace string
		Timeout, Patience       *float64
	}
	if err := json.Unmarshal(c.Args, &args); err != nil {
		return err
	}
	options := []askd.Setting{askd.WithKey(args.Key), askd.WithWorkspace(args.Workspace)}
	if args.Timeout != nil {
		options = append(options, askd.WithTimeout(seconds(*args.Timeout)))
	}
	if args.Patience != nil {
		options = append(options, askd.WithPatience(seconds(*args.Patience)))
	}
	client, err := askd.NewClient(args.Address, options...)
	if err == nil {
		keep(d, d.clients, c.Client, client)
	}
	return err
}

func seconds(number float64) time.Duration { return time.Duration(number * float64(time.Second)) }

type watchArgs struct {
	Watch   string
	Request json.RawMessage
}

func (d *driver) startWatch(ctx context.Context, client *askd.Client, c command) error {
	var args watchArgs
	if err := json.Unmarshal(c.Args, &args); err != nil {
		return err
	}
	request := &askdv1.WatchAsksRequest{}
	if err := protojson.Unmarshal(args.Request, request); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	next, leave := iter.Pull2(client.Watch(ctx, request))
	keep(d, d.watches, [2]string{c.Client, args.Watch}, &watch{next: next, leave: leave, cancel: cancel})
	return nil
}

func (d *driver) useWatch(c command) (json.RawMessage, error) {
	var args watchArgs
	if err := json.Unmarshal(c.Args, &args); err != nil {
		return nil, err
	}
	w, err := named(d, d.watches, [2]string{c.Client, args.Watch})
	if err != nil {
		return nil, err
	}
	if c.Do == "watch.next" {
		return w.tell()
	}
	w.stop()
	return none, nil
}

// stop ends a watch, also where a command waits for its next event.
func (w *watch) stop() {
	w.cancel()
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.leave()
}

// tell waits for the next event or for the end of what was past.
func (w *watch) tell() (json.RawMessage, error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for {
		update, err, _ := w.next()
		switch {
		case err != nil:
			return nil, err
		case update.Event != nil:
			event, err := protojson.Marshal(update.Event)
			if err != nil {
				return nil, err
			}
			return json.Marshal(map[string]json.RawMessage{"event": event})
		case update.Synced:
			return json.Marshal(map[string]any{"synced": true, "revision": strconv.FormatInt(*update.Revision, 10)})
		}
	}
}

type call func(context.Context, *askd.Client, json.RawMessage) (json.RawMessage, error)

// made is a call with a request and a response in protobuf's JSON form.
func made[Request any, Message interface {
	*Request
	proto.Message
}, Response proto.Message](do func(context.Context, *askd.Client, Message) (Response, error)) call {
	return func(ctx context.Context, client *askd.Client, args json.RawMessage) (json.RawMessage, error) {
		request := Message(new(Request))
		if err := protojson.Unmarshal(args, request); err != nil {
			return nil, err
		}
		response, err := do(ctx, client, request)
		if err != nil {
			return nil, err
		}
		return protojson.Marshal(response)
	}
}

type (
	client = *askd.Client
	state  = *askdv1.AskState
)

var calls = map[string]call{
	"ask": made(func(ctx context.Context, c client, r *askdv1.AskRequest) (state, error) { return c.Ask(ctx, r) }),
	"wait": made(func(ctx context.Context, c client, r *askdv1.WaitAskRequest) (state, error) {
		if r.Timeout == nil {
			return c.Wait(ctx, r.GetAskId())
		}
		return c.WaitFor(ctx, r.GetAskId(), r.GetTimeout().AsDuration())
	}),
	"get": made(func(ctx context.Context, c client, r *askdv1.GetAskRequest) (state, error) {
		response, err := c.Asks.GetAsk(ctx, r)
		return response.GetAsk(), err
	}),
	"list": made(func(ctx context.Context, c client, r *askdv1.ListAsksRequest) (*askdv1.ListAsksResponse, error) {
		return c.Asks.ListAsks(ctx, r)
	}),
	"listAll": listAll,
	"answer": made(func(ctx context.Context, c client, r *askdv1.AnswerAskRequest) (state, error) {
		response, err := c.Asks.AnswerAsk(ctx, r)
		return response.GetAsk(), err
	}),
	"reject": made(func(ctx context.Context, c client, r *askdv1.RejectAskRequest) (state, error) {
		return c.Reject(ctx, r.GetAskId(), r.GetReason())
	}),
	"cancel": made(func(ctx context.Context, c client, r *askdv1.CancelAskRequest) (state, error) {
		return c.Cancel(ctx, r.GetAskId())
	}),
	"consult": made(func(ctx context.Context, c client, r *askdv1.ConsultAskRequest) (*askdv1.ConsultAskResponse, error) {
		return c.Consult(ctx, r)
	}),
	"validate": made(func(ctx context.Context, c client, r *askdv1.ValidateQuestionRequest) (proto.Message, error) {
		return c.Asks.ValidateQuestion(ctx, r)
	}),
	"openSession": made(func(ctx context.Context, c client, r *askdv1.OpenSessionRequest) (proto.Message, error) {
		return &askdv1.OpenSessionResponse{}, c.OpenSession(ctx, r.GetSessionId(), r.GetParentSessionId())
	}),
	"endTurn": made(func(ctx context.Context, c client, r *askdv1.EndTurnRequest) (*askdv1.EndTurnResponse, error) {
		return c.EndTurn(ctx, r.GetSessionId(), r.GetTurnId(), r.GetOutcome())
	}),
	"endSession": made(func(ctx context.Context, c client, r *askdv1.EndSessionRequest) (proto.Message, error) {
		return &askdv1.EndSessionResponse{}, c.EndSession(ctx, r.GetSessionId())
	}),
	"whoAmI": made(func(ctx context.Context, c client, r *askdv1.WhoAmIRequest) (*askdv1.WhoAmIResponse, error) {
		return c.Keys.WhoAmI(ctx, r)
	}),
}

// listAll reads every ask, or as many as the limit says.
func listAll(ctx context.Context, c client, args json.RawMessage) (json.RawMessage, error) {
	request := &askdv1.ListAsksRequest{}
	if err := protojson.Unmarshal(args, request); err != nil {
		return nil, err
	}
	limit := int(request.GetLimit())
	request.Limit = 0
	all := []json.RawMessage{}
	for ask, err := range c.List(ctx, request) {
		if err != nil {
			return nil, err
		}
		data, err := protojson.Marshal(ask)
		if err != nil {
			return nil, err
		}
		if all = append(all, data); len(all) == limit {
			break
		}
	}
	return json.Marshal(map[string][]json.RawMessage{"asks": all})
}

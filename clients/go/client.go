package askd

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"askd.example/go/askdv1"
)

// DefaultTimeout is how long a call takes at most, retries included, where its context has no deadline.
const DefaultTimeout = 30 * time.Second

const (
	keepaliveTime    = 30 * time.Second // of silence before a ping
	keepaliveTimeout = 10 * time.Second // that its answer may take
	connectTimeout   = 10 * time.Second // of one attempt to connect
)

// Client is a client of one askd server or of several that share a database. It is safe for concurrent use, and so are
// its fields.
type Client struct {
	Asks     askdv1.AskServiceClient     // asking, answering, listing, watching
	Sessions askdv1.SessionServiceClient // sessions and turns
	Keys     askdv1.KeyServiceClient     // keys and grants

	conn      *grpc.ClientConn
	workspace string
	timeout   time.Duration
	patience  time.Duration
}

type settings struct {
	client  Client
	key     string
	tls     *tls.Config
	options []grpc.DialOption
}

// A Setting is one of those that [NewClient] takes.
type Setting func(*settings)

// WithKey sends a credential, an API key or a user's token, with every call.
func WithKey(key string) Setting { return func(s *settings) { s.key = key } }

// WithWorkspace names the workspace of every request that names none. Without it the server chooses: the one workspace
// that the credential's grants name, or "default".
func WithWorkspace(workspace string) Setting {
	return func(s *settings) { s.client.workspace = workspace }
}

// WithTimeout limits the calls whose context has no deadline, instead of [DefaultTimeout]. It does not limit watches,
// nor waiting for an answer.
func WithTimeout(timeout time.Duration) Setting {
	return func(s *settings) { s.client.timeout = timeout }
}

// WithPatience limits for how long a call is tried again while the server is unavailable; 0 tries once. Without it that
// is the timeout's time.
func WithPatience(patience time.Duration) Setting {
	return func(s *settings) { s.client.patience = patience }
}

// WithTLS encrypts the connection. The configuration's RootCAs are whom to trust (nil: the system's) and its Certificates
// what to show to a server that demands one. Without it the connection is plain text.
func WithTLS(config *tls.Config) Setting { return func(s *settings) { s.tls = config } }

// WithDialOptions passes further options to gRPC, such as a service config that balances load.
func WithDialOptions(options ...grpc.DialOption) Setting {
	return func(s *settings) { s.options = append(s.options, options...) }
}

// NewClient makes a client of the server at an address, HOST:PORT or any other target of gRPC. It connects when it is
// first used. [Client.Close] closes it.
func NewClient(address string, given ...Setting) (*Client, error) {
	s := settings{client: Client{timeout: DefaultTimeout, patience: -1}}
	for _, setting := range given {
		setting(&s)
	}
	if strings.ContainsFunc(s.key, func(r rune) bool { return r < ' ' || r > '~' }) {
		return nil, errors.New("askd: the key holds characters that no credential has")
	}
	c := &s.client
	if c.patience < 0 {
		c.patience = c.timeout
	}
	conn, err := grpc.NewClient(address, append(c.dialOptions(s.key, s.tls), s.options...)...)
	if err != nil {
		return nil, fmt.Errorf("askd: %w", err)
	}
	c.conn = conn
	c.Asks = askdv1.NewAskServiceClient(conn)
	c.Sessions = askdv1.NewSessionServiceClient(conn)
	c.Keys = askdv1.NewKeyServiceClient(conn)
	return c, nil
}

func (c *Client) dialOptions(key string, config *tls.Config) []grpc.DialOption {
	transport := insecure.NewCredentials()
	if config != nil {
		transport = credentials.NewTLS(config)
	}
	reconnect := backoff.Config{BaseDelay: firstPause, Multiplier: 2, Jitter: 0.2, MaxDelay: longestPause}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: connectTimeout}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveTime, Timeout: keepaliveTimeout}),
		grpc.WithChainUnaryInterceptor(c.callUnary),
		grpc.WithChainStreamInterceptor(c.openStream),
	}
	if key != "" {
		options = append(options, grpc.WithPerRPCCredentials(bearer(key)))
	}
	return options
}

// Close closes the connection; calls and watches that still run fail.
func (c *Client) Close() error { return c.conn.Close() }

// bearer is a credential. It goes over plain text too, since servers refuse that beyond their own machine themselves.
type bearer string

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

func (b bearer) RequireTransportSecurity() bool { return false }

// callUnary makes one call of any method, tried again while the server is unavailable.
func (c *Client) callUnary(
	ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker,
	options ...grpc.CallOption,
) error {
	if _, limited := ctx.Deadline(); !limited {
		limitedCtx, cancel := context.WithTimeout(ctx, c.timeout)
		defer cancel()
		ctx = limitedCtx
	}
	request = c.completed(request.(proto.Message))
	retries := retriesFor(c.patienceOf(ctx, method))
	for attempts := 1; ; attempts++ {
		err := invoke(ctx, method, request, reply, conn, options...)
		if err == nil {
			return nil
		}
		failure := c.failureOf(ctx, err)
		failure.Attempts = attempts
		if _, err := proto.Marshal(request.(proto.Message)); failure.Code == "internal" && err != nil {
			failure.Code = CodeInvalidArguments // no Unicode text, which is never sent
		}
		if err := retries.pause(ctx, failure); err != nil {
			return err
		}
	}
}

type patienceKey struct{}

// withPatience makes a call with more or less patience than the client's.
func withPatience(ctx context.Context, patience time.Duration) context.Context {
	return context.WithValue(ctx, patienceKey{}, patience)
}

func (c *Client) patienceOf(ctx context.Context, method string) time.Duration {
	if method == askdv1.KeyService_CreateKey_FullMethodName {
		return 0 // a second key would be made where only the reply was lost
	}
	if patience, ok := ctx.Value(patienceKey{}).(time.Duration); ok {
		return patience
	}
	return c.patience
}

// completed is a copy of a request with the workspace, and the id that makes retries safe, where it names none.
func (c *Client) completed(request proto.Message) proto.Message {
	request = proto.Clone(request)
	fill(request, "workspace_id", c.workspace)
	fill(request, "request_id", rand.Text())
	fill(request, "answer_id", rand.Text())
	return request
}

func fill(request proto.Message, name protoreflect.Name, value string) {
	message := request.ProtoReflect()
	field := message.Descriptor().Fields().ByName(name)
	if field != nil && message.Get(field).String() == "" {
		message.Set(field, protoreflect.ValueOfString(value))
	}
}

func (c *Client) openStream(
	ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer,
	options ...grpc.CallOption,
) (grpc.ClientStream, error) {
	opened, err := open(ctx, desc, conn, method, options...)
	if err != nil {
		return nil, c.failureOf(ctx, err)
	}
	return &stream{ClientStream: opened, client: c}, nil
}

// stream is a stream whose errors are this package's.
type stream struct {
	grpc.ClientStream
	client *Client
}

func (s *stream) SendMsg(message any) error {
	return s.failed(s.ClientStream.SendMsg(s.client.completed(message.(proto.Message))))
}

func (s *stream) RecvMsg(message any) error { return s.failed(s.ClientStream.RecvMsg(message)) }

func (s *stream) failed(err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	return s.client.failureOf(s.Context(), err)
}

func (c *Client) isClosed() bool { return c.conn.GetState() == connectivity.Shutdown }

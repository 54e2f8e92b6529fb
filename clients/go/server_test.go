package askd_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"askd.example/go"
	"askd.example/go/askdv1"
)

// startLimit is how long a server may take from its start to its ready line.
const startLimit = 60 * time.Second

// server is a real askd server. It comes back at the same address with the same data.
type server struct {
	folder  string
	options []string
	address string
	process *exec.Cmd
}

// serve starts a server on a new folder, which is killed at the end of the test.
func serve(t *testing.T, options ...string) *server {
	t.Helper()
	s := &server{folder: t.TempDir(), options: options, address: "127.0.0.1:0"}
	check(t, s.start())
	t.Cleanup(s.kill)
	return s
}

// common is the server of the tests that do nothing to it.
var common struct {
	sync.Once
	*server
	err error
}

func shared(t *testing.T) *server {
	t.Helper()
	common.Do(func() {
		common.server = &server{address: "127.0.0.1:0"}
		if common.folder, common.err = os.MkdirTemp("", "askd-go-"); common.err == nil {
			common.err = common.start()
		}
	})
	check(t, common.err)
	return common.server
}

func TestMain(m *testing.M) {
	code := m.Run()
	if common.server != nil {
		common.kill()
		os.RemoveAll(common.folder)
	}
	os.Exit(code)
}

// program is the askd to test, as ASKD_BIN says or as the repository's Makefile installs it.
func program() string {
	if name := os.Getenv("ASKD_BIN"); name != "" {
		return name
	}
	return "../../.venv/bin/askd"
}

func (s *server) start() error {
	arguments := append([]string{"serve", "--data-dir", s.folder, "--grpc", s.address, "--http", "off"}, s.options...)
	s.process = exec.Command(program(), arguments...)
	s.process.Env = withoutSettings(os.Environ())
	var logged bytes.Buffer
	s.process.Stderr = &logged
	output, err := s.process.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.process.Start(); err != nil {
		return fmt.Errorf("no server to test (run make in the repository, or say in ASKD_BIN where askd is): %w", err)
	}
	alarm := time.AfterFunc(startLimit, func() { s.process.Process.Kill() })
	defer alarm.Stop()
	line, _ := bufio.NewReader(output).ReadString('\n')
	ready := regexp.MustCompile(`^askd ready grpc=(\S+)`).FindStringSubmatch(line)
	if ready == nil {
		s.kill()
		return fmt.Errorf("the server said %q, and on standard error:\n%s", line, &logged)
	}
	s.address = ready[1]
	return nil
}

func withoutSettings(environment []string) []string {
	var kept []string
	for _, variable := range environment {
		if !strings.HasPrefix(variable, "ASKD_") {
			kept = append(kept, variable)
		}
	}
	return kept
}

// kill ends it as a crash would.
func (s *server) kill() {
	s.process.Process.Kill()
	s.process.Wait()
}

// drain ends it as an upgrade would.
func (s *server) drain() error {
	if err := s.process.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return s.process.Wait()
}

// client is a client with the admin credential and a workspace of the test's own.
func (s *server) client(t *testing.T, options ...askd.Setting) *askd.Client {
	t.Helper()
	key, err := os.ReadFile(filepath.Join(s.folder, "admin.key"))
	check(t, err)
	given := []askd.Setting{askd.WithKey(strings.TrimSpace(string(key))), askd.WithWorkspace(t.Name())}
	return newClient(t, s.address, append(given, options...)...)
}

// as is a client with a key of its own that holds one role, and the key's principal.
func (s *server) as(ctx context.Context, t *testing.T, role askdv1.Role) (*askd.Client, string) {
	t.Helper()
	grants := []*askdv1.Grant{{Role: role, WorkspaceId: t.Name()}}
	made, err := s.client(t).Keys.CreateKey(ctx, &askdv1.CreateKeyRequest{Name: "test", Grants: grants})
	check(t, err)
	return newClient(t, s.address, askd.WithKey(made.GetSecret())), "key:" + made.GetKey().GetId()
}

func newClient(t *testing.T, address string, options ...askd.Setting) *askd.Client {
	t.Helper()
	client, err := askd.NewClient(address, options...)
	check(t, err)
	t.Cleanup(func() { client.Close() })
	return client
}

// within is a context that no test needs all of.
func within(t *testing.T, limit time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// refused demands an error with a code.
func refused(t *testing.T, err error, code askd.Code) *askd.Error {
	t.Helper()
	var failure *askd.Error
	if !errors.As(err, &failure) || failure.Code != code {
		t.Fatalf("the error is %v, not %s", err, code)
	}
	return failure
}

func equal[T any](t *testing.T, found, wanted T) {
	t.Helper()
	if fmt.Sprint(found) != fmt.Sprint(wanted) {
		t.Fatalf("found %v, wanted %v", found, wanted)
	}
}

// ask stores an ask of one text question.
func ask(ctx context.Context, t *testing.T, client *askd.Client, session string) *askdv1.AskState {
	t.Helper()
	request := &askdv1.AskRequest{SessionId: session, Questions: []*askdv1.Question{askd.Text("Which port?")}}
	asked, err := client.Ask(ctx, request)
	check(t, err)
	return asked
}

// Conformance is the driver of the Go client: it runs the commands of the conformance suite, whose README defines them,
// over package askd.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"sync"
)

type command struct {
	ID     json.RawMessage `json:"id"`
	Client string          `json:"client"`
	Do     string          `json:"do"`
	Args   json.RawMessage `json:"args"`
}

type result struct {
	ID    json.RawMessage `json:"id"`
	OK    json.RawMessage `json:"ok,omitempty"`
	Error *failure        `json:"error,omitempty"`
}

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// run begins every command when it is read, until the input ends.
func run(input io.Reader, output io.Writer) error {
	driver := newDriver()
	results := &lines{output: json.NewEncoder(output)}
	var running sync.WaitGroup
	defer running.Wait()
	commands := json.NewDecoder(bufio.NewReader(input))
	for {
		var c command
		if err := commands.Decode(&c); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("a command that is none: %w", err)
		}
		running.Go(func() {
			ok, err := driver.do(context.Background(), c)
			if err != nil {
				ok = nil
			}
			results.write(result{ID: c.ID, OK: ok, Error: failureOf(err)})
		})
	}
}

// lines writes one result after the other.
type lines struct {
	mutex  sync.Mutex
	output *json.Encoder
}

func (l *lines) write(r result) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if err := l.output.Encode(r); err != nil {
		log.Print(err)
	}
}

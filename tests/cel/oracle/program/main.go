// Answers what kube-scheduler makes of CEL selectors: one question per line of JSON, one answer per line.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/cel/environment"
)

type question struct {
	ID         json.RawMessage   `json:"id,omitempty"`
	Expression string            `json:"expression"`
	Devices    []json.RawMessage `json:"devices"`
	// New compiles as the API server does for a new object: it knows less than the scheduler.
	New bool `json:"new,omitempty"`
	// Values asks for the strings that the expression evaluates to, rather than whether it matches.
	Values bool `json:"values,omitempty"`
	// Overloads asks which functions the expression calls.
	Overloads bool `json:"overloads,omitempty"`
	// Repetitions asks for timings too: how often each device is matched.
	Repetitions int `json:"repetitions,omitempty"`
}

type answer struct {
	ID           json.RawMessage `json:"id,omitempty"`
	CompileError string          `json:"compileError,omitempty"`
	MaxCost      *uint64         `json:"maxCost,omitempty"`
	Results      []result        `json:"results"`
	Values       []*string       `json:"values,omitempty"`
	Overloads    []string        `json:"overloads,omitempty"`
	Timings      *timings        `json:"timings,omitempty"`
}

func main() {
	limit := flag.Duration("limit", 5*time.Second, "how long one question may take")
	version := flag.Bool("version", false, "print the version that new objects are compiled for, and end")
	overloads := flag.Bool("overloads", false, "print what selectors may call, and end")
	flag.Parse()
	if *version {
		fmt.Println(environment.DefaultCompatibilityVersion())
		return
	}
	if *overloads {
		fmt.Println(strings.Join(allOverloads(), "\n"))
		return
	}
	// Compiling leaves much garbage and little that lives.
	debug.SetGCPercent(400)
	if err := serve(os.Stdin, os.Stdout, *limit); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(input io.Reader, output io.Writer, limit time.Duration) error {
	reader := bufio.NewReaderSize(input, 1<<20)
	encoder := json.NewEncoder(output)
	encoder.SetEscapeHTML(false)
	for {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var asked question
		if err := json.Unmarshal(line, &asked); err != nil {
			return fmt.Errorf("not a question: %w", err)
		}
		told, inTime := answerWithin(limit, asked)
		if err := encoder.Encode(told); err != nil {
			return err
		}
		if !inTime {
			// What hangs cannot be stopped, and would slow down everything after it. Whoever asks starts us again.
			return nil
		}
	}
}

func answerWithin(limit time.Duration, asked question) (answer, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	told := make(chan answer, 1)
	go func() { told <- answerTo(ctx, asked) }()
	select {
	case answer := <-told:
		return answer, true
	case <-time.After(limit + 100*time.Millisecond):
		return sameForAll(asked, result{Outcome: timeout}), false
	}
}

func answerTo(ctx context.Context, asked question) (told answer) {
	defer func() {
		if problem := recover(); problem != nil {
			told = sameForAll(asked, result{Outcome: panicked, Error: fmt.Sprint(problem)})
		}
	}()
	if asked.Values {
		told = answer{ID: asked.ID, Results: []result{}}
		for _, device := range asked.Devices {
			told.Values = append(told.Values, valueOf(ctx, asked.Expression, device))
		}
		return told
	}
	program := compiled(asked.Expression, asked.New)
	if program.Error != nil {
		told = sameForAll(asked, result{Outcome: compileError, Error: program.Error.Error()})
		told.CompileError = program.Error.Error()
		return told
	}
	told = answer{ID: asked.ID, MaxCost: &program.MaxCost, Results: []result{}}
	for _, device := range asked.Devices {
		told.Results = append(told.Results, match(ctx, program, device))
	}
	if asked.Overloads {
		told.Overloads = overloadsOf(program)
	}
	if asked.Repetitions > 0 {
		told.Timings = measure(ctx, asked)
	}
	return told
}

func sameForAll(asked question, each result) answer {
	return answer{ID: asked.ID, Results: slices.Repeat([]result{each}, len(asked.Devices))}
}

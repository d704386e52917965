package main

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/execra/tracefleet/internal/ops"
)

// slowConsumer drains only when it is told to hurry, unless it drains at once.
type slowConsumer struct {
	atOnce  bool
	started chan struct{}
	drains  chan struct{}
	hurry   chan struct{}
	err     error
}

func newSlowConsumer(atOnce bool) *slowConsumer {
	return &slowConsumer{atOnce: atOnce, started: make(chan struct{}), drains: make(chan struct{}), hurry: make(chan struct{})}
}

// Run waits for the end of ctx and then drains.
func (c *slowConsumer) Run(ctx context.Context) error {
	close(c.started)
	if c.err != nil {
		return c.err
	}
	<-ctx.Done()
	close(c.drains)
	if !c.atOnce {
		<-c.hurry
	}
	return nil
}

// Hurry cuts the drain short.
func (c *slowConsumer) Hurry() { close(c.hurry) }

func TestGroup(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	tests := map[string]struct {
		consumer *slowConsumer
		part     part
		act      func(c *slowConsumer, signals chan<- os.Signal, cancel func())
		want     error
	}{
		"signal": {
			consumer: newSlowConsumer(true),
			act:      func(_ *slowConsumer, signals chan<- os.Signal, _ func()) { signals <- syscall.SIGTERM },
		},
		"second signal hurries": {
			consumer: newSlowConsumer(false),
			act: func(c *slowConsumer, signals chan<- os.Signal, _ func()) {
				signals <- syscall.SIGTERM
				<-c.drains
				signals <- os.Interrupt
			},
		},
		"end of the context": {
			consumer: newSlowConsumer(true),
			act:      func(_ *slowConsumer, _ chan<- os.Signal, cancel func()) { cancel() },
		},
		"failure of a part": {
			consumer: newSlowConsumer(true),
			part:     func(context.Context) error { return broken },
			act:      func(*slowConsumer, chan<- os.Signal, func()) {},
			want:     broken,
		},
		"failure of the consumer": {
			consumer: func() *slowConsumer { c := newSlowConsumer(true); c.err = broken; return c }(),
			act:      func(*slowConsumer, chan<- os.Signal, func()) {},
			want:     broken,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			signals := make(chan os.Signal, 2)
			checks := &ops.Checks{}
			var partEnded bool
			beside := []part{func(ctx context.Context) error {
				<-ctx.Done()
				partEnded = true
				return ctx.Err() // what ends with its context has not failed
			}}
			if tt.part != nil {
				beside = append(beside, tt.part)
			}
			ended := make(chan error, 1)
			go func() {
				ended <- runGroup(ctx, group{consumer: tt.consumer, beside: beside, checks: checks, signals: signals, log: zap.NewNop()})
			}()
			<-tt.consumer.started
			tt.act(tt.consumer, signals, cancel)
			if err := <-ended; !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if !partEnded {
				t.Error("a part still runs")
			}
			if _, ready := checks.Run(t.Context()); ready {
				t.Error("ready after the end, want draining")
			}
		})
	}
}

// TestPartsOutliveTheDrain checks that jobs which still run keep what they need, whatever made the worker stop.
func TestPartsOutliveTheDrain(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	tests := map[string]struct {
		stop func(fail chan<- error, cancel func())
		want error
	}{
		"end of the context": {func(_ chan<- error, cancel func()) { cancel() }, nil},
		"failure of a part":  {func(fail chan<- error, _ func()) { fail <- broken }, broken},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				consumer, signals, fail := newSlowConsumer(false), make(chan os.Signal, 1), make(chan error, 1)
				var partEnded atomic.Bool
				beside := []part{
					func(ctx context.Context) error {
						<-ctx.Done()
						partEnded.Store(true)
						return nil
					},
					func(ctx context.Context) error {
						select {
						case err := <-fail:
							return err
						case <-ctx.Done():
							return nil
						}
					},
				}
				ended := make(chan error, 1)
				go func() {
					ended <- runGroup(ctx, group{consumer: consumer, beside: beside, checks: &ops.Checks{}, signals: signals, log: zap.NewNop()})
				}()
				<-consumer.started
				tt.stop(fail, cancel)
				<-consumer.drains
				synctest.Wait()
				if partEnded.Load() {
					t.Error("a part ended while the consumer drained")
				}
				signals <- os.Interrupt // a signal hurries a drain that no signal began
				if err := <-ended; !errors.Is(err, tt.want) {
					t.Errorf("got %v, want %v", err, tt.want)
				}
				if !partEnded.Load() {
					t.Error("a part still runs")
				}
			})
		})
	}
}

// failingReaper counts its calls.
type failingReaper struct{ calls, quarantined int }

// Quarantined is how many sandboxes wait for the reaper.
func (r *failingReaper) Quarantined() int { return r.quarantined }

// Reap fails, which must not end the loop.
func (r *failingReaper) Reap(context.Context) (int, error) {
	r.calls++
	return 0, errors.New("the engine is away")
}

func TestReapGoesOn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		engine failingReaper
		want   int
	}{
		"nothing is known to be left": {failingReaper{}, 3},
		"a sandbox in quarantine":     {failingReaper{quarantined: 1}, 3 * int(reapEvery/reapAgain)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 3*reapEvery+time.Second)
				defer cancel()
				engine := c.engine
				if err := reap(ctx, &engine, zap.NewNop()); err != nil {
					t.Errorf("got %v, want nil", err)
				}
				if engine.calls != c.want {
					t.Errorf("got %d looks in three periods, want %d", engine.calls, c.want)
				}
			})
		})
	}
}

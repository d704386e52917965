package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/docker/docker/api/types/container"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/sandbox"
	"github.com/execra/tracefleet/internal/wire"
)

const (
	// deadlineSlack is how much later than the supervisor's limit on wall time
	// the worker's own comes. The program can starve the supervisor, not us.
	deadlineSlack = 500 * time.Millisecond
	// settleTime is how long what a dead program left may take to arrive.
	settleTime = 10 * time.Second
	// hangupTime is how long the supervisor has to end a cancelled run itself,
	// and so keep its trace, before the container is killed.
	hangupTime = 400 * time.Millisecond
)

// ending is why a run was cut short from outside the sandbox.
type ending string

const (
	endNone     ending = ""
	endDeadline ending = "deadline"
	endCanceled ending = "canceled"
	endClosed   ending = "closed"
	// endUnsent: the job could not be handed over.
	endUnsent ending = "unsent"
	// endSlow: the report of a dead program did not arrive in time.
	endSlow ending = "slow"
	// endNonsense: the sandbox broke the protocol.
	endNonsense ending = "nonsense"
	// endOver: the run has ended and cannot be cut short any more.
	endOver ending = "over"
)

// Run hands the job over and returns how it ended; see package sandbox for
// what is an Outcome and what is an error.
func (b *box) Run(ctx context.Context, j job.Job) (sandbox.Outcome, error) {
	out, err := b.run(ctx, j)
	if err != nil {
		return sandbox.Outcome{}, fmt.Errorf("run job: %w", err)
	}
	return out, nil
}

func (b *box) run(ctx context.Context, j job.Job) (sandbox.Outcome, error) {
	frame, err := json.Marshal(jobInfo(j, innerLimit(b.e.host.Runtime, j.Limits.Processes)))
	if err != nil {
		return sandbox.Outcome{}, fmt.Errorf("encode job: %w", err)
	}
	r := &run{b: b, got: newCollector(j.Limits), collected: make(chan struct{})}
	if err := b.begin(j.Limits, func(why ending) { r.interrupt(ctx, why) }); err != nil {
		return sandbox.Outcome{}, err
	}
	out, err := r.do(ctx, frame, j.Limits.Wall())
	b.over(out.End != nil)
	out.Runtime = job.Runtime{
		Language: j.Language, Version: b.ready.Python,
		Image: b.e.host.ImageID, Engine: "docker", OCIRuntime: b.e.host.Runtime,
	}
	return out, err
}

// run is one job in one box. One goroutine reads, the caller's; everything
// that ends the run early goes through interrupt, which kills and bounds the reading.
type run struct {
	b   *box
	got *collector
	// deadline ends the run from outside; only the reading goroutine sets it.
	deadline *time.Timer
	// ended is when END came, or the stream was over.
	ended time.Time
	// collected is closed when nothing is read any more.
	collected chan struct{}

	mu   sync.Mutex
	why  ending // the first reason to end the run from outside
	kill sync.WaitGroup
	// fault is why a deadline that was passed says nothing of the program; it is set before kill is done.
	fault error
}

func (r *run) do(ctx context.Context, frame []byte, wall time.Duration) (sandbox.Outcome, error) {
	started := time.Now()
	r.deadline = time.AfterFunc(wall+deadlineSlack, func() { r.interrupt(ctx, endDeadline) })
	stop := context.AfterFunc(ctx, func() { r.interrupt(ctx, endCanceled) })
	defer stop()

	// A sandbox that does not read must not keep us from reading.
	sent := make(chan error, 1)
	go func() {
		err := wire.WriteFrame(r.b.conn, wire.Job, frame)
		if err != nil {
			r.interrupt(ctx, endUnsent)
		}
		sent <- err
	}()
	cause := r.collect(ctx)
	close(r.collected)
	if r.ended.IsZero() {
		r.ended = time.Now()
	}
	p := parting{why: r.settle(), cause: cause}
	_ = r.b.conn.SetWriteDeadline(time.Unix(1, 0)) // ends a write that still waits; a broken conn has none
	p.unsent = <-sent

	out := r.got.outcome()
	out.StartedAt, out.Wall = started, r.ended.Sub(started)
	return r.judge(ctx, p, out)
}

// parting is what else is known of a run when nothing is read any more.
type parting struct {
	// why it was cut short, cause why the stream ended, and unsent why the job could not be handed over.
	why           ending
	cause, unsent error
}

// judge completes the outcome of a run, or says what the platform did to it.
func (r *run) judge(ctx context.Context, p parting, out sandbox.Outcome) (sandbox.Outcome, error) {
	switch {
	case p.why == endClosed:
		return out, sandbox.ErrClosed
	case r.got.fail != nil:
		return out, r.got.fail
	case out.End != nil && out.End.Killed == wire.KilledHangup && p.why != endCanceled:
		return out, errors.New("the engine closed the sandbox's input")
	case out.End != nil:
		// It came to its end, whatever was under way to end it.
		out.Interrupted = out.End.Killed == wire.KilledHangup
		if !blindToMemory(*out.End) {
			return out, nil
		}
		oom, err := r.b.killedForMemory(ctx, blindTime, func(*container.State) bool { return true })
		out.EngineOOM = oom
		return out, err
	case p.why == endCanceled:
		out.Interrupted = true
		return out, nil
	case p.unsent != nil:
		// The supervisor reads the whole job before anything of it runs.
		return out, fmt.Errorf("hand over the job: %w", p.unsent)
	case p.why == endSlow:
		return out, fmt.Errorf("what the program left did not arrive within %s", settleTime)
	case p.why == endDeadline && r.fault != nil:
		// An engine that does not answer has not passed on the report either.
		return out, r.fault
	}
	return r.judgeDead(ctx, p, out)
}

// judgeDead completes the outcome of a run without a report, whose container is dead or being killed.
func (r *run) judgeDead(ctx context.Context, p parting, out sandbox.Outcome) (sandbox.Outcome, error) {
	killed := false
	switch {
	case p.why == endDeadline:
		out.DeadlineHit = true
	case out.Invalid == "":
		// It ended by itself without a report. That is the program's doing if
		// the container is dead, and the engine's if it is not.
		exit, err := r.b.proveExit(ctx, p.cause)
		if err != nil {
			return out, err
		}
		out.Invalid = fmt.Sprintf("the sandbox ended without a report (exit code %d)", exit)
		killed = exit == killedExit && !gvisor(r.b.e.host.Runtime)
	}
	oom, err := r.b.killedForMemory(ctx, deadTime, func(s *container.State) bool { return p.why == endNone && s.ExitCode == killedExit })
	if err != nil && p.why == endNone {
		// An engine that is going down kills its containers first.
		return out, err
	}
	out.EngineOOM = oom
	if killed && !oom {
		// No program can send its supervisor a signal that kills it, but under gVisor.
		return out, sandbox.ErrKilled
	}
	return out, nil
}

// blindToMemory tells whether the program died of a SIGKILL that a supervisor
// without a view of its cgroup cannot explain. Under gVisor the host's kernel may
// have killed the process that the program's memory was in.
func blindToMemory(end wire.EndInfo) bool {
	return !end.Exited && end.Signal == int(unix.SIGKILL) && end.Killed == wire.KilledNot && end.OOMKills == -1
}

// settle stops what could still interrupt the run and returns what did.
func (r *run) settle() ending {
	r.deadline.Stop()
	r.mu.Lock()
	why := r.why
	if why == endNone {
		r.why = endOver
	}
	r.mu.Unlock()
	r.kill.Wait()
	return why
}

// interrupt kills the container, and lets what it had written arrive for a
// bounded time. A cancelled run is hung up first: a supervisor that is well kills
// the program at once and still hands over the trace. Only the first reason
// counts. It does not block.
func (r *run) interrupt(ctx context.Context, why ending) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.why != endNone {
		return
	}
	r.why = why
	patience := time.Duration(0)
	if why == endCanceled && r.b.hangUp() {
		patience = hangupTime
	}
	// A conn that takes no deadline is broken, and so does not block.
	_ = r.b.conn.SetDeadline(time.Now().Add(patience + r.b.e.cfg.KillTimeout))
	r.kill.Add(1)
	go func() {
		defer r.kill.Done()
		if patience > 0 && r.hasEnded(patience) {
			return
		}
		if why == endDeadline && r.b.paused(ctx) { // once it is killed nobody can tell any more
			r.fault = errPaused
		}
		if err := r.b.kill(ctx); err != nil {
			r.fault = fmt.Errorf("lost the engine: %w", err)
			// Close removes it by force and tells when that fails too.
			r.b.e.log.Warn("sandbox not killed", zap.String("container_id", r.b.id), zap.Error(err))
		}
	}()
}

// hasEnded waits for the end of the reading, at most for d.
func (r *run) hasEnded(d time.Duration) bool {
	patience := time.NewTimer(d)
	defer patience.Stop()
	select {
	case <-r.collected:
		return true
	case <-patience.C:
		return false
	}
}

// collect reads frames until the report, the end of the stream, or nonsense.
// It returns why the stream ended when it did.
func (r *run) collect(ctx context.Context) error {
	settling := false
	for {
		f, err := r.b.frames.Next()
		if err != nil {
			if malformed(err) {
				r.reject(ctx, err.Error())
				return nil
			}
			return err
		}
		if !settling && f.Type == wire.Trace {
			// The program is dead; what it left may take its time.
			settling = true
			r.deadline.Stop()
			r.deadline = time.AfterFunc(settleTime, func() { r.interrupt(ctx, endSlow) })
		}
		if text := r.got.take(f); text != "" {
			r.reject(ctx, text)
			return nil
		}
		if r.got.fail != nil {
			return nil
		}
		if r.got.end != nil {
			r.ended = time.Now()
			r.part()
			return nil
		}
	}
}

// part looks for what must not come after END, without waiting for it: a
// supervisor's last act is to send END, and the engine takes longer than the
// whole job to say that it is gone.
func (r *run) part() {
	r.deadline.Stop()
	if n := r.b.stream.pending(); n > 0 {
		r.got.invalid = fmt.Sprintf("%d bytes after END", n)
	}
}

// reject notes that the sandbox spoke nonsense and kills it. What still comes
// is thrown away, but read: the engine must not block on us.
func (r *run) reject(ctx context.Context, text string) {
	r.got.invalid = text
	r.ended = time.Now()
	r.interrupt(ctx, endNonsense)
	var sink [32 << 10]byte
	for {
		if _, err := r.b.stream.Read(sink[:]); err != nil {
			return
		}
	}
}

// malformed tells whether a sandbox sent what no supervisor sends.
func malformed(err error) bool {
	return errors.Is(err, wire.ErrTooLarge) || errors.Is(err, wire.ErrUnknownType)
}

func jobInfo(j job.Job, nproc int64) wire.JobInfo {
	files := make(map[string][]byte, len(j.Files))
	for name, text := range j.Files {
		files[name] = []byte(text)
	}
	l := j.Limits
	return wire.JobInfo{
		Entrypoint: j.Entrypoint, Files: files, Stdin: []byte(j.Stdin), Args: j.Args,
		WallMS: l.WallMS, CPUMS: l.CPUMS, MemoryBytes: l.MemoryBytes, OutputBytes: l.OutputBytes,
		Processes: l.Processes, NProc: nproc, OpenFiles: l.OpenFiles, FileBytes: l.FileBytes,
		TraceEvents: l.TraceEvents, TraceBytes: l.TraceBytes,
		TraceMode: string(j.Trace.Mode), TraceValues: j.Trace.Values, Include: j.Trace.Include,
	}
}

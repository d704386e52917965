package runner

import (
	"fmt"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/oneline"
	"github.com/execra/tracefleet/internal/sandbox"
	"github.com/execra/tracefleet/internal/trace"
	"github.com/execra/tracefleet/internal/wire"
)

// testimony is what the tracer says and the verdict listens to. It comes from
// inside the program's own interpreter and may be forged.
type testimony struct {
	syntaxError bool
	exception   *trace.Exception
	hits        []job.LimitName
}

// verdict is how a run ended.
type verdict struct {
	status     job.Status
	err        string // for Result.Error; empty for none
	returncode *int
	signal     *string
	hits       []job.LimitName
}

// classify decides how a run ended. It is pure. Of the statuses that hold, the
// first in job.Statuses wins; every limit that was met is listed whatever the status.
//
// Only facts from outside the program decide, with one exception: exception,
// syntax_error and exit status 1 look alike from outside, and there the testimony
// tells them apart.
func classify(l job.Limits, o sandbox.Outcome, t testimony, canceled bool) verdict {
	end, fault := o.End, o.Invalid
	if end != nil && fault == "" {
		fault = reportFault(*end, canceled || o.DeadlineHit)
	}
	if fault != "" || end == nil {
		end = nil
		if fault == "" {
			fault = "it ended without a report"
		}
	}
	v := verdict{hits: limitsHit(l, o, end, t)}
	hit := func(n job.LimitName) bool { return slices.Contains(v.hits, n) }
	switch {
	case canceled:
		v.status, v.err = job.StatusCanceled, canceledText
	case memoryKilled(o, end):
		v.status = job.StatusMemoryLimit
		v.err = fmt.Sprintf("Code execution exceeded its memory limit of %s.", job.FormatBytes(l.MemoryBytes))
	case hit(job.HitWall):
		v.status = job.StatusTimeLimit
		v.err = fmt.Sprintf("Code execution timed out after %s.", job.FormatSeconds(l.WallMS))
	case hit(job.HitCPU):
		v.status = job.StatusTimeLimit
		v.err = fmt.Sprintf("Code execution exceeded its CPU limit of %s.", job.FormatSeconds(l.CPUMS))
	case hit(job.HitStdout) || hit(job.HitStderr):
		v.status = job.StatusOutputLimit
		v.err = fmt.Sprintf("Code execution exceeded its output limit of %d bytes on %s.", l.OutputBytes, floodedStreams(v.hits))
	case end == nil:
		v.status = job.StatusResultInvalid
		v.err = fmt.Sprintf("The sandbox gave no usable report of the run: %s.", strings.TrimSuffix(oneline.Of(fault, maxErrorDetail), "."))
	case !end.Exited:
		name := signalName(end.Signal)
		code := -end.Signal
		v.status, v.signal, v.returncode = job.StatusSignaled, &name, &code
	default:
		code := end.ExitCode
		v.status, v.returncode = exitStatus(code, t), &code
	}
	return v
}

// exitStatus is the status of a program that left by itself.
func exitStatus(code int, t testimony) job.Status {
	switch {
	case code == 0:
		return job.StatusOK
	case code == 1 && t.syntaxError:
		return job.StatusSyntaxError
	case code == 1 && t.exception != nil:
		return job.StatusException
	default:
		return job.StatusExitNonzero
	}
}

// memoryKilled tells whether the kernel killed the program itself, not only a child of it, for
// memory. Without a report it is the engine's word: the supervisor itself was killed, or, under
// gVisor, where one process holds the whole sandbox, everything was.
func memoryKilled(o sandbox.Outcome, end *wire.EndInfo) bool {
	if end == nil {
		return o.EngineOOM
	}
	killed := !end.Exited && end.Signal == int(unix.SIGKILL) && end.Killed == wire.KilledNot
	return killed && !o.DeadlineHit && (end.OOMKills > 0 || o.EngineOOM)
}

// limitsHit lists the limits that the run met, in the order of job.LimitNames.
func limitsHit(l job.Limits, o sandbox.Outcome, end *wire.EndInfo, t testimony) []job.LimitName {
	met := map[job.LimitName]bool{
		job.HitWall:   o.DeadlineHit,
		job.HitMemory: o.EngineOOM,
		job.HitStdout: o.Stdout.Total > l.OutputBytes,
		job.HitStderr: o.Stderr.Total > l.OutputBytes,
	}
	if end != nil {
		died := func(s syscall.Signal) bool { return !end.Exited && end.Signal == int(s) }
		met[job.HitWall] = met[job.HitWall] || end.Killed == wire.KilledWall
		// The kernel's own limit on CPU time backs up the supervisor's.
		met[job.HitCPU] = end.Killed == wire.KilledCPU || died(unix.SIGXCPU) && end.CPUMS >= l.CPUMS
		met[job.HitMemory] = met[job.HitMemory] || end.OOMKills > 0
		met[job.HitProcesses] = end.ForksRefused > 0
		met[job.HitStdout] = met[job.HitStdout] || end.Killed == wire.KilledStdout || end.StdoutBytes > l.OutputBytes
		met[job.HitStderr] = met[job.HitStderr] || end.Killed == wire.KilledStderr || end.StderrBytes > l.OutputBytes
		met[job.HitFileSize] = died(unix.SIGXFSZ)
	}
	for _, h := range t.hits {
		switch h {
		case job.HitOpenFiles, job.HitDisk, job.HitInodes, job.HitFileSize, job.HitTraceEvents, job.HitTraceBytes:
			met[h] = true
		}
	}
	hits := []job.LimitName{}
	for _, name := range job.LimitNames() {
		if met[name] {
			hits = append(hits, name)
		}
	}
	return hits
}

func floodedStreams(hits []job.LimitName) string {
	var names []string
	for _, h := range []job.LimitName{job.HitStdout, job.HitStderr} {
		if slices.Contains(hits, h) {
			names = append(names, string(h))
		}
	}
	return strings.Join(names, " and ")
}

// canceledText is the error of a job that a user canceled while a worker had it.
const canceledText = "Code execution was canceled by a user."

// reportFault says why a report cannot be used, or nothing. stopped is true when the worker ended the run itself.
func reportFault(e wire.EndInfo, stopped bool) string {
	if e.Killed == wire.KilledHangup && !stopped {
		return "it stopped because the worker hung up, which it did not"
	}
	return e.Fault()
}

// signalName gives a signal's name; the nameless ones count from SIGRTMIN, as in kill -l.
func signalName(n int) string {
	if name := unix.SignalName(syscall.Signal(n)); name != "" {
		return name
	}
	const firstRealTime = 34 // the C library keeps 32 and 33 for itself
	if n >= firstRealTime {
		return fmt.Sprintf("SIGRTMIN+%d", n-firstRealTime)
	}
	return fmt.Sprintf("signal %d", n)
}

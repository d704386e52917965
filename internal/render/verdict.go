package render

import (
	"fmt"
	"slices"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/trace"
)

// verdict says in plain words how the program ended, and what it took.
func (v *view) verdict() {
	mark, words := v.paint.green("✓ "), v.paint.bold
	if v.result.Status != job.StatusOK {
		mark, words = v.paint.alarm("✗ "), v.paint.alarm
	}
	for i, line := range wrap(plain(Verdict(v.result)), max(0, v.options.Width-2)) {
		if i > 0 {
			mark = "  "
		}
		v.printf("%s%s\n", mark, words(line))
	}
	for _, line := range wrapWords(v.facts(), " · ", v.options.Width-2) {
		v.printf("  %s\n", v.paint.dim(line))
	}
}

// Verdict is one sentence that says how the program ended. It may hold text
// from the program.
func Verdict(r job.Result) string {
	switch r.Status {
	case job.StatusOK:
		return "Finished normally."
	case job.StatusExitNonzero:
		return fmt.Sprintf("Exited with code %d.", value(r.Returncode))
	case job.StatusException:
		return "Ended by " + exceptionWords(r.Exception)
	case job.StatusSyntaxError:
		return "Does not compile, so nothing ran: " + exceptionWords(r.Exception)
	case job.StatusSignaled:
		return "Killed by the signal " + value(r.Signal) + "."
	case job.StatusTimeLimit, job.StatusMemoryLimit, job.StatusOutputLimit:
		return limitVerdict(r)
	case job.StatusResultInvalid:
		return sentences("The sandbox gave no usable answer; the program may have broken it.", r.Error)
	case job.StatusCanceled:
		return sentences("Canceled.", r.Error)
	case job.StatusRejected:
		return sentences("Refused by the worker.", r.Error)
	case job.StatusSystemError:
		return sentences("The fleet failed, not the program.", r.Error)
	}
	return "Ended with the status " + string(r.Status) + "."
}

// sentences adds what the result says to a sentence, if it says anything.
func sentences(first string, more *string) string {
	if value(more) == "" {
		return first
	}
	return first + " " + *more
}

func limitVerdict(r job.Result) string {
	switch {
	case r.Status == job.StatusMemoryLimit:
		return fmt.Sprintf("Stopped: it needed more memory than its limit of %s.", size(r.Limits.MemoryBytes))
	case r.Status == job.StatusOutputLimit && slices.Contains(r.LimitsHit, job.HitStderr):
		return fmt.Sprintf("Stopped: it wrote more than its limit of %s to stderr.", count(r.Limits.OutputBytes, "byte"))
	case r.Status == job.StatusOutputLimit:
		return fmt.Sprintf("Stopped: it wrote more than its limit of %s to stdout.", count(r.Limits.OutputBytes, "byte"))
	case slices.Contains(r.LimitsHit, job.HitCPU) && !slices.Contains(r.LimitsHit, job.HitWall):
		return fmt.Sprintf("Stopped: it used up its limit of %s of CPU time.", millis(r.Limits.CPUMS))
	}
	return fmt.Sprintf("Stopped: it was still running after %s, its time limit.", millis(r.Limits.WallMS))
}

// exceptionWords is the exception with its place.
func exceptionWords(e *trace.Exception) string {
	if e == nil {
		return "an exception that the tracer could not read."
	}
	text := exceptionLine(e)
	if e.File != "" && e.Line > 0 {
		text += fmt.Sprintf(" (%s:%d", e.File, e.Line)
		if e.Function != "" && e.Function != "<module>" || len(e.Traceback) > 0 {
			text += " in " + e.Function
		}
		text += ")"
	}
	return text
}

// exceptionLine is the exception as the last line of a Python traceback has it.
func exceptionLine(e *trace.Exception) string {
	if e.Message == "" {
		return e.Type
	}
	return e.Type + ": " + e.Message
}

// facts are the numbers of the run, in words.
func (v *view) facts() []string {
	r := v.result
	facts := []string{string(r.Status)}
	if r.Returncode != nil {
		facts = append(facts, fmt.Sprintf("exit code %d", *r.Returncode))
	}
	if r.StartedAt != nil {
		facts = append(facts, millis(r.Usage.WallMS), millis(r.Usage.CPUMS)+" CPU")
	}
	if r.Usage.MaxMemoryBytes > 0 {
		facts = append(facts, size(r.Usage.MaxMemoryBytes))
	}
	if r.Usage.MaxProcesses > 1 {
		facts = append(facts, number(r.Usage.MaxProcesses)+" processes and threads")
	}
	if r.Runtime.Version != "" {
		facts = append(facts, "Python "+plain(r.Runtime.Version))
	}
	return facts
}

// value gives what p points to, or the zero value.
func value[T any](p *T) T {
	if p == nil {
		return *new(T)
	}
	return *p
}

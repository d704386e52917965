package render

import (
	"fmt"

	"github.com/execra/tracefleet/internal/job"
)

// notes says what the reader should know about the result itself.
func (v *view) notes() {
	notes := v.noteTexts()
	if len(notes) == 0 {
		return
	}
	v.heading("Notes")
	for _, note := range notes {
		for i, line := range wrap(plain(note), max(0, v.options.Width-4)) {
			v.printf("  %s %s\n", map[bool]string{true: "·", false: " "}[i == 0], line)
		}
	}
}

func (v *view) noteTexts() []string {
	r := v.result
	var notes []string
	for _, hit := range r.LimitsHit {
		if text := hitWords(hit, r); text != "" {
			notes = append(notes, text)
		}
	}
	switch {
	case r.Summary == nil && r.Trace == nil:
	case r.Tracer.Detached:
		notes = append(notes, "The program switched the tracer off; what it did afterwards is not in the trace.")
	case !r.Tracer.Complete:
		notes = append(notes, "The program did not end in the interpreter's own way, so the trace stops where it was then.")
	}
	if s := r.Summary; s != nil && s.Warnings > 0 {
		notes = append(notes, fmt.Sprintf("%s issued.", map[bool]string{true: "1 warning was", false: count(s.Warnings, "warning") + " were"}[s.Warnings == 1]))
	}
	if s := r.Summary; s != nil && s.Unraisable > 0 {
		notes = append(notes, count(s.Unraisable, "exception")+" had nobody to go to, as from __del__.")
	}
	if r.Encoding == job.EncodingUTF8Lossy {
		notes = append(notes, "The output is not all UTF-8; bytes that are not are shown as \ufffd.")
	}
	if r.Trace != nil && r.Trace.Truncation.Values > 0 {
		notes = append(notes, fmt.Sprintf("%s shown shortened.", wasWere(r.Trace.Truncation.Values, "value")))
	}
	return append(notes, r.Tracer.Notes...)
}

func wasWere(n int64, noun string) string {
	if n == 1 {
		return count(n, noun) + " is"
	}
	return count(n, noun) + " are"
}

// hitWords explains a limit that the verdict does not speak of already.
func hitWords(hit job.LimitName, r job.Result) string {
	switch hit {
	case job.HitMemory:
		if r.Status != job.StatusMemoryLimit {
			return fmt.Sprintf("A process of the program was killed for memory (limit %s, --memory).", size(r.Limits.MemoryBytes))
		}
	case job.HitProcesses:
		return fmt.Sprintf("The program wanted more than its limit of %s (--processes).", count(r.Limits.Processes, "process"))
	case job.HitOpenFiles:
		return fmt.Sprintf("The program wanted more than its limit of %s (--open-files).", count(r.Limits.OpenFiles, "open file"))
	case job.HitFileSize:
		return fmt.Sprintf("The program wanted a file larger than its limit of %s (--file-size).", size(r.Limits.FileBytes))
	case job.HitDisk:
		return "The program filled its disk space."
	case job.HitInodes:
		return "The program made as many files as it may."
	}
	return ""
}

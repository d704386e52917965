package job

import (
	"cmp"
	"maps"
	"slices"
)

// DefaultRetentionS is how long a finished job is kept when it says nothing: a day.
const DefaultRetentionS = 24 * 60 * 60

// DefaultTrace returns the trace options of a Job that names none: everything,
// for all of the job's code.
func DefaultTrace() TraceOptions {
	return TraceOptions{Mode: TraceFull, Values: true, Include: []string{"."}}
}

// Normalize returns a copy of j in which what was left out has its default.
// Strings, numbers, slices and maps that are empty count as left out; so do Limits and Trace
// when they are zero as a whole. In a Limits that is not zero, every field
// is taken as it is, because 0 is a legal file_bytes and trace_events. The ID
// stays empty: whoever submits the job picks one.
func (j Job) Normalize() Job {
	j = j.withDefaults()
	j.Trace.Include = slices.Clone(j.Trace.Include)
	j.Args = slices.Clone(j.Args)
	j.Files, j.Labels = maps.Clone(j.Files), maps.Clone(j.Labels)
	return j
}

// withDefaults is Normalize, but that what was there is shared with j.
func (j Job) withDefaults() Job {
	j.Language = cmp.Or(j.Language, LanguagePython)
	j.Entrypoint = cmp.Or(j.Entrypoint, DefaultEntrypoint)
	j.Queue = cmp.Or(j.Queue, QueueDefault)
	j.RetentionS = cmp.Or(j.RetentionS, DefaultRetentionS)
	j.Limits = cmp.Or(j.Limits, DefaultLimits())
	if j.Trace.Mode == "" && !j.Trace.Values && len(j.Trace.Include) == 0 {
		j.Trace = DefaultTrace()
	}
	j.Trace.Mode = cmp.Or(j.Trace.Mode, TraceFull)
	if len(j.Trace.Include) == 0 {
		j.Trace.Include = []string{"."}
	}
	// A list or map that is missing and an empty one are the same document.
	j.Args = list(j.Args)
	if j.Files == nil {
		j.Files = map[string]string{}
	}
	if j.Labels == nil {
		j.Labels = map[string]string{}
	}
	return j
}

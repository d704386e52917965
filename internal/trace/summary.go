package trace

// Summary covers the whole run, also past the event budget.
type Summary struct {
	TotalCalls        int64    `json:"total_calls"`
	TotalLines        int64    `json:"total_lines"`
	ExceptionsCaught  int64    `json:"exceptions_caught"`
	MaxRecursionDepth int64    `json:"max_recursion_depth"`
	ExecutionPath     []string `json:"execution_path"`
	// Lines holds the hits of each line, by file and line number.
	Lines map[string]map[string]int64 `json:"lines"`
	// Calls holds the starts of each function by qualified name; functions
	// outside the entrypoint's file are named "file:name".
	Calls       map[string]int64 `json:"calls"`
	Edges       []Edge           `json:"edges"`
	Loops       []Loop           `json:"loops"`
	EventsTotal int64            `json:"events_total"`
	EventsKept  int64            `json:"events_kept"`
	CountsExact bool             `json:"counts_exact"`
	// Exceptions lists the first 50 and the last 50 of the ExceptionsCaught.
	Exceptions []Raised `json:"exceptions"`
	// ThreadExceptions lists the first 20 exceptions that ended a thread other than
	// the main one, and ThreadExceptionsTotal counts all of them.
	ThreadExceptions      []ThreadException `json:"thread_exceptions"`
	ThreadExceptionsTotal int64             `json:"thread_exceptions_total"`
	// Warnings counts the calls of warnings.warn and warnings.warn_explicit, by
	// whatever code and whether they were shown or not, and the interpreter's own
	// warnings that were shown.
	Warnings int64 `json:"warnings"`
	// Unraisable counts exceptions that had nobody to go to, as from __del__.
	Unraisable int64 `json:"unraisable"`
	// EffectsTotal counts what a result's effects list, also what is past the bounds of that list.
	EffectsTotal EffectsTotal `json:"effects_total"`
}

// Edge is a caller, a callee, and how often the one called the other.
type Edge struct {
	Caller string `json:"caller"`
	Callee string `json:"callee"`
	Count  int64  `json:"count"`
}

// Loop is a loop and how often its body was entered.
type Loop struct {
	File       string `json:"file"`
	Line       int    `json:"line"`
	Iterations int64  `json:"iterations"`
}

// Exception is an uncaught exception, or one in another's chain.
type Exception struct {
	// Type is the name as CPython prints it.
	Type    string `json:"type"`
	Message string `json:"message"`
	// File, Line, Column and Function are of the innermost user frame.
	File      string           `json:"file"`
	Line      int              `json:"line"`
	Column    *int             `json:"column"`
	Function  string           `json:"function"`
	Traceback []TracebackFrame `json:"traceback"`
	Cause     *Exception       `json:"cause"`
	Context   *Exception       `json:"context"`
	Group     []*Exception     `json:"group"`
}

// TracebackFrame is one frame of a traceback, outermost first.
type TracebackFrame struct {
	File     string `json:"file"`
	Line     int    `json:"line"`
	Function string `json:"function"`
	Source   string `json:"source"`
	Library  bool   `json:"library,omitempty"`
}

package trace

// Effect is something outside itself that the program reached for. Equal ones
// are one Effect, told where and when it was the first time.
type Effect struct {
	// Kind is file, socket or process.
	Kind EffectKind `json:"kind"`
	// Action is what was done. With a file: read, write, append, create, update
	// (opened for these), remove, rename, mkdir, rmdir, link, symlink, truncate,
	// list, chmod. With a socket: open, connect, bind, send, resolve. With a process: run, shell,
	// spawn, exec, fork.
	Action string `json:"action"`
	// Name is a path, an address or a command as the program gave it, at most 200
	// characters; "" for a socket that was only opened, and for fork.
	Name string `json:"name"`
	// Family is the address family of a socket, as AF_INET; "" when unknown.
	Family string `json:"family,omitempty"`
	// Error is the name of the error, as ENOENT, with which it failed the first time that it did; nil when none was seen.
	Error *string `json:"error"`
	// Times is how often it was tried, Failures how often an error was seen.
	Times    int64 `json:"times"`
	Failures int64 `json:"failures"`
	// File, Line and Function are of the innermost user frame; empty in a thread that runs none.
	File     string `json:"file"`
	Line     int    `json:"line"`
	Function string `json:"function"`
	Thread   int    `json:"thread"`
	// Seq is the number of the last event before it.
	Seq int64 `json:"seq"`
}

// EffectKind is what an Effect concerns.
type EffectKind string

// The kinds of effects.
const (
	EffectFile    EffectKind = "file"
	EffectSocket  EffectKind = "socket"
	EffectProcess EffectKind = "process"
)

// EffectsTotal counts how often the program reached for things of each kind.
type EffectsTotal struct {
	File    int64 `json:"file"`
	Socket  int64 `json:"socket"`
	Process int64 `json:"process"`
}

// Raised is an exception that was raised in user code, or came into it.
type Raised struct {
	// Number counts exceptions from 1. A hole is where they are left out.
	Number  int64  `json:"number"`
	Type    string `json:"type"`
	Message string `json:"message"`
	// File, Line and Function say where in user code it was first.
	File     string `json:"file"`
	Line     int    `json:"line"`
	Function string `json:"function"`
	Thread   int    `json:"thread"`
	// Caught is false when it ended the program or a thread, or had nobody to go
	// to, and nil when the run ended before that was known.
	Caught *bool `json:"caught"`
	// Seq is the number of the last event before it.
	Seq int64 `json:"seq"`
}

// ThreadException is an exception that ended a thread other than the main one.
type ThreadException struct {
	Thread  int    `json:"thread"`
	Type    string `json:"type"`
	Message string `json:"message"`
	// File, Line and Function are of the innermost user frame; empty when there was none.
	File     string `json:"file"`
	Line     int    `json:"line"`
	Function string `json:"function"`
}

// fileActions, socketActions and processActions name the actions of notes, from their first number on.
var (
	fileActions = []string{"read", "write", "append", "create", "update", "remove", "rename", "mkdir", "rmdir", "link", "symlink", "truncate", "list", "chmod"}

	socketActions  = []string{"open", "connect", "bind", "send", "resolve"}
	processActions = []string{"run", "shell", "spawn", "exec", "fork"}
)

// action names an action of a kind of note; false when there is no such one.
func action(kind, number uint32) (EffectKind, string, bool) {
	what, names, first := EffectFile, fileActions, uint32(1)
	switch kind {
	case noteSocket:
		what, names, first = EffectSocket, socketActions, 32
	case noteProcess:
		what, names, first = EffectProcess, processActions, 64
	}
	if number < first || number-first >= uint32(len(names)) {
		return "", "", false
	}
	return what, names[number-first], true
}

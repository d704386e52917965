package archtest

// Rules are what a module is checked against. Packages are named by their
// folders.
type Rules struct {
	// Layers lists the packages of each layer, the lowest layer first. A
	// package imports lower layers only, and in its own layer nothing, except in an Ordered
	// layer, where it may import those that stand before it. Tests may import their siblings.
	Layers []Layer
	// OnlyIn says which packages may import a dependency.
	OnlyIn []OnlyIn
	// Closures says what a command must not reach through any chain of imports.
	Closures []Closure
	// TestHelpers are the packages that exist for tests: only test files, and other
	// test helpers, import them, and only they may import testing.
	TestHelpers []string
	// Calls lists what must not be called.
	Calls []Call
	// MaxFileLines and MaxFuncLines bound sizes.
	MaxFileLines, MaxFuncLines int
}

// Layer is a set of packages on one level.
type Layer struct {
	Name     string
	Packages []string
	// Ordered lets a package import those before it in Packages.
	Ordered bool
	// StandardOnly forbids imports from outside the module and the standard library.
	StandardOnly bool
	Reason       string
}

// OnlyIn restricts the import of a dependency, and all packages below its path.
type OnlyIn struct {
	Path     string
	Packages []string
	// Tests lets every test file import it too.
	Tests  bool
	Reason string
}

// Closure forbids a command to reach packages.
type Closure struct {
	Command string
	// Never lists import paths, or folders of the module, that must not be reached, nor what is below them.
	Never  []string
	Reason string
}

// Call is a function or method that must not be called, or mentioned at all.
type Call struct {
	// Package is the import path of a function, empty for a method of whatever type.
	Package string
	Names   []string
	// Files says which files are concerned.
	Files  FileKind
	Except []string // folders, or files
	// Unless lifts the rule in folders of which some file imports this package.
	Unless string
	Reason string
}

// FileKind selects files.
type FileKind int

// The kinds of files. Shipped ones are those that are not tests and not in test helpers.
const (
	AllFiles FileKind = iota
	ShippedFiles
	// LibraryFiles are shipped files that are not of a package main.
	LibraryFiles
	TestFiles
)

// Module is the path of this module.
const Module = "github.com/execra/tracefleet"

// Tracefleet returns the rules of this module. A new package gets a place in
// Layers before it compiles past the test.
func Tracefleet() Rules {
	return Rules{
		Layers:       layers(),
		OnlyIn:       onlyIn(),
		Closures:     closures(),
		TestHelpers:  []string{"internal/archtest", "internal/chaos", "internal/e2e", "internal/e2e/scenario", "internal/redistest", "internal/sandbox/fake", "internal/sandbox/sandboxtest"},
		Calls:        append(dangerousCalls(), styleCalls()...),
		MaxFileLines: 600,
		MaxFuncLines: 100,
	}
}

func layers() []Layer {
	return []Layer{
		{
			Name: "support", Packages: []string{"internal/buildinfo", "internal/detach", "internal/oneline", "internal/ops", "internal/cli"}, Ordered: true,
			Reason: "small helpers without knowledge of jobs, for everybody above",
		},
		{
			Name: "contracts", Packages: []string{"internal/wire", "internal/trace", "internal/job", "internal/sandbox"},
			Ordered: true, StandardOnly: true,
			Reason: "everything depends on the contracts, so they depend on nothing that can change under them",
		},
		{
			Name: "adapters", Packages: []string{
				"internal/sandbox/docker", "internal/sandbox/pool", "internal/sandbox/budget", "internal/sandbox/canary", "internal/sandbox/fake", "internal/sandbox/sandboxtest",
				"internal/queue", "internal/ledger", "internal/roster", "internal/session", "internal/render", "internal/redistest",
			},
			Reason: "an adapter knows one outside system; what joins two of them belongs above",
		},
		{
			Name: "joints", Packages: []string{"internal/ticket"},
			Reason: "what several kinds of work need of two adapters together",
		},
		{
			Name: "work", Packages: []string{
				"internal/runner", "internal/intake", "internal/batch", "internal/deadletter", "internal/reconcile", "internal/census", "internal/doctor", "internal/webhook",
			},
			Reason: "each does one thing with the adapters and can be read without the others",
		},
		{
			Name: "front", Packages: []string{"internal/api/viewer", "internal/api/monitor", "internal/api/access", "internal/api"}, Ordered: true,
			Reason: "the HTTP API serves what the layer below does; its parts do not know each other",
		},
		{
			Name: "commands", Packages: []string{"worker", "enqueuer", "sandbox-image/supervisor", "deploy/setup/testcount", "deploy/setup/addruntime", "deploy/setup/attackreport", "deploy/socketproxy", "deploy/bench"},
			Reason: "main packages wire things up; nobody imports them",
		},
		{
			Name: "whole", Packages: []string{"internal/archtest", "sandbox-image/tracer", "clients/python", "internal/e2e/scenario", "internal/e2e", "internal/chaos"}, Ordered: true,
			Reason: "tests of everything together",
		},
	}
}

func onlyIn() []OnlyIn {
	return []OnlyIn{
		{
			Path: "github.com/hibiken/asynq", Tests: true, Packages: []string{"internal/queue", "deploy/bench"},
			Reason: "asynq has traps that only one package should have to know, and may be replaced one day; the benchmark compares with it alone, and tests do what operators do with it",
		},
		{
			Path: "github.com/hibiken/asynqmon", Packages: []string{"internal/api/monitor"},
			Reason: "asynqmon has no access control of its own and shows whole payloads unless told otherwise; one package fences it in",
		},
		{
			Path: "github.com/danielgtaylor/huma/v2", Packages: []string{"internal/api"},
			Reason: "it writes the OpenAPI document from Go types and does nothing else",
		},
		{
			Path: "github.com/docker/docker", Packages: []string{"internal/sandbox/docker", "deploy/bench"},
			Reason: "the engine's API is the right to do anything on the host; one package holds it, beside the benchmark, which compares with it alone",
		},
		{
			Path: "github.com/redis/go-redis/v9", Tests: true,
			Packages: []string{"internal/queue", "internal/ledger", "internal/roster", "internal/session", "internal/reconcile", "internal/webhook", "internal/redistest", "internal/doctor", "worker", "enqueuer", "deploy/bench"},
			Reason:   "commands build the client, queue and ledger use it; no type of it crosses a seam",
		},
		{
			Path: "github.com/alicebob/miniredis/v2", Packages: []string{"worker"}, Tests: true,
			Reason: "the embedded Redis is for trying things out with a single worker",
		},
		{
			Path: "github.com/alecthomas/kong", Packages: []string{"internal/cli", "worker", "enqueuer"},
			Reason: "command lines are the business of commands",
		},
	}
}

func closures() []Closure {
	return []Closure{
		{
			Command: "enqueuer",
			Never:   []string{"internal/sandbox/docker", "github.com/docker/docker", "internal/runner"},
			Reason:  "the enqueuer faces the network and must have no way to the engine",
		},
		{
			Command: "sandbox-image/supervisor",
			Never: []string{
				"internal/job", "internal/sandbox", "internal/queue", "internal/ledger", "internal/ops",
				"go.uber.org/zap", "github.com/redis/go-redis/v9", "github.com/docker/docker", "net/http",
			},
			Reason: "PID 1 of a sandbox starts in a millisecond, and what is not in it cannot be turned against it",
		},
	}
}

func dangerousCalls() []Call {
	return []Call{
		{
			Names:  []string{"CopyToContainer", "CopyFromContainer", "ContainerStatPath"},
			Reason: "the engine's archive API follows what a hostile program made of its files, as root; files travel in the JOB frame",
		},
		{
			Names:  []string{"ContainerExecCreate", "ContainerExecAttach", "ContainerExecStart", "ContainerCommit", "ContainerExport"},
			Reason: "a sandbox runs one supervisor and is then removed; nothing is run in it or taken out of it from outside",
		},
		{
			Package: "os", Names: []string{"Exit"}, Files: LibraryFiles,
			Reason: "defers would not run; only main ends the process",
		},
		{
			Package: "log", Names: []string{"Fatal", "Fatalf", "Fatalln", "Panic", "Panicf", "Panicln", "Print", "Printf", "Println"},
			Files: ShippedFiles, Reason: "the log is a *zap.Logger that is passed in",
		},
		{
			Package: "go.uber.org/zap", Names: []string{"L", "S", "ReplaceGlobals"},
			Reason: "the logger is passed in, never global",
		},
		{
			Package: "github.com/prometheus/client_golang/prometheus", Names: []string{"MustRegister", "Register", "DefaultRegisterer", "DefaultGatherer"},
			Reason: "two instances must live in one process; a registry is passed in",
		},
		{
			Package: "net/http", Names: []string{"Get", "Post", "Head", "PostForm", "DefaultClient", "DefaultServeMux", "Handle", "HandleFunc", "ListenAndServe"},
			Reason: "the defaults of net/http have no timeouts and are shared by everybody",
		},
	}
}

func styleCalls() []Call {
	return []Call{
		{
			Package: "context", Names: []string{"Background", "TODO"}, Files: LibraryFiles,
			// The last two are ended by Close, which by its nature has no context.
			Except: []string{"internal/detach", "internal/ledger/hub.go", "internal/sandbox/docker/close.go"},
			Reason: "a library works under its caller's context, or one from package detach, which has a deadline",
		},
		{
			Package: "time", Names: []string{"Sleep"}, Unless: "testing/synctest",
			Reason: "a sleep in a test is slow and flaky: poll with a deadline, or use synctest; elsewhere it ignores the context",
		},
		{
			Package: "fmt", Names: []string{"Print", "Printf", "Println"}, Files: ShippedFiles,
			Reason: "output goes to a writer that is passed in",
		},
		{
			Names: []string{"Skip", "Skipf", "SkipNow"}, Files: TestFiles,
			Reason: "a skipped test is an untested promise; a test that lacks something fails and says what to do",
		},
	}
}

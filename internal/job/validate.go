package job

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of a Job beside its Limits.
const (
	MaxFiles       = 100
	MaxSourceBytes = 1 << 20
	MaxStdinBytes  = 1 << 20
	MaxArgs        = 256
	MaxArgsBytes   = 64 << 10
	// MaxPathBytes and MaxPathSegmentBytes keep a path far inside what Linux takes.
	MaxPathBytes        = 1024
	MaxPathSegmentBytes = 255
	// MaxPathDepth bounds the folders of a job: MaxFiles times MaxPathDepth
	// must stay below the 4,096 inodes of the sandbox's /job.
	MaxPathDepth       = 16
	MaxIncludes        = 100
	MaxIDBytes         = 128
	MaxTenantBytes     = 64
	MaxNameChars       = 200
	MaxLabels          = 32
	MaxLabelKeyBytes   = 64
	MaxLabelValueChars = 256
	MinRetentionS      = 60
	MaxRetentionS      = 30 * 24 * 60 * 60
)

// keyPattern keeps ids, tenants and label keys safe inside Redis keys, URLs,
// file names and command lines. A leading dash or dot is left out for the last two.
var keyPattern = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._:-]*$`)

// Validate checks every rule of a complete Job, with max as the largest limits
// allowed; MaxLimits is the most a fleet ever allows. The error is a
// *ValidationError that lists every fault. An empty ID is allowed.
func (j Job) Validate(max Limits) error {
	var f faults
	j.check(&f, max)
	return f.err()
}

func (j Job) check(f *faults, max Limits) {
	if j.Language != LanguagePython {
		f.add("language", "must be %q, got %q", LanguagePython, shorten(j.Language, 40))
	}
	j.checkFiles(f)
	j.checkEntrypoint(f)
	j.checkInput(f)
	j.Limits.check(f, max)
	j.checkTrace(f)
	if !j.Queue.Valid() {
		f.add("queue", "must be one of interactive, default, batch, got %q", shorten(string(j.Queue), 40))
	}
	checkKey(f, "tenant", j.Tenant, MaxTenantBytes)
	checkKey(f, "id", j.ID, MaxIDBytes)
	checkLine(f, "name", j.Name, MaxNameChars)
	j.checkLabels(f)
	if j.RetentionS < MinRetentionS || j.RetentionS > MaxRetentionS {
		f.add("retention_s", "must be between %d and %d, got %d", MinRetentionS, MaxRetentionS, j.RetentionS)
	}
}

func (j Job) checkFiles(f *faults) {
	switch {
	case len(j.Files) == 0:
		f.add("files", "must hold at least one file")
	case len(j.Files) > MaxFiles:
		f.add("files", "must hold at most %d files, got %d", MaxFiles, len(j.Files))
		return
	}
	total := 0
	for _, path := range sortedKeys(j.Files) {
		field := join("files", path)
		if fault := pathFault(path); fault != "" {
			f.add(field, "%s", fault)
		} else if folder := fileAmongFolders(j.Files, path); folder != "" {
			f.add(field, "%s cannot be a file and a folder at once", folder)
		}
		if !utf8.ValidString(j.Files[path]) {
			f.add(field, "%s", notUTF8([]byte(j.Files[path])))
		}
		total += len(j.Files[path])
	}
	if total > MaxSourceBytes {
		f.add("files", "must hold at most %d bytes of source in all, got %d", MaxSourceBytes, total)
	}
}

// fileAmongFolders returns the leading part of path that is itself a file of the job.
func fileAmongFolders(files map[string]string, path string) string {
	for i, c := range path {
		if c != '/' {
			continue
		}
		if _, isFile := files[path[:i]]; isFile {
			return path[:i]
		}
	}
	return ""
}

func (j Job) checkEntrypoint(f *faults) {
	if fault := pathFault(j.Entrypoint); fault != "" {
		f.add("entrypoint", "%s", fault)
		return
	}
	if _, ok := j.Files[j.Entrypoint]; !ok && len(j.Files) > 0 {
		f.add("entrypoint", "must be one of the files, %q is not", shorten(j.Entrypoint, 80))
	}
}

func (j Job) checkInput(f *faults) {
	switch {
	case len(j.Stdin) > MaxStdinBytes:
		f.add("stdin", "must be at most %d bytes, got %d", MaxStdinBytes, len(j.Stdin))
	case !utf8.ValidString(j.Stdin):
		f.add("stdin", "%s", notUTF8([]byte(j.Stdin)))
	}
	if len(j.Args) > MaxArgs {
		f.add("args", "must be at most %d, got %d", MaxArgs, len(j.Args))
		return
	}
	total := 0
	for i, arg := range j.Args {
		field := fmt.Sprintf("args[%d]", i)
		switch {
		case strings.ContainsRune(arg, 0):
			f.add(field, "must not hold a NUL character")
		case !utf8.ValidString(arg):
			f.add(field, "%s", notUTF8([]byte(arg)))
		}
		total += len(arg) + 1
	}
	if total > MaxArgsBytes {
		f.add("args", "must be at most %d bytes in all, got %d", MaxArgsBytes, total)
	}
}

func (j Job) checkTrace(f *faults) {
	switch j.Trace.Mode {
	case TraceFull, TraceLines, TraceCalls, TraceOff:
	default:
		f.add("trace.mode", "must be one of full, lines, calls, off, got %q", shorten(string(j.Trace.Mode), 40))
	}
	if len(j.Trace.Include) > MaxIncludes {
		f.add("trace.include", "must be at most %d, got %d", MaxIncludes, len(j.Trace.Include))
		return
	}
	for i, path := range j.Trace.Include {
		field := fmt.Sprintf("trace.include[%d]", i)
		if path == "." {
			continue
		}
		if fault := pathFault(path); fault != "" {
			f.add(field, "%s", fault)
		} else if !fileOrFolder(j.Files, path) {
			f.add(field, "must be a file or a folder of the job")
		}
	}
}

func fileOrFolder(files map[string]string, path string) bool {
	for file := range files {
		if file == path || strings.HasPrefix(file, path+"/") {
			return true
		}
	}
	return false
}

func (j Job) checkLabels(f *faults) {
	if len(j.Labels) > MaxLabels {
		f.add("labels", "must be at most %d, got %d", MaxLabels, len(j.Labels))
		return
	}
	for _, key := range sortedKeys(j.Labels) {
		field := join("labels", key)
		if key == "" {
			f.add(field, "must have a key that is not empty")
		}
		checkKey(f, field, key, MaxLabelKeyBytes)
		checkLine(f, field, j.Labels[key], MaxLabelValueChars)
	}
}

// pathFault says what is wrong with the path of a file, or nothing.
func pathFault(path string) string {
	switch {
	case path == "":
		return "must not be empty"
	case len(path) > MaxPathBytes:
		return fmt.Sprintf("must be at most %d bytes", MaxPathBytes)
	case !utf8.ValidString(path):
		return notUTF8([]byte(path))
	case strings.HasPrefix(path, "/"):
		return "must be relative"
	case strings.ContainsRune(path, '\\'):
		// Legal on Linux, but far more often a Windows path that would
		// become one file with an odd name.
		return `must not hold a backslash; folders are divided by "/"`
	case strings.ContainsFunc(path, unicode.IsControl):
		return "must not hold control characters"
	}
	segments := strings.Split(path, "/")
	if len(segments) > MaxPathDepth {
		return fmt.Sprintf("must be at most %d folders deep", MaxPathDepth)
	}
	for _, s := range segments {
		switch {
		case s == "":
			return "must not have an empty part"
		case s == "." || s == "..":
			return fmt.Sprintf("must not have %q as a part", s)
		case len(s) > MaxPathSegmentBytes:
			return fmt.Sprintf("must have parts of at most %d bytes", MaxPathSegmentBytes)
		}
	}
	return ""
}

// checkKey checks a value that becomes part of Redis keys and URLs. Empty is allowed.
func checkKey(f *faults, field, value string, maxBytes int) {
	switch {
	case len(value) > maxBytes:
		f.add(field, "must be at most %d characters, got %d", maxBytes, len(value))
	case value != "" && !keyPattern.MatchString(value):
		f.add(field, "must hold only letters and digits of ASCII, and . _ : - but not begin with . : -")
	}
}

// checkLine checks a value that is shown to people as part of one line.
func checkLine(f *faults, field, value string, maxChars int) {
	switch {
	case !utf8.ValidString(value):
		f.add(field, "%s", notUTF8([]byte(value)))
	case utf8.RuneCountInString(value) > maxChars:
		f.add(field, "must be at most %d characters", maxChars)
	case strings.ContainsFunc(value, func(r rune) bool { return !unicode.IsPrint(r) }):
		f.add(field, "must hold printable characters only")
	}
}

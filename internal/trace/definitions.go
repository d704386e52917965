package trace

import (
	"encoding/json"
	"slices"
	"strings"
)

const (
	maxName      = 1024
	maxLine      = 10_000_000
	maxArguments = 64
)

// functionKinds are the values of Function.Kind.
var functionKinds = []string{"function", "module", "class", "lambda", "genexpr", "generator", "coroutine", "async_generator"}

type file struct {
	File
	// known is true when the job has the file's source, so that Lines is certain.
	known bool
}

type code struct {
	Function
	// shown is the function's name in a summary.
	shown string
	// calls is the counter of its calls; those of its lines follow it.
	calls int
	// variables are the names of its variables, by their place in the frame.
	variables []string
	// runs are the first and last lines of the runs of lines that have counters.
	runs [][2]int
}

type loop struct {
	code, line int
	slots      []int
}

type edge struct{ caller, callee, slot int }

// definition reads one record of the definitions' area.
func (d *decoder) definition(payload []byte) error {
	list, err := items(payload)
	if err != nil || len(list) == 0 {
		return errRecord
	}
	kind, err := text(list[0], maxName)
	if err != nil {
		return err
	}
	read, ok := map[string]struct {
		fields int
		read   func([]json.RawMessage) error
	}{
		"producer":  {2, d.defineProducer},
		"file":      {2, d.defineFile},
		"code":      {9, d.defineCode},
		"loop":      {3, d.defineLoop},
		"edge":      {3, d.defineEdge},
		"exception": {2, d.defineException},
	}[kind]
	if !ok || len(list)-1 != read.fields {
		return errRecord
	}
	return read.read(list[1:])
}

func (d *decoder) defineProducer(fields []json.RawMessage) (err error) {
	var tracer, python string
	if tracer, err = text(fields[0], maxName); err != nil {
		return err
	}
	if python, err = text(fields[1], maxName); err != nil {
		return err
	}
	d.producer = Producer{Tracer: tracer, Python: python, Trust: trustInProcess}
	return nil
}

// trustInProcess labels what was recorded inside the program's own interpreter.
const trustInProcess = "in-process"

func (d *decoder) defineFile(fields []json.RawMessage) error {
	next := int64(len(d.files) + 1)
	if _, err := integer(fields[0], next, next); err != nil {
		return err
	}
	path, err := text(fields[1], maxName)
	if err != nil {
		return err
	}
	f := &file{File: File{ID: int(next), Path: path}}
	if source, ok := d.opts.Files[path]; ok && !slices.ContainsFunc(d.files, func(f *file) bool { return f.Path == path }) {
		f.Lines, f.known = len(SplitLines(source)), true
	}
	d.files = append(d.files, f)
	return nil
}

// defineCode reads number, file, line, name, kind, arguments, counter, runs of lines and variables.
func (d *decoder) defineCode(fields []json.RawMessage) error {
	next := int64(len(d.codes) + 1)
	var n [4]int64
	for i, f := range []struct {
		field     int
		low, high int64
	}{{0, next, next}, {1, 1, int64(len(d.files))}, {2, 0, maxLine}, {6, int64(max(d.nextSlot, firstFreeCounter)), int64(len(d.counters)) - 1}} {
		var err error
		if n[i], err = integer(fields[f.field], f.low, f.high); err != nil {
			return err
		}
	}
	name, err := text(fields[3], maxName)
	if err != nil {
		return err
	}
	kind, err := text(fields[4], maxName)
	if err != nil || !slices.Contains(functionKinds, kind) {
		return errRecord
	}
	arguments, err := texts(fields[5], maxArguments)
	if err != nil {
		return err
	}
	variables, err := texts(fields[8], maxVariables)
	if err != nil {
		return err
	}
	c := &code{
		Function: Function{ID: int(next), Name: name, File: int(n[1]), Line: int(n[2]), Kind: kind, Args: arguments},
		calls:    int(n[3]), variables: variables,
	}
	if err := d.readRuns(c, fields[7]); err != nil {
		return err
	}
	c.shown = name
	if f := d.files[c.File-1]; f.Path != d.opts.Entrypoint {
		c.shown = f.Path + ":" + name
	}
	d.codes = append(d.codes, c)
	return nil
}

// readRuns reads the lines that have counters: first and last line of each run, in order.
func (d *decoder) readRuns(c *code, raw json.RawMessage) error {
	list, err := items(raw)
	if err != nil || len(list)%2 != 0 {
		return errRecord
	}
	count, after := 0, int64(1)
	for i := 0; i < len(list); i += 2 {
		first, err := integer(list[i], after, maxLine)
		if err != nil {
			return err
		}
		last, err := integer(list[i+1], first, maxLine)
		if err != nil {
			return err
		}
		after = last + 1
		count += int(last - first + 1)
		c.runs = append(c.runs, [2]int{int(first), int(last)})
	}
	if c.calls+count >= len(d.counters) {
		return errRecord
	}
	d.nextSlot = c.calls + count + 1
	f := d.files[c.File-1]
	if last := int(after - 1); last > f.Lines {
		// The program runs another text than the job's, or text of its own.
		f.Lines, f.known = last, false
	}
	return nil
}

// defineLoop reads a function, the line of the loop's header, and the counters
// whose sum says how often its body was entered.
func (d *decoder) defineLoop(fields []json.RawMessage) error {
	code, err := integer(fields[0], 1, int64(len(d.codes)))
	if err != nil {
		return err
	}
	line, err := integer(fields[1], 1, maxLine)
	if err != nil {
		return err
	}
	list, err := items(fields[2])
	if err != nil || len(list) == 0 || len(list) > 2 {
		return errRecord
	}
	l := loop{code: int(code), line: int(line)}
	for _, raw := range list {
		slot, err := integer(raw, firstFreeCounter, int64(len(d.counters))-1)
		if err != nil {
			return err
		}
		l.slots = append(l.slots, int(slot))
	}
	d.loops = append(d.loops, l)
	return nil
}

// defineEdge reads caller, callee and counter.
func (d *decoder) defineEdge(fields []json.RawMessage) error {
	known := int64(len(d.codes))
	caller, err := integer(fields[0], 1, known)
	if err != nil {
		return err
	}
	callee, err := integer(fields[1], 1, known)
	if err != nil {
		return err
	}
	slot, err := integer(fields[2], firstFreeCounter, int64(len(d.counters))-1)
	if err != nil {
		return err
	}
	d.edges = append(d.edges, edge{caller: int(caller), callee: int(callee), slot: int(slot)})
	return nil
}

func (d *decoder) fileList() []File {
	files := make([]File, len(d.files))
	for i, f := range d.files {
		files[i] = f.File
	}
	return files
}

func (d *decoder) functionList() []Function {
	functions := make([]Function, len(d.codes))
	for i, c := range d.codes {
		functions[i] = c.Function
	}
	return functions
}

// texts reads a list of strings.
func texts(raw json.RawMessage, limit int) ([]string, error) {
	list, err := items(raw)
	if err != nil || len(list) > limit {
		return nil, errRecord
	}
	out := make([]string, len(list))
	for i, item := range list {
		if out[i], err = text(item, maxName); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// SplitLines splits a source as CPython counts its lines: at every kind of line end, without a byte order mark, and a final
// line end starts no further line. An empty source has one line, which is empty.
func SplitLines(source string) []string {
	source = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimPrefix(source, "\ufeff"))
	return strings.Split(strings.TrimSuffix(source, "\n"), "\n")
}

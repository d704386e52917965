// Command attackreport turns what TestAttacks noted under each OCI runtime into
// one table, for people and for docs/security-report.md.
//
//	attackreport [-o docs/security-report.md] [-refused RUNTIME=REASON]... NOTES...
//
// It prints the table, and its exit status is 1 when an attack was not
// contained, or when a file of notes holds no attack.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/execra/tracefleet/internal/oneline"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "attackreport:", err)
		os.Exit(1)
	}
}

func run(args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("attackreport", flag.ContinueOnError)
	out := flags.String("o", "", "file to write the page to")
	refused := map[string]string{}
	flags.Func("refused", "RUNTIME=REASON for a runtime that the engine does not take", func(text string) error {
		name, reason, ok := strings.Cut(text, "=")
		if !ok {
			return errors.New("want RUNTIME=REASON")
		}
		refused[name] = oneLine(reason)
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return err
	}
	var r report
	for _, path := range flags.Args() {
		if err := r.read(path); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	if len(r.machines) == 0 {
		return errors.New("no notes of any runtime")
	}
	r.refused = refused
	if err := r.table(stdout); err != nil {
		return err
	}
	if *out != "" {
		if err := os.WriteFile(*out, []byte(r.page()), 0o644); err != nil {
			return err
		}
	}
	if n := r.failures(); n > 0 {
		return fmt.Errorf("%d attacks were not contained as they should be", n)
	}
	return nil
}

// machine is the first line of a file of notes.
type machine struct {
	Runtime        string `json:"runtime"`
	RuntimeVersion string `json:"runtime_version"`
	Engine         string `json:"engine"`
	Kernel         string `json:"kernel"`
	System         string `json:"system"`
	Cgroup         string `json:"cgroup"`
	Image          string `json:"image"`
}

// note is one attack under one runtime.
type note struct {
	Runtime    string   `json:"runtime"`
	Attack     string   `json:"attack"`
	Wanted     []string `json:"wanted"`
	Got        string   `json:"got"`
	OK         int      `json:"ok"`
	Breaches   int      `json:"breaches"`
	Advisories int      `json:"advisories"`
	Residue    []string `json:"residue"`
	Contained  bool     `json:"contained"`
}

// report is everything that was noted.
type report struct {
	machines []machine
	notes    map[string]map[string]note // by attack, then by runtime
	refused  map[string]string
}

func (r *report) read(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // opened to read
	lines := bufio.NewScanner(file)
	var m machine
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &m) != nil || m.Engine == "" {
		return errors.New("it does not begin with what it was made on")
	}
	r.machines = append(r.machines, m)
	if r.notes == nil {
		r.notes = map[string]map[string]note{}
	}
	attacks := 0
	for ; lines.Scan(); attacks++ {
		var n note
		if err := json.Unmarshal(lines.Bytes(), &n); err != nil {
			return err
		}
		if r.notes[n.Attack] == nil {
			r.notes[n.Attack] = map[string]note{}
		}
		r.notes[n.Attack][n.Runtime] = n
	}
	if attacks == 0 {
		return errors.New("no attack in it")
	}
	return lines.Err()
}

func (r *report) attacks() []string { return slices.Sorted(maps.Keys(r.notes)) }

func (r *report) failures() (n int) {
	for _, by := range r.notes {
		for _, m := range r.machines {
			if note, found := by[m.Runtime]; !found || !note.Contained {
				n++
			}
		}
	}
	return n
}

// cell says in a few words how an attack ended under a runtime.
func (r *report) cell(attack, runtime string) string {
	n, found := r.notes[attack][runtime]
	if !found {
		return "NOT RUN"
	}
	text := n.Got
	switch {
	case !n.Contained && n.Breaches > 0:
		text = "BREACH, " + text
	case !n.Contained && len(n.Residue) > 0:
		text = "RESIDUE, " + text
	case !n.Contained:
		text = "WRONG, " + text
	}
	if n.Advisories > 0 {
		text += fmt.Sprintf(" (%d to note)", n.Advisories)
	}
	return text
}

// wanted is what is wanted of an attack under each runtime, once if it is the same.
func (r *report) wanted(attack string) string {
	var each []string
	for _, m := range r.machines {
		text := strings.Join(r.notes[attack][m.Runtime].Wanted, " or ")
		if !slices.Contains(each, text) && text != "" {
			each = append(each, text)
		}
	}
	return strings.Join(each, "; ")
}

func (r *report) table(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	// Errors come back from Flush.
	_, _ = fmt.Fprint(table, "ATTACK\tWANTED")
	for _, m := range r.machines {
		_, _ = fmt.Fprintf(table, "\t%s", strings.ToUpper(m.Runtime))
	}
	_, _ = fmt.Fprintln(table)
	for _, attack := range r.attacks() {
		_, _ = fmt.Fprintf(table, "%s\t%s", attack, r.wanted(attack))
		for _, m := range r.machines {
			_, _ = fmt.Fprintf(table, "\t%s", r.cell(attack, m.Runtime))
		}
		_, _ = fmt.Fprintln(table)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, name := range r.refusedNames() {
		if _, err := fmt.Fprintf(w, "%s: not accepted by this engine: %s\n", name, r.refused[name]); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "%d attacks under %d runtimes, %d not contained\n", len(r.notes), len(r.machines), r.failures())
	return err
}

func (r *report) refusedNames() []string { return slices.Sorted(maps.Keys(r.refused)) }

// page is docs/security-report.md.
func (r *report) page() string {
	var b strings.Builder
	b.WriteString("# The attacks, and what became of them\n\n" +
		"Written by `make attack`; not to be edited. Each attack is a program below `internal/e2e/testdata/attacks`. It was submitted, run by a\n" +
		"worker and fetched like any job. It counts as contained when its verdict is one of those wanted, none of its probes got through, the next job\n" +
		"on the same worker was clean and right, and the host kept no process, mount, cgroup or file of a sandbox that was gone. What is to be\n" +
		"noted is documented in [security.md](security.md), or is something that an image could hide but need not.\n\n" +
		"| runtime | version | engine | kernel | system | cgroups |\n|---|---|---|---|---|---|\n")
	for _, m := range r.machines {
		fmt.Fprintf(&b, "| %s | %s | Docker %s | %s | %s | %s |\n", m.Runtime, m.RuntimeVersion, m.Engine, m.Kernel, m.System, m.Cgroup)
	}
	for _, name := range r.refusedNames() {
		fmt.Fprintf(&b, "\n%s was not accepted by this engine: %s.\n", name, strings.TrimSuffix(r.refused[name], "."))
	}
	fmt.Fprintf(&b, "\n%d attacks, %d not contained.\n\n| attack | wanted |", len(r.notes), r.failures())
	for _, m := range r.machines {
		fmt.Fprintf(&b, " %s |", m.Runtime)
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---|", len(r.machines)) + "\n")
	for _, attack := range r.attacks() {
		fmt.Fprintf(&b, "| %s | %s |", strings.ReplaceAll(attack, "_", " "), r.wanted(attack))
		for _, m := range r.machines {
			fmt.Fprintf(&b, " %s |", r.cell(attack, m.Runtime))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func oneLine(s string) string { return oneline.Of(s, 1000) }

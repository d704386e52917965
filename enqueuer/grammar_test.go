package main

import (
	"encoding"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/execra/tracefleet/internal/cli"
	"github.com/execra/tracefleet/internal/job"
)

func TestHelp(t *testing.T) {
	t.Parallel()
	for _, of := range append(commands(reflect.TypeFor[grammar](), ""), "") {
		t.Run("of"+of, func(t *testing.T) {
			t.Parallel()
			got := command(t.Context(), nil, "", append(strings.Fields(of), "--help")...)
			if got.code != cli.CodeDone || got.stderr != "" {
				t.Errorf("got code %d, stderr %q, want 0 and nothing", got.code, got.stderr)
			}
			golden(t, "help"+strings.ReplaceAll(of, " ", "_")+".txt", got.stdout)
		})
	}
}

// commands are all commands of a grammar, each with those it is below and a blank before each word.
func commands(grammar reflect.Type, above string) (all []string) {
	for i := range grammar.NumField() {
		f := grammar.Field(i)
		if _, ok := f.Tag.Lookup("cmd"); ok {
			name := above + " " + strings.ToLower(f.Name)
			all = append(append(all, name), commands(f.Type, name)...)
		}
	}
	return all
}

// The help names the least, the largest and the usual value of each limit.
func TestHelpNamesTheLimits(t *testing.T) {
	t.Parallel()
	named := regexp.MustCompile(`, (\S+) to (\S+) \((\S+)\)`)
	for i, want := range []job.Limits{job.MinLimits(), job.MaxLimits(), job.DefaultLimits()} {
		var flags limitFlags
		fields := reflect.ValueOf(&flags).Elem()
		for n := range fields.NumField() {
			help := fields.Type().Field(n).Tag.Get("help")
			values := named.FindStringSubmatch(help)
			if values == nil {
				t.Fatalf("no values in: %s", help)
			}
			fields.Field(n).Set(parsed(t, fields.Type().Field(n).Type.Elem(), values[1+i]))
		}
		if diff := cmp.Diff(want, flags.limits(job.MaxLimits())); diff != "" {
			t.Errorf("value %d of each help (-want +got):\n%s", 1+i, diff)
		}
	}
}

// parsed is a pointer to what a flag of a type makes of a text.
func parsed(t *testing.T, of reflect.Type, text string) reflect.Value {
	t.Helper()
	to := reflect.New(of)
	var err error
	if reader, ok := to.Interface().(encoding.TextUnmarshaler); ok {
		err = reader.UnmarshalText([]byte(text))
	} else {
		var n int64
		n, err = strconv.ParseInt(text, 10, 64)
		to.Elem().SetInt(n)
	}
	if err != nil {
		t.Fatal(err)
	}
	return to
}

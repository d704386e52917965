package main

import (
	"encoding"
	"reflect"
	"regexp"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/execra/tracefleet/internal/job"
)

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

package docker

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	"github.com/google/go-cmp/cmp"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/sandbox"
)

// echo is what an engine that took everything as asked would say.
func echo(t testing.TB, asked spec) container.InspectResponse {
	t.Helper()
	got := container.InspectResponse{
		ContainerJSONBase: &container.ContainerJSONBase{
			Image: asked.Config.Image, State: &container.State{Running: true}, HostConfig: &container.HostConfig{},
		},
		Config:          &container.Config{},
		NetworkSettings: &container.NetworkSettings{},
	}
	for from, to := range map[any]any{asked.Config: got.Config, asked.HostConfig: got.HostConfig} {
		text, err := json.Marshal(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, to); err != nil {
			t.Fatal(err)
		}
	}
	return got
}

func defaultSpec() spec {
	return newSpec(Config{CgroupParent: "/fleet"}.WithDefaults(), job.DefaultLimits(), testHost(), testTag())
}

func TestReadBackAcceptsWhatWasAsked(t *testing.T) {
	t.Parallel()
	asked := defaultSpec()
	got := echo(t, asked)
	// What engines say in other words for the same thing.
	got.HostConfig.LogConfig.Config = map[string]string{}
	got.HostConfig.Binds, got.HostConfig.CapAdd = []string{}, []string{}
	got.HostConfig.OomKillDisable = nil // on cgroup v2
	got.HostConfig.Init = nil
	got.NetworkSettings.Networks = map[string]*network.EndpointSettings{"none": {}}
	if diffs := readBack(asked, got); len(diffs) > 0 {
		t.Errorf("got differences %+v, want none", diffs)
	}
}

// TestReadBackIsCheap counts allocations, which a busy machine does not blur: each launch reads its settings back.
func TestReadBackIsCheap(t *testing.T) { // not parallel: all goroutines are counted
	asked := defaultSpec()
	got := echo(t, asked)
	const most = 150 // by way of JSON there are 1,300
	if n := testing.AllocsPerRun(20, func() { readBack(asked, got) }); n > most {
		t.Errorf("got %v allocations for an answer that is as asked, want at most %d", n, most)
	}
}

func BenchmarkReadBack(b *testing.B) {
	asked := defaultSpec()
	got := echo(b, asked)
	b.ReportAllocs()
	for b.Loop() {
		if diffs := readBack(asked, got); len(diffs) > 0 {
			b.Fatalf("got differences %+v, want none", diffs)
		}
	}
}

// TestReadBackRefusesEveryChange sets each setting that was asked for to
// nothing, and each that was not to something.
func TestReadBackRefusesEveryChange(t *testing.T) {
	t.Parallel()
	asked := defaultSpec()
	// Zero and unset mean the same, so these cannot be lost, only changed.
	mayBeUnset := map[string]bool{
		"HostConfig.OomKillDisable": true, "HostConfig.Init": true, "Config.StopTimeout": true,
	}
	var count int
	for _, half := range []struct {
		name string
		of   func(container.InspectResponse) reflect.Value
	}{
		{"Config", func(c container.InspectResponse) reflect.Value { return reflect.ValueOf(c.Config).Elem() }},
		{"HostConfig", func(c container.InspectResponse) reflect.Value { return reflect.ValueOf(c.HostConfig).Elem() }},
	} {
		for _, index := range reflect.VisibleFields(half.of(echo(t, asked)).Type()) {
			if index.Anonymous {
				continue
			}
			field := half.name + "." + index.Name
			got := echo(t, asked)
			value := half.of(got).FieldByIndex(index.Index)
			set := !value.IsZero()
			if set && !mayBeUnset[field] {
				value.SetZero()
				if diffs := readBack(asked, got); len(diffs) == 0 {
					t.Errorf("%s unset: not noticed", field)
				}
				count++
			}
			got = echo(t, asked)
			value = half.of(got).FieldByIndex(index.Index)
			fill(t, value)
			diffs := readBack(asked, got)
			if len(diffs) == 0 {
				t.Errorf("%s changed to %+v: not noticed", field, value.Interface())
				continue
			}
			if !strings.HasPrefix(strings.ToLower(diffs[0].Field), strings.ToLower(half.name+".")) {
				t.Errorf("%s changed: reported as %s", field, diffs[0].Field)
			}
			count++
		}
	}
	if count < 90 {
		t.Errorf("tried %d changes, want every field of both halves", count)
	}
}

// fill sets v to a value that neither is zero nor was asked for.
func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 7)
	case reflect.Uint, reflect.Uint16, reflect.Uint64:
		v.SetUint(v.Uint() + 7)
	case reflect.String:
		v.SetString(v.String() + "changed")
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		fill(t, v.Elem())
	case reflect.Slice:
		v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
		fill(t, v.Index(v.Len()-1))
	case reflect.Array:
		fill(t, v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(t, key)
		if value.Kind() != reflect.Struct {
			fill(t, value)
		}
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
		v.SetMapIndex(key, value)
	case reflect.Struct:
		fill(t, v.Field(0))
	default:
		t.Fatalf("cannot fill a %s", v.Type())
	}
}

func TestReadBackRefusesOtherFacts(t *testing.T) {
	t.Parallel()
	asked := defaultSpec()
	for name, change := range map[string]func(*container.InspectResponse){
		"Image":  func(c *container.InspectResponse) { c.Image = "sha256:other" },
		"Mounts": func(c *container.InspectResponse) { c.Mounts = []container.MountPoint{{Destination: "/host"}} },
		"NetworkSettings.Networks": func(c *container.InspectResponse) {
			c.NetworkSettings.Networks = map[string]*network.EndpointSettings{"bridge": {}}
		},
		"Config.Image":                       func(c *container.InspectResponse) { c.Config = nil },
		"HostConfig.CapDrop":                 func(c *container.InspectResponse) { c.HostConfig = nil },
		"Container":                          func(c *container.InspectResponse) { c.ContainerJSONBase = nil },
		"HostConfig.Ulimits":                 func(c *container.InspectResponse) { c.HostConfig.Ulimits[0].Hard = -1 },
		"HostConfig.Tmpfs./tmp":              func(c *container.InspectResponse) { c.HostConfig.Tmpfs["/tmp"] = "rw" },
		"Config.Labels.dev.tracefleet.fleet": func(c *container.InspectResponse) { delete(c.Config.Labels, LabelFleet) },
	} {
		got := echo(t, asked)
		change(&got)
		diffs := readBack(asked, got)
		var fields []string
		for _, d := range diffs {
			fields = append(fields, d.Field)
		}
		if !strings.Contains(" "+strings.Join(fields, " ")+" ", " "+name+" ") {
			t.Errorf("%s changed: got %v", name, fields)
		}
	}
}

func TestRefusedErrorTellsAll(t *testing.T) {
	t.Parallel()
	err := error(&RefusedError{
		Warnings:    []string{"no swap limit"},
		Differences: []Difference{{"HostConfig.Memory", "1", ""}, {"HostConfig.SecurityOpt", strings.Repeat("x", 5000), `["y"]`}},
	})
	if !errors.Is(err, sandbox.ErrRefused) {
		t.Error("it does not match ErrRefused")
	}
	text := err.Error()
	for _, want := range []string{"no swap limit", "HostConfig.Memory: asked for 1, engine says nothing", "HostConfig.SecurityOpt", `["y"]`} {
		if !strings.Contains(text, want) {
			t.Errorf("got %q, want %q in it", text, want)
		}
	}
	if len(text) > 1000 {
		t.Errorf("got %d bytes of error, want long values cut", len(text))
	}
}

func TestFlattenKeepsWhatMatters(t *testing.T) {
	t.Parallel()
	got := map[string]string{}
	flatten("X", tree(map[string]any{
		"zero": 0, "no": false, "empty": "", "null": nil, "list": []int{}, "size": []int{0, 0}, "map": map[string]int{},
		"one": 1, "yes": true, "text": "t", "order": []string{"b", "a"}, "deep": map[string]any{"er": -1, "zero": 0},
	}), got)
	want := map[string]string{"X.one": "1", "X.yes": "true", "X.text": `"t"`, "X.order": `["b","a"]`, "X.deep.er": "-1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

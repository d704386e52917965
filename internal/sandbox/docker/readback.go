package docker

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"

	"github.com/execra/tracefleet/internal/sandbox"
)

// Difference is one setting that the engine did not take as it was asked for.
type Difference struct {
	// Field is the setting's path in the engine's own names.
	Field string
	// Asked and Got are JSON; empty means unset.
	Asked string
	Got   string
}

// RefusedError says why a container that the engine made was not used: the
// engine warned, or what it says about the container is not what was asked
// for. It matches sandbox.ErrRefused.
type RefusedError struct {
	Warnings    []string
	Differences []Difference
}

// Error names every warning and every difference, cutting long values.
func (e *RefusedError) Error() string {
	var parts []string
	for _, w := range e.Warnings {
		parts = append(parts, fmt.Sprintf("the engine warned: %q", cut(w)))
	}
	for _, d := range e.Differences {
		parts = append(parts, fmt.Sprintf("%s: asked for %s, engine says %s", d.Field, shown(d.Asked), shown(d.Got)))
	}
	return sandbox.ErrRefused.Error() + ": " + strings.Join(parts, "; ")
}

// Unwrap makes the error match sandbox.ErrRefused.
func (e *RefusedError) Unwrap() error { return sandbox.ErrRefused }

func shown(text string) string {
	if text == "" {
		return "nothing"
	}
	return cut(text)
}

func cut(text string) string {
	const most = 200
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// readBack compares what the engine says about a started container with what
// it was asked for, and reports every difference. It compares everything there
// is in both halves of the configuration, so a setting that this package never
// names, or that a later engine adds, is refused unless it is unset.
func readBack(asked spec, got container.InspectResponse) []Difference {
	if got.ContainerJSONBase == nil {
		return []Difference{{Field: "Container", Asked: "present"}}
	}
	diffs := diffFields("Config", asked.Config, got.Config)
	diffs = append(diffs, diffFields("HostConfig", asked.HostConfig, got.HostConfig)...)
	facts := func(name, want, is string) {
		if want != is {
			diffs = append(diffs, Difference{Field: name, Asked: want, Got: is})
		}
	}
	facts("Image", asked.Config.Image, got.Image)
	for _, m := range got.Mounts {
		facts("Mounts", "", m.Destination)
	}
	if got.NetworkSettings != nil {
		for _, name := range slices.Sorted(maps.Keys(got.NetworkSettings.Networks)) {
			if name != "none" {
				facts("NetworkSettings.Networks", "", name)
			}
		}
	}
	return diffs
}

// diffFields compares two configurations field by field, in their JSON form.
func diffFields(name string, asked, got any) []Difference {
	if alike(reflect.ValueOf(asked), reflect.ValueOf(got)) {
		return nil
	}
	want, is := map[string]string{}, map[string]string{}
	flatten(name, tree(asked), want)
	flatten(name, tree(got), is)
	var diffs []Difference
	for _, field := range slices.Sorted(maps.Keys(want)) {
		if want[field] != is[field] {
			diffs = append(diffs, Difference{field, want[field], is[field]})
		}
	}
	for _, field := range slices.Sorted(maps.Keys(is)) {
		if _, ok := want[field]; !ok {
			diffs = append(diffs, Difference{field, "", is[field]})
		}
	}
	return diffs
}

// alike tells at a glance, for a tenth of the processor time, that two configurations do not differ, as those of nearly
// every launch. What it does not see to be the same, the JSON forms decide.
func alike(asked, got reflect.Value) bool {
	switch {
	case !asked.IsValid() || !got.IsValid() || asked.Type() != got.Type() || !asked.CanInterface():
		return false
	case unset(asked) && unset(got):
		return true
	}
	switch asked.Kind() {
	case reflect.Pointer:
		return !asked.IsNil() && !got.IsNil() && alike(asked.Elem(), got.Elem())
	case reflect.Struct:
		for i := range asked.NumField() {
			if !alike(asked.Field(i), got.Field(i)) {
				return false
			}
		}
		return true
	default:
		return reflect.DeepEqual(asked.Interface(), got.Interface())
	}
}

// unset tells whether a setting was not made: flatten has the same rules.
func unset(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer:
		return v.IsNil() || unset(v.Elem())
	case reflect.Map, reflect.Slice:
		return v.Len() == 0
	default:
		return v.IsZero()
	}
}

// tree is a value's JSON form as maps, slices and scalars; nil when there is none.
func tree(v any) any {
	text, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	var out any
	if json.Unmarshal(text, &out) != nil {
		return nil
	}
	return out
}

// flatten writes the leaves of a JSON tree to out by their path. Objects are
// descended into; lists are leaves, since their order matters. A field that
// is unset, null, zero or empty is left out: engines differ in which of these
// they answer for a setting that was not made, and they all mean that. An
// empty object further down is a leaf, though: sets such as Volumes are maps
// to empty objects.
func flatten(path string, v any, out map[string]string) {
	switch v := v.(type) {
	case nil:
	case map[string]any:
		if len(v) == 0 && strings.Count(path, ".") > 1 && path != "HostConfig.LogConfig.Config" {
			out[path] = "{}"
		}
		for key, child := range v {
			flatten(path+"."+key, child, out)
		}
	default:
		if list, ok := v.([]any); ok && allZero(list) {
			return
		}
		if v == any(false) || v == any("") || v == any(float64(0)) {
			return
		}
		text, err := json.Marshal(v)
		if err != nil {
			return
		}
		out[path] = string(text)
	}
}

// allZero tells whether a list holds nothing, or zeros only, as an unset
// ConsoleSize does.
func allZero(list []any) bool {
	return !slices.ContainsFunc(list, func(v any) bool { return v != any(float64(0)) })
}

package trace

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestVarsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	vars := Vars{{"z", Value(`1`)}, {"a", Value(`["REF",2]`)}, {"quote \" é", Value(`null`)}}
	data, err := json.Marshal(vars)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"z":1,"a":["REF",2],"quote \" é":null}`; string(data) != want {
		t.Errorf("got %s, want %s", data, want)
	}
	var back Vars
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(vars, back); diff != "" {
		t.Errorf("round trip (-want +got):\n%s", diff)
	}
}

func TestHeapKeepsItsOrder(t *testing.T) {
	t.Parallel()
	heap := Heap{{9, Value(`["LIST"]`)}, {2, Value(`["DICT",["a",1]]`)}}
	data, err := json.Marshal(heap)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"9":["LIST"],"2":["DICT",["a",1]]}`; string(data) != want {
		t.Errorf("got %s, want %s", data, want)
	}
	var back Heap
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(heap, back); diff != "" {
		t.Errorf("round trip (-want +got):\n%s", diff)
	}
}

func TestOrderedUnmarshal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text string
		vars       Vars
		heap       Heap
		varsFail   bool
		heapFail   bool
	}{
		{name: "null", text: `null`},
		{name: "empty", text: `{}`},
		{name: "doubled", text: `{"1":1,"2":2,"1":3}`, vars: Vars{{"1", Value("3")}, {"2", Value("2")}}, heap: Heap{{1, Value("3")}, {2, Value("2")}}},
		{name: "a list", text: `[1]`, varsFail: true, heapFail: true},
		{name: "a number", text: `1`, varsFail: true, heapFail: true},
		{name: "a name", text: `{"x":1}`, vars: Vars{{"x", Value("1")}}, heapFail: true},
		{name: "zero", text: `{"0":1}`, vars: Vars{{"0", Value("1")}}, heapFail: true},
		{name: "leading zero", text: `{"01":1}`, vars: Vars{{"01", Value("1")}}, heapFail: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var vars Vars
			if err := json.Unmarshal([]byte(c.text), &vars); (err != nil) != c.varsFail {
				t.Errorf("Vars: got error %v, want one: %v", err, c.varsFail)
			} else if err == nil {
				if diff := cmp.Diff(c.vars, vars); diff != "" {
					t.Errorf("Vars (-want +got):\n%s", diff)
				}
			}
			var heap Heap
			if err := json.Unmarshal([]byte(c.text), &heap); (err != nil) != c.heapFail {
				t.Errorf("Heap: got error %v, want one: %v", err, c.heapFail)
			} else if err == nil {
				if diff := cmp.Diff(c.heap, heap); diff != "" {
					t.Errorf("Heap (-want +got):\n%s", diff)
				}
			}
		})
	}
}

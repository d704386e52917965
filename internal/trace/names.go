package trace

// Names looks up the functions and files of a trace by their number.
type Names struct {
	functions map[int]Function
	files     map[int]File
}

// Names builds the look-up of t.
func (t *Trace) Names() Names {
	n := Names{functions: make(map[int]Function, len(t.Functions)), files: make(map[int]File, len(t.Files))}
	for _, f := range t.Functions {
		n.functions[f.ID] = f
	}
	for _, f := range t.Files {
		n.files[f.ID] = f
	}
	return n
}

// Function gives the function with the number id. An unknown one has the name "?".
func (n Names) Function(id int) Function {
	if f, ok := n.functions[id]; ok {
		return f
	}
	return Function{ID: id, Name: "?"}
}

// Path gives the path of the file with the number id, or "?" when there is none.
func (n Names) Path(id int) string {
	if f, ok := n.files[id]; ok {
		return f.Path
	}
	return "?"
}

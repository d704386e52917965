package doctor

// Canary is the row of a look into a sandbox from the inside, which gave err.
func Canary(err error) Row {
	if err != nil {
		return Row{Name: "canary", Status: Fail, Detail: err.Error(), Remedy: "a worker takes no jobs like this: put right what is named; docs/security.md says what each part is for"}
	}
	return Row{Name: "canary", Status: OK, Detail: "a sandbox holds what it promises, seen from the inside"}
}

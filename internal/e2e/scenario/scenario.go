package scenario

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"
)

// The files of a scenario folder that are not part of the program.
const (
	wantFile = "want.json"
	jobFile  = "job.json"
)

// wantUnder is the name of what a result must say under another OCI runtime.
var wantUnder = regexp.MustCompile(`^want\.([a-z0-9_-]+)\.json$`)

// Scenario is one program and what must come back for it.
type Scenario struct {
	// Name is the folder's name.
	Name string
	// Files are the program's files by slash-separated path.
	Files map[string]string
	// Want is what the result must say.
	Want Want

	// under holds what it must say instead under a certain OCI runtime.
	under map[string]Want

	// overrides are the top-level keys of job.json.
	overrides map[string]json.RawMessage
}

// Load reads the scenario in the folder dir. It refuses files that are not
// UTF-8 and anything in want.json that it does not understand.
func Load(dir string) (Scenario, error) {
	s := Scenario{Name: filepath.Base(dir), Files: map[string]string{}, under: map[string]Want{}}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Base(path.Dir(name)) == "__pycache__" {
			return err
		}
		data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		return s.add(name, data)
	})
	switch {
	case err != nil:
		return Scenario{}, fmt.Errorf("scenario %s: %w", s.Name, err)
	case s.Want.checks == nil:
		return Scenario{}, fmt.Errorf("scenario %s: no %s", s.Name, wantFile)
	case len(s.Files) == 0:
		return Scenario{}, fmt.Errorf("scenario %s: no program", s.Name)
	}
	return s, nil
}

// add puts one file of the folder where it belongs.
func (s *Scenario) add(name string, data []byte) (err error) {
	if !utf8.Valid(data) {
		return fmt.Errorf("%s: not UTF-8", name)
	}
	runtime := wantUnder.FindStringSubmatch(name)
	switch {
	case name == wantFile:
		s.Want, err = ParseWant(data)
	case runtime != nil:
		s.under[runtime[1]], err = ParseWant(data)
	case name == jobFile:
		s.overrides, err = object(data)
	default:
		s.Files[name] = string(data)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// LoadAll reads every folder below root as a scenario, in the order of their
// names. It reports all faults at once, and an empty root is one.
func LoadAll(root string) ([]Scenario, error) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, fmt.Errorf("list scenarios: %w", err)
	}
	var found []Scenario
	var faults []error
	for _, entry := range entries {
		if !entry.IsDir() || strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		s, err := Load(filepath.Join(root, entry.Name()))
		if err != nil {
			faults = append(faults, err)
			continue
		}
		found = append(found, s)
	}
	if len(found) == 0 && len(faults) == 0 {
		faults = append(faults, fmt.Errorf("no scenario in %s", root))
	}
	return found, errors.Join(faults...)
}

// Job is the Job document to submit: the folder's files, then whatever
// job.json says, with the given id.
func (s Scenario) Job(id string) ([]byte, error) {
	job := map[string]any{"language": "python", "entrypoint": "main.py", "files": s.Files}
	for key, value := range s.overrides {
		job[key] = value
	}
	job["name"] = s.Name
	job["id"] = id
	document, err := json.Marshal(job)
	if err != nil {
		return nil, fmt.Errorf("scenario %s: encode job: %w", s.Name, err)
	}
	return document, nil
}

// patientWallMS is the limit on wall time of a patient scenario that names none.
const patientWallMS = 60_000

// Patient is the scenario with a minute of wall time, unless it names a limit itself: on a machine that is busy with
// other tests a program may wait long for a processor. It fails when limits are not a JSON object.
func (s Scenario) Patient() (Scenario, error) {
	limits := map[string]any{"wall_ms": patientWallMS}
	if named, ok := s.overrides["limits"]; ok {
		if err := json.Unmarshal(named, &limits); err != nil {
			return Scenario{}, fmt.Errorf("scenario %s: limits: %w", s.Name, err)
		}
	}
	data, err := json.Marshal(limits)
	if err != nil {
		return Scenario{}, fmt.Errorf("scenario %s: encode limits: %w", s.Name, err)
	}
	overrides := map[string]json.RawMessage{}
	maps.Copy(overrides, s.overrides)
	overrides["limits"] = data
	s.overrides = overrides
	return s, nil
}

// Under is the scenario as it is under the OCI runtime of that name: with what
// want.RUNTIME.json says in place of want.json, where there is one.
func (s Scenario) Under(runtime string) Scenario {
	if want, found := s.under[runtime]; found {
		s.Want = want
	}
	return s
}

// Compare returns how the result document differs from what the scenario
// wants; nothing when it fits.
func (s Scenario) Compare(result []byte) []Difference { return s.Want.Compare(s.Files, result) }

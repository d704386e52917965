package cli

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// helpWidth is the widest that help is set, in columns.
const helpWidth = 100

// EnvPrefix starts the name of every environment variable that sets a flag.
const EnvPrefix = "TRACEFLEET_"

// ErrHelp is returned by Parse when help or the version was asked for and printed.
var ErrHelp = errors.New("help was printed")

// Command describes one of the commands to Parse.
type Command struct {
	Name        string
	Description string
	// Version is what --version prints.
	Version string
	// Getenv looks up a variable of the environment, as os.Getenv does.
	Getenv func(string) string
	Stdout io.Writer
	// Groups are the titles of groups of flags, by their key.
	Groups map[string]string
}

// Parse reads args into grammar, a pointer to a struct with kong tags, and returns
// what was chosen. A flag that args leave out is taken from the variable
// TRACEFLEET_ and the flag's name in capitals, --redis also from REDIS_URL,
// unless the flag has the tag "once". Faults are errors with CodeUsage.
func Parse(c Command, grammar any, args []string) (*kong.Context, error) {
	printed := false
	parser, err := kong.New(grammar,
		kong.Name(c.Name), kong.Description(c.Description), kong.Vars{"version": c.Version},
		kong.Writers(c.Stdout, c.Stdout), kong.Exit(func(int) { printed = true }),
		kong.Resolvers(environment(c.Getenv)), kong.ExplicitGroups(groups(c.Groups)),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true, WrapUpperBound: helpWidth}),
	)
	if err != nil {
		return nil, fmt.Errorf("build the command line: %w", err)
	}
	parsed, err := parser.Parse(args)
	switch {
	case printed:
		return nil, ErrHelp
	case err != nil:
		return nil, usage(c.Name, err)
	}
	return parsed, nil
}

func groups(titles map[string]string) []kong.Group {
	var all []kong.Group
	for _, key := range slices.Sorted(maps.Keys(titles)) {
		all = append(all, kong.Group{Key: key, Title: titles[key]})
	}
	return all
}

// usage turns a fault of the parser into one line that says where to read on.
func usage(name string, err error) error {
	command := name
	var fault *kong.ParseError
	if errors.As(err, &fault) && fault.Context != nil {
		if selected := fault.Context.Selected(); selected != nil {
			command = name + " " + selected.Path()
		}
	}
	return Usagef("%s; see %s --help", err.Error(), command)
}

// environment resolves flags from variables.
func environment(getenv func(string) string) kong.Resolver {
	return kong.ResolverFunc(func(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
		if flag.Tag.Has("once") || flag.Name == "help" || flag.Name == "version" {
			return nil, nil
		}
		text := getenv(EnvPrefix + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_")))
		if text == "" && flag.Name == "redis" {
			text = getenv("REDIS_URL")
		}
		if text == "" {
			return nil, nil
		}
		if flag.Target.Kind() == reflect.Bool {
			return text == "1" || strings.EqualFold(text, "true") || strings.EqualFold(text, "yes"), nil
		}
		return text, nil
	})
}

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/execra/tracefleet/internal/api/access"
	"github.com/execra/tracefleet/internal/cli"
)

// tokenCmd makes a token for the API.
type tokenCmd struct {
	Name   string `once:"" required:"" placeholder:"NAME" help:"Whose token it is: shown in logs, and what a rate limit goes by."`
	Role   string `once:"" enum:"read,submit,operate" default:"submit" placeholder:"ROLE" help:"read sees results, submit also submits and cancels, operate also works on dead letters and queues (${default})."`
	Tenant string `once:"" placeholder:"T" help:"The only tenant whose jobs it sees and submits; every tenant's when left out."`
	File   string `once:"" placeholder:"FILE" help:"Add the token's hash to this file, for enqueuer serve --tokens."`
}

// Help explains the command in its --help.
func (*tokenCmd) Help() string {
	return `Prints the token, once: only its SHA-256 is kept. Without --file the line for the file of tokens is printed below it. To take a token back, remove its line: running servers look at the file every two seconds, and its sessions end too.

Examples:

    enqueuer token --name execra --role submit --tenant execra --file tokens
    enqueuer token --name grafana --role read`
}

// Run carries the command out.
func (c *tokenCmd) Run(s *session) error {
	role, err := access.ParseRole(c.Role)
	if err != nil {
		return cli.Usagef("--role: %w", err)
	}
	token, line, err := access.NewToken(c.Name, role, c.Tenant)
	if err != nil {
		return cli.Usagef("--%w", err)
	}
	text := token
	if c.File == "" {
		text += "\n" + line
	} else if err := appendToken(c.File, c.Name, line); err != nil {
		return err
	}
	return s.printLine("%s", text)
}

// appendToken adds a line to a file of tokens, which only its owner may read.
func appendToken(path, name, line string) error {
	old, err := access.LoadTokens(path)
	switch {
	case err == nil && old.Has(name):
		return cli.Failf(cli.CodeRefused, "%s has a token of this name already; remove its line, or choose another name", path)
	case err != nil && !errors.Is(err, access.ErrNoTokens) && !errors.Is(err, fs.ErrNotExist):
		return cli.Failf(cli.CodeFailed, "%w", err)
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return cannotWrite(err)
	}
	if unended(file) {
		line = "\n" + line
	}
	_, err = fmt.Fprintln(file, line)
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return cannotWrite(err)
	}
	return nil
}

// unended tells whether the last line of a file lacks its end, as some editors leave it.
func unended(file *os.File) bool {
	info, err := file.Stat()
	if err != nil || info.Size() == 0 {
		return false
	}
	last := make([]byte, 1)
	_, err = file.ReadAt(last, info.Size()-1)
	return err == nil && last[0] != '\n'
}

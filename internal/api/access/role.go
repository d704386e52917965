package access

import (
	"fmt"
	"strings"
)

// Role is what a token may do. Each role includes those before it.
type Role int

// The roles.
const (
	// RoleNone may do nothing that needs a token.
	RoleNone Role = iota
	// RoleRead sees jobs and results.
	RoleRead
	// RoleSubmit also submits and cancels jobs.
	RoleSubmit
	// RoleOperate also works on dead letters and queues.
	RoleOperate
)

// Roles lists the roles that a token can have, the weakest first.
func Roles() []Role { return []Role{RoleRead, RoleSubmit, RoleOperate} }

// String gives the name of the role, as it stands in the file of tokens.
func (r Role) String() string {
	switch r {
	case RoleRead:
		return "read"
	case RoleSubmit:
		return "submit"
	case RoleOperate:
		return "operate"
	default:
		return "none"
	}
}

// ParseRole reads the name of a role.
func ParseRole(name string) (Role, error) {
	for _, r := range Roles() {
		if r.String() == name {
			return r, nil
		}
	}
	var names []string
	for _, r := range Roles() {
		names = append(names, r.String())
	}
	return RoleNone, fmt.Errorf("role: must be %s, got %.40q", strings.Join(names, ", "), name)
}

// Identity is who makes a request.
type Identity struct {
	// Name is the token's name, for logs and rate limits.
	Name string
	Role Role
	// Tenant is whose jobs the identity sees and submits; every tenant's when AllTenants is true.
	Tenant     string
	AllTenants bool
}

// May tells whether the identity has the role r.
func (i Identity) May(r Role) bool { return i.Role >= r }

// Sees tells whether jobs of the tenant are the identity's business.
func (i Identity) Sees(tenant string) bool { return i.AllTenants || i.Tenant == tenant }

// Anonymous is everybody, when no tokens are in use.
func Anonymous() Identity { return Identity{Name: "anonymous", Role: RoleOperate, AllTenants: true} }

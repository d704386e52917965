// Package access decides who may do what over HTTP: bearer tokens, the roles and
// the tenant that go with each, and sessions for browsers.
//
// Tokens are 256 random bits. The file of tokens holds only their SHA-256, which is enough for
// secrets of that size, so that who reads the file can sign in as nobody.
package access

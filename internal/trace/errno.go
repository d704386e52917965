package trace

import "fmt"

// errnoNames are the errors of Linux that files, sockets and processes give, by
// number; negative ones are those of looking up a host.
var errnoNames = map[int32]string{
	1: "EPERM", 2: "ENOENT", 3: "ESRCH", 4: "EINTR", 5: "EIO", 6: "ENXIO", 7: "E2BIG", 8: "ENOEXEC", 9: "EBADF", 10: "ECHILD",
	11: "EAGAIN", 12: "ENOMEM", 13: "EACCES", 14: "EFAULT", 16: "EBUSY", 17: "EEXIST", 18: "EXDEV", 19: "ENODEV", 20: "ENOTDIR",
	21: "EISDIR", 22: "EINVAL", 23: "ENFILE", 24: "EMFILE", 25: "ENOTTY", 26: "ETXTBSY", 27: "EFBIG", 28: "ENOSPC", 29: "ESPIPE",
	30: "EROFS", 31: "EMLINK", 32: "EPIPE", 36: "ENAMETOOLONG", 38: "ENOSYS", 39: "ENOTEMPTY", 40: "ELOOP", 75: "EOVERFLOW",
	88: "ENOTSOCK", 89: "EDESTADDRREQ", 90: "EMSGSIZE", 91: "EPROTOTYPE", 92: "ENOPROTOOPT", 93: "EPROTONOSUPPORT",
	94: "ESOCKTNOSUPPORT", 95: "EOPNOTSUPP", 96: "EPFNOSUPPORT", 97: "EAFNOSUPPORT", 98: "EADDRINUSE", 99: "EADDRNOTAVAIL",
	100: "ENETDOWN", 101: "ENETUNREACH", 102: "ENETRESET", 103: "ECONNABORTED", 104: "ECONNRESET", 105: "ENOBUFS", 106: "EISCONN",
	107: "ENOTCONN", 110: "ETIMEDOUT", 111: "ECONNREFUSED", 112: "EHOSTDOWN", 113: "EHOSTUNREACH", 114: "EALREADY",
	115: "EINPROGRESS", 122: "EDQUOT", 123: "ENOMEDIUM", 125: "ECANCELED",
	-1: "EAI_BADFLAGS", -2: "EAI_NONAME", -3: "EAI_AGAIN", -4: "EAI_FAIL", -5: "EAI_NODATA", -6: "EAI_FAMILY",
	-7: "EAI_SOCKTYPE", -8: "EAI_SERVICE", -10: "EAI_MEMORY", -11: "EAI_SYSTEM", -12: "EAI_OVERFLOW",
}

// errnoName names an error of the system.
func errnoName(number int32) string {
	if name, ok := errnoNames[number]; ok {
		return name
	}
	return fmt.Sprintf("error %d", number)
}

// familyNames are the address families of Linux that programs ask for, by number.
var familyNames = map[uint32]string{
	1: "AF_UNIX", 2: "AF_INET", 10: "AF_INET6", 15: "AF_KEY", 16: "AF_NETLINK", 17: "AF_PACKET", 29: "AF_CAN", 30: "AF_TIPC",
	31: "AF_BLUETOOTH", 38: "AF_ALG", 40: "AF_VSOCK", 42: "AF_QIPCRTR", 44: "AF_XDP",
}

// familyName names an address family; "" for 0, which stands for unknown.
func familyName(number uint32) string {
	if number == 0 {
		return ""
	}
	if name, ok := familyNames[number]; ok {
		return name
	}
	return fmt.Sprintf("AF_%d", number)
}

"""Changes what a process may change of itself, looking for what gives it more."""
import ctypes
import errno
import os
import signal

def in_child(action):
    """Run action in a child: 0 when it worked, errno when it was refused, -signal when it was killed."""
    child = os.fork()
    if child == 0:
        signal.alarm(5)
        try:
            code = action() or 0
        except OSError as error:
            code = error.errno or 255
        except BaseException:
            code = 255
        os._exit(code)
    status = os.waitpid(child, 0)[1]
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


REFUSED = {errno.EPERM, errno.EACCES, errno.ENOSYS}
# gVisor answers system calls in user space: a call allowed there does not reach the host's kernel.
EMULATED = "gvisor" in os.uname().release.lower() or "Jan 10 15:06:54 PST 2016" in os.uname().version


def judge(name, code, also=()):
    """Print the verdict on what in_child returned."""
    if code < 0:
        contained = -code in (signal.SIGSYS, signal.SIGSEGV)
        detail = "killed by " + signal.Signals(-code).name
    else:
        contained = code in REFUSED or code in also
        detail = errno.errorcode.get(code, str(code)) if code else "allowed"
        if code and not contained:
            detail = "reached the kernel: " + detail
    word = "ok" if contained else "ADVISORY" if EMULATED else "BREACH"
    print("PROBE", name, word, detail, flush=True)

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
COLUMN = ("x86_64", "aarch64").index(os.uname().machine)


def syscall(numbers, *arguments):
    """Issue a raw system call, given its number on x86_64 and on aarch64; return (result, errno)."""
    number = numbers[COLUMN]
    if number is None:
        return -1, errno.ENOSYS
    converted = (ctypes.c_long(a) if isinstance(a, int) else a for a in arguments)
    result = libc.syscall(ctypes.c_long(number), *converted)
    return result, ctypes.get_errno() if result == -1 else 0


def refuse(name, numbers, *arguments, also=()):
    """Probe that a call is refused."""
    judge(name, in_child(lambda: syscall(numbers, *arguments)[1]), also)


def control(option, *arguments):
    return syscall((157, 167), option, *arguments)[1]


def still_no_new_privileges():
    control(38, 0, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS to 0
    return errno.EPERM if syscall((157, 167), 39, 0, 0, 0, 0)[0] == 1 else 0


for name, action in {
    "ambient_capability": lambda: control(47, 2, 21, 0, 0),
    "keep_capabilities_locked": lambda: control(28, 0x2F),  # PR_SET_SECUREBITS
    "set_mm": lambda: control(35, 6, 0, 0, 0),
    "timing": lambda: control(14, 1),
    "no_new_privileges_off": still_no_new_privileges,
}.items():
    judge(name, in_child(action), also={errno.EINVAL})
judge("seccomp_listener", in_child(lambda: syscall((317, 277), 1, 8, ctypes.create_string_buffer(16))[1]), also={errno.EINVAL, errno.EFAULT})
for name, numbers in {"setuid": (105, 146), "setgid": (106, 144)}.items():
    refuse(name, numbers, 0)
refuse("setresuid", (117, 147), 0, 0, 0)
refuse("setgroups", (116, 159), 1, (ctypes.c_uint32 * 1)(0))
header, data = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)(*([1 << 21] * 6))
refuse("capset", (126, 91), header, data)
refuse("setfsuid_took", (122, 151), 0, also={0}) if syscall((122, 151), -1)[0] == os.getuid() else judge("setfsuid", 0)
print("DONE")

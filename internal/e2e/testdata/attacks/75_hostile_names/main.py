"""Gives code, files, classes and variables names that bite whoever prints, parses or opens them."""


def stand_in():
    value = 1
    return value


NAMES = ["\x1b]0;owned\x07", "\x00", "\ud800", "a" * 200_000, "../../../../etc/passwd", "<script>alert(1)</script>", "\u202egnp.exe",
         '{"status":"ok"}', "\n\n", "", "%s%n%x", "\\"]
code = stand_in.__code__
for name in NAMES:
    for change in ({"co_name": name}, {"co_qualname": name}, {"co_filename": name}, {"co_varnames": (name,)}):
        try:
            changed = code.replace(**change)
        except (ValueError, TypeError, UnicodeError):
            continue
        exec(changed)
for line in (0, 1, 2**31 - 1):
    exec(code.replace(co_firstlineno=line))
for name in NAMES:
    try:
        made = type(name or "x", (Exception,), {name: 1})
        try:
            raise made(name)
        except made as error:
            kept = error
    except (ValueError, TypeError, UnicodeError):
        pass
try:
    exec(compile("def inner():\n    raise KeyError('found')\ninner()\n", "main.py\n  File \"/etc/shadow\", line 1", "exec"))
except KeyError:
    pass
print("DONE")

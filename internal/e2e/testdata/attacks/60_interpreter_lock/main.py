"""Holds the interpreter's lock in one long C call: a timer inside the interpreter would never run."""
import re

print("START", flush=True)
re.match("(a|a)*$", "a" * 60 + "b")
print("PROBE time BREACH the search came to an end")
print("DONE")

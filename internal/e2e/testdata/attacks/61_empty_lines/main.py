"""Writes 20,000 empty lines, each by a call of its own: every one must arrive."""
import sys

sys.stdout.writelines(["\n"] * 20_000)
sys.stderr.write("DONE\n")

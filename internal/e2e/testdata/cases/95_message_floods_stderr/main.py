def load(lines):
    raise ValueError("cannot read: " + "\n".join(lines))


load(["a line of the file that could not be read"] * 10000)

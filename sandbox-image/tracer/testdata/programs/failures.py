import json


class Trouble(Exception):
    def __str__(self):
        raise RuntimeError("asked")


class Code:
    def __repr__(self):
        raise RuntimeError("asked")


def parse(text):
    try:
        return json.loads(text)
    except ValueError as error:
        raise Trouble("bad text", text, Code()) from error


def tidy():
    try:
        open("/no/such/file")
    except OSError:
        parse("{")


ключ = {}
try:
    tidy()
except Trouble as trouble:
    problems = [trouble, KeyError("salt"), UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), ExceptionGroup("in", [OSError(2, "No")])]
    try:
        raise ExceptionGroup("several", problems) from None
    except* KeyError:
        ключ["é"]["x"]

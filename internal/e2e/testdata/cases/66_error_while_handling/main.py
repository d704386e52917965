import json


class Store:
    def __init__(self, text):
        self.rows = json.loads(text)

    def get(self, key):
        try:
            return self.rows[key]
        except KeyError:
            return self.fallback(key)

    def fallback(self, key):
        return self.defaults[key]


def load(text):
    try:
        return Store(text)
    except ValueError as error:
        print("not JSON:", type(error).__name__, error.pos)
        return Store("{}")
    else:
        print("never")
    finally:
        print("loaded")


store = load('{"a": 1')
print(load('{"a": 1}').get("a"))
store.get("b")
